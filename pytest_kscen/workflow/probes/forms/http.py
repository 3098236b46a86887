"""HTTP: a URL answers with an expected status, and with an expected text in its body if one is said."""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

import orjson

from pytest_kscen.kube.requests import HttpCall
from pytest_kscen.kube.urls import ask, parts_of
from pytest_kscen.workflow.probes.verdicts import Outcome

if TYPE_CHECKING:
    from pytest_kscen.kube.requests import HttpAnswer
    from pytest_kscen.workflow.probes.forms.form import Errand
    from pytest_kscen.workflow.probes.reading import Part

METHODS = ("GET", "POST")
SUCCESS = "200-299"
STATUS_CODE = re.compile(r"(\d{3})(?:-(\d{3}))?")
SHOWN = 120  # characters of a body


@dataclass(frozen=True, slots=True)
class Http:
    """A probe's, and that of a StatusCheck."""

    patience: ClassVar[float] = 1.0

    url: str
    call: HttpCall
    status_code: str = SUCCESS
    """One, or a range with both its ends."""
    contains: str = ""

    @classmethod
    def of(cls, part: Part) -> Self:
        part.only(("url", "method", "headers", "body", "criteria"))
        url = part.text("url", required=True)
        try:
            if url:
                parts_of(url)
        except ValueError as error:
            part.wrong(str(error), "url")
        criteria = part.part("criteria")
        criteria.only(("statusCode", "body"))
        call = HttpCall(part.choice("method", METHODS, "GET"), "/", _headers(part), part.text("body").encode())
        return cls(url, call, _status_code(criteria), criteria.text("body"))

    async def ask(self, errand: Errand, within: float) -> Outcome:
        answer = await ask(errand.actor.api, self.url, self.call, within)
        low, _, high = self.status_code.partition("-")
        if not int(low) <= answer.status <= int(high or low):
            return Outcome(False, f"{self.url} answered {answer.status}, and {self.status_code} was expected{_said(answer)}")
        if self.contains not in answer.text:
            return Outcome(False, f"{self.url} answered {answer.status} without {self.contains!r} in its body{_said(answer)}")
        return Outcome(True, f"{self.url} answered {answer.status}")


def _status_code(criteria: Part) -> str:
    value = criteria.body.get("statusCode", SUCCESS)
    match = STATUS_CODE.fullmatch(str(value)) if not isinstance(value, bool) else None
    if match is None:
        criteria.wrong(f"must be a status such as '200', or a range such as '200-399', and is {value!r}", "statusCode")
        return SUCCESS
    if match[2] and match[1] > match[2]:
        criteria.wrong(f"{value!r} is a range that nothing is in", "statusCode")
    return str(value)


def _headers(part: Part) -> tuple[tuple[str, str], ...]:
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
