"""Probes over HTTP: a URL's status and body, and a Prometheus query's values."""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self
from urllib.parse import urlencode

import orjson

from pytest_kscen.kube.api import HttpCall
from pytest_kscen.kube.urls import ask, parts_of
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
    """A probe's, and that of a StatusCheck."""

    key: ClassVar[str] = "http"
    patience: ClassVar[float] = 1.0

    url: str
    call: HttpCall
    status_code: str = SUCCESS_STATUSES
    """One, or a range with both its ends."""
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
        call = HttpCall(
            part.choice("method", METHODS, "GET"), "/", _headers(part), part.text("body").encode()
        )
        return cls(url, call, _status_code(criteria), criteria.text("body"))

    async def ask(self, context: ProbeContext, within: float) -> ProbeOutcome:
        answer = await ask(context.actor.api, self.url, self.call, within)
        low, _, high = self.status_code.partition("-")
        if not int(low) <= answer.status <= int(high or low):
            return ProbeOutcome(
                False,
                (
                    f"{self.url} answered {answer.status}, and {self.status_code} was "
                    f"expected{_said(answer)}"
                ),
            )
        if self.contains not in answer.text:
            return ProbeOutcome(
                False,
                (
                    f"{self.url} answered {answer.status} without {self.contains!r} in its "
                    f"body{_said(answer)}"
                ),
            )
        return ProbeOutcome(True, f"{self.url} answered {answer.status}")


def _status_code(criteria: FieldReader) -> str:
    value = criteria.body.get("statusCode", SUCCESS_STATUSES)
    match = STATUS_CODE.fullmatch(str(value)) if not isinstance(value, bool) else None
    if match is None:
        criteria.wrong(
            f"must be a status such as '200', or a range such as '200-399', and is {value!r}",
            "statusCode",
        )
        return SUCCESS_STATUSES
    if match[2] and match[1] > match[2]:
        criteria.wrong(f"{value!r} is a range that nothing is in", "statusCode")
    return str(value)


def _headers(part: FieldReader) -> tuple[tuple[str, str], ...]:
    """Each with one value, or with a list of them as Chaos Mesh has it."""
    headers = part.part("headers")
    found = []
    for name, value in headers.body.items():
        values = value if isinstance(value, list) else [value]
        if not all(isinstance(each, str) for each in values):
            headers.wrong(f"must be a string or a list of strings, and is {value!r}", name)
            continue
        found.append((name, ", ".join(values)))
    return tuple(found)


def _said(answer: HttpAnswer) -> str:
    """The beginning of its body, or the words of an API server that did not find anybody to ask."""
    said = " ".join((_refusal(answer) or answer.text).split())
    return f": {said[:SHOWN]}{'…' * (len(said) > SHOWN)}" if said else ""


def _refusal(answer: HttpAnswer) -> str:
    with contextlib.suppress(orjson.JSONDecodeError):
        status = orjson.loads(answer.body)
        if isinstance(status, dict) and status.get("kind") == "Status":
            return str(status.get("message", ""))
    return ""


# Prometheus: an instant query, and an expression over the values that it gives.


VARIABLES = {"value": FLOAT, "values": ARRAY}
QUERY = "/api/v1/query"
QUERY_SUCCEEDED = 200


@dataclass(frozen=True, slots=True)
class PrometheusProbe:
    """What is asked of a server."""

    key: ClassVar[str] = "prometheus"
    patience: ClassVar[float] = 5.0

    url: str
    query: str
    expression: str = ""
    """Over `value`, the first, and `values`; without one there must be any, as where PromQL
    itself compares.
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
        answer = await ask(context.actor.api, url, HttpCall(), within)
        values = values_in(answer)
        found = f"{self.query} is {_shown(values)}"
        if not self.expression:
            return ProbeOutcome(bool(values), found)
        return judge_expression(
            self.expression, {"value": values[0] if values else None, "values": values}, found
        )


def values_in(answer: HttpAnswer) -> list[float]:
    """The numbers of an instant query's answer."""
    try:
        said: Any = orjson.loads(answer.body)
    except orjson.JSONDecodeError:
        said = None
    if (
        not isinstance(said, dict)
        or said.get("status") != "success"
        or answer.status != QUERY_SUCCEEDED
    ):
        why = said.get("error") if isinstance(said, dict) else None
        raise ValueError(
            f"Prometheus answered {answer.status}: {why or answer.text[:200] or 'nothing'}"
        )
    match said.get("data"):
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
    """That of an instant and a value."""
    match sample:
        case [_, str() | int() | float() as value]:
            return float(value)
    raise ValueError(f"a sample of Prometheus has no number: {sample!r:.200}")


def _shown(values: list[float]) -> str:
    return ", ".join(f"{value:g}" for value in values) or "nothing"
