"""Probes over HTTP: a URL's status and body, and the values of a Prometheus query."""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self
from urllib.parse import urlencode

import orjson

from pytest_kscen.kube.api import HttpCall
from pytest_kscen.kube.urls import parts_of, send_request
from pytest_kscen.workflow.expressions.values import ARRAY, FLOAT
from pytest_kscen.workflow.probes.form import ProbeOutcome, judge_expression, read_expression

if TYPE_CHECKING:
    from pytest_kscen.kube.api import HttpAnswer
    from pytest_kscen.workflow.probes.form import FieldReader, ProbeContext


METHODS = ("GET", "POST")
SUCCESS_STATUSES = "200-299"
STATUS_CODE = re.compile(r"(\d{3})(?:-(\d{3}))?")
SHOWN = 120  # characters of a body


@dataclass(frozen=True, slots=True)
class HttpProbe:
    """HTTP request of a probe or of a StatusCheck, and the answer that it requires."""

    key: ClassVar[str] = "http"
    patience: ClassVar[float] = 1.0

    url: str
    call: HttpCall
    status_code: str = SUCCESS_STATUSES
    """Required status, or a range with both its ends: `200-299`."""
    contains: str = ""

    @classmethod
    def of(cls, part: FieldReader) -> Self:
        part.only(("url", "method", "headers", "body", "criteria"))
        url = part.text("url", required=True)
        try:
            if url:
                parts_of(url)
        except ValueError as error:
            part.wrong(str(error), "url")
        criteria = part.part("criteria")
        criteria.only(("statusCode", "body"))
        method = part.choice("method", METHODS, "GET")
        headers = part.part("headers")
        fields: list[tuple[str, str]] = []
        for name, value in headers.body.items():  # one value, or a list of them as in Chaos Mesh
            values = value if isinstance(value, list) else [value]
            if all(isinstance(each, str) for each in values):
                fields.append((name, ", ".join(values)))
            else:
                headers.wrong(f"must be a string or a list of strings, and is {value!r}", name)
        call = HttpCall(method, "/", tuple(fields), part.text("body").encode())
        status = criteria.body.get("statusCode", SUCCESS_STATUSES)
        match = STATUS_CODE.fullmatch(str(status)) if not isinstance(status, bool) else None
        if match is None:
            criteria.wrong(
                f"must be a status such as '200', or a range such as '200-399', and is {status!r}",
                "statusCode",
            )
            status = SUCCESS_STATUSES
        elif match[2] and match[1] > match[2]:
            criteria.wrong(f"{status!r} is an empty range", "statusCode")
        return cls(url, call, str(status), criteria.text("body"))

    async def ask(self, context: ProbeContext, within: float) -> ProbeOutcome:
        answer = await send_request(context.actor.api, self.url, self.call, within)
        low, _, high = self.status_code.partition("-")
        if not int(low) <= answer.status <= int(high or low):
            return ProbeOutcome(
                False,
                (
                    f"{self.url} answered {answer.status}, and {self.status_code} was "
                    f"expected{_excerpt(answer)}"
                ),
            )
        if self.contains not in answer.text:
            return ProbeOutcome(
                False,
                (
                    f"{self.url} answered {answer.status} without {self.contains!r} in its "
                    f"body{_excerpt(answer)}"
                ),
            )
        return ProbeOutcome(True, f"{self.url} answered {answer.status}")


def _excerpt(answer: HttpAnswer) -> str:
    """Return the beginning of an answer's body, or the message of an API server's own refusal."""
    text = answer.text
    with contextlib.suppress(orjson.JSONDecodeError):
        status = orjson.loads(answer.body)
        if isinstance(status, dict) and status.get("kind") == "Status":
            text = str(status.get("message", "")) or text
    text = " ".join(text.split())
    return f": {text[:SHOWN]}{'…' * (len(text) > SHOWN)}" if text else ""


VARIABLES = {"value": FLOAT, "values": ARRAY}
QUERY = "/api/v1/query"
QUERY_SUCCEEDED = 200


@dataclass(frozen=True, slots=True)
class PrometheusProbe:
    """Instant query of a Prometheus server, and an expression over its values."""

    key: ClassVar[str] = "prometheus"
    patience: ClassVar[float] = 5.0

    url: str
    query: str
    expression: str = ""
    """Expression over `value` (the first) and `values`; without one the result must not be
    empty.
    """

    @classmethod
    def of(cls, part: FieldReader) -> Self:
        part.only(("url", "query", "expression"))
        url = part.text("url", required=True)
        try:
            if url:
                parts_of(url)
        except ValueError as error:
            part.wrong(str(error), "url")
        return cls(
            url.rstrip("/"), part.text("query", required=True), read_expression(part, VARIABLES)
        )

    async def ask(self, context: ProbeContext, within: float) -> ProbeOutcome:
        url = f"{self.url}{QUERY}?{urlencode({'query': self.query})}"
        answer = await send_request(context.actor.api, url, HttpCall(), within)
        values = values_in(answer)
        found = f"{self.query} is {', '.join(f'{value:g}' for value in values) or 'nothing'}"
        if not self.expression:
            return ProbeOutcome(bool(values), found)
        return judge_expression(
            self.expression, {"value": values[0] if values else None, "values": values}, found
        )


def values_in(answer: HttpAnswer) -> list[float]:
    """Return the numbers of an instant query's answer; raise ValueError if it has none."""
    try:
        content: Any = orjson.loads(answer.body)
    except orjson.JSONDecodeError:
        content = None
    if (
        not isinstance(content, dict)
        or content.get("status") != "success"
        or answer.status != QUERY_SUCCEEDED
    ):
        why = content.get("error") if isinstance(content, dict) else None
        raise ValueError(
            f"Prometheus answered {answer.status}: {why or answer.text[:200] or 'nothing'}"
        )
    match content.get("data"):
        case {"resultType": "vector", "result": [*samples]}:
            return [
                _number(sample.get("value") if isinstance(sample, dict) else None)
                for sample in samples
            ]
        case {"resultType": "scalar", "result": sample}:
            return [_number(sample)]
        case {"resultType": "matrix" | "string" as kind}:
            raise ValueError(f"an instant query gives a vector or a scalar, and this one a {kind}")
    raise ValueError(f"Prometheus' answer has no result that can be read: {answer.text[:200]}")


def _number(sample: Any) -> float:
    """Return the number of a sample, which is a pair of an instant and a value."""
    match sample:
        case [_, str() | int() | float() as value]:
            return float(value)
    raise ValueError(f"a sample of Prometheus has no number: {sample!r:.200}")
