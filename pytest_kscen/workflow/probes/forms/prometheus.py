"""Prometheus: an instant query, and an expression over the values that it gives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self
from urllib.parse import urlencode

import orjson

from pytest_kscen.kube.requests import HttpCall
from pytest_kscen.kube.urls import ask, parts_of
from pytest_kscen.workflow.expressions.values import ARRAY, FLOAT
from pytest_kscen.workflow.probes.forms.judging import expression_in, judged
from pytest_kscen.workflow.probes.verdicts import Outcome

if TYPE_CHECKING:
    from pytest_kscen.kube.requests import HttpAnswer
    from pytest_kscen.workflow.probes.forms.form import Errand
    from pytest_kscen.workflow.probes.reading import Part

VARIABLES = {"value": FLOAT, "values": ARRAY}
QUERY = "/api/v1/query"
SUCCESS = 200


@dataclass(frozen=True, slots=True)
class Prometheus:
    """What is asked of a server."""

    patience: ClassVar[float] = 5.0

    url: str
    query: str
    expression: str = ""
    """Over `value`, the first, and `values`; without one there must be any, as where PromQL itself compares."""

    @classmethod
    def of(cls, part: Part) -> Self:
        part.only(("url", "query", "expression"))
        url = part.text("url", required=True)
        try:
            if url:
                parts_of(url)
        except ValueError as error:
            part.wrong(str(error), "url")
        return cls(url.rstrip("/"), part.text("query", required=True), expression_in(part, VARIABLES))

    async def ask(self, errand: Errand, within: float) -> Outcome:
        url = f"{self.url}{QUERY}?{urlencode({'query': self.query})}"
        answer = await ask(errand.actor.api, url, HttpCall(), within)
        values = values_in(answer)
        found = f"{self.query} is {_shown(values)}"
        if not self.expression:
            return Outcome(bool(values), found)
        return judged(self.expression, {"value": values[0] if values else None, "values": values}, found)


def values_in(answer: HttpAnswer) -> list[float]:
    """The numbers of an instant query's answer."""
    try:
        said: Any = orjson.loads(answer.body)
    except orjson.JSONDecodeError:
        said = None
    if not isinstance(said, dict) or said.get("status") != "success" or answer.status != SUCCESS:
        why = said.get("error") if isinstance(said, dict) else None
        raise ValueError(f"Prometheus answered {answer.status}: {why or answer.text[:200] or 'nothing'}")
    match said.get("data"):
        case {"resultType": "vector", "result": [*samples]}:
            return [_number(sample.get("value") if isinstance(sample, dict) else None) for sample in samples]
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
