"""Parts that all forms of a probe share: reading from JSON, outcomes, verdicts and expressions.

Reading collects every error with its path, so that a user sees all of them at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, Self

from pytest_kscen.objects.arguments import seconds_of_text
from pytest_kscen.workflow.expressions import expression_error, select

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from pytest_kscen.kube.actor import Actor
    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.workflow.probes.probe import Probe


@dataclass(frozen=True, slots=True)
class ProbeContext:
    """Subject of a probe and the actor that probes it: workflow, namespace and, for a node,
    node.
    """

    actor: Actor
    subject: dict[str, str]
    owner: Obj | None = None
    """Owner reference for objects that the probe creates, or None."""

    @property
    def namespace(self) -> str:
        return self.subject.get("namespace", "default")

    @property
    def of(self) -> str:
        return self.subject.get("node") or self.subject.get("workflow", "")


class ProbeForm(Protocol):
    """Form of a probe: reads itself from JSON, and probes the system under test.

    `ask` is called once per attempt and cancelled after the probe's timeout. Further forms may be
    registered by plugins, under the key that holds them in a probe's body.
    """

    key: ClassVar[str]
    """Key in the body of a probe, which has this form's parameters."""
    patience: ClassVar[float]
    """Default time limit of one attempt, in seconds."""

    @classmethod
    def of(cls, part: FieldReader) -> Self: ...

    async def ask(self, context: ProbeContext, within: float) -> ProbeOutcome:
        """Probe once, within so many seconds; raise ApiError, OSError or ValueError if that is
        impossible.
        """


NAMES = {
    str: "a string",
    dict: "an object",
    list: "a list",
    int: "a whole number",
    bool: "true or false",
}


class ProbeFieldError(NamedTuple):
    """Error in a probe's definition, with its path: `templates[2].probes[0].http.url`."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


class InvalidProbe(ValueError):
    """Definition of probes with errors: `errors` has each with its path."""

    def __init__(self, errors: Iterable[ProbeFieldError]) -> None:
        self.errors = tuple(errors)
        super().__init__("\n".join(map(str, self.errors)))


class FieldReader:
    """Typed reader of one JSON object of a probe's definition.

    A missing or wrong field is noted in the shared list of errors and reads as its default, so that
    reading goes on and a user sees all errors at once.
    """

    def __init__(self, body: Any, path: str, errors: list[ProbeFieldError]) -> None:
        self.path = path
        self.errors = errors
        self.body: dict[str, Any] = body if isinstance(body, dict) else {}
        if not isinstance(body, dict):
            self.wrong("must be an object")
            self.errors = []  # errors inside it would be meaningless

    def wrong(self, message: str, name: str = "") -> None:
        self.errors.append(ProbeFieldError(f"{self.path}.{name}" if name else self.path, message))

    def only(self, known: Collection[str]) -> None:
        for name in self.body:
            if name not in known:
                self.wrong(f"is not known here; known are {', '.join(known)}", name)

    def has(self, name: str) -> bool:
        return self.body.get(name) is not None

    def text(self, name: str, default: str = "", *, required: bool = False) -> str:
        value = self._of_type(name, str, default, required=required)
        if required and self.has(name) and value == "":
            self.wrong("must not be empty", name)
        return str(value)

    def choice(self, name: str, choices: Collection[str], default: str = "") -> str:
        value = self.text(name, default, required=not default)
        if self.has(name) and value not in choices:
            self.wrong(f"{value!r} is none of {', '.join(choices)}", name)
            return default
        return value

    def flag(self, name: str, *, default: bool) -> bool:
        return bool(self._of_type(name, bool, default))

    def whole(self, name: str, default: int, least: int | None = None) -> int:
        value = self._of_type(name, int, default)
        if least is not None and value < least:
            self.wrong(f"must be at least {least}, and is {value}", name)
            return default
        return int(value)

    def length(self, name: str, default: float, *, above_zero: bool = False) -> float:
        text = self.text(name)
        if not text:
            return default
        try:
            seconds = seconds_of_text(text)
        except ValueError as error:
            self.wrong(str(error), name)
            return default
        if seconds < 0 or (above_zero and not seconds):
            self.wrong(
                f"must be {'more than zero' if above_zero else 'zero or more'}, and is {text}", name
            )
            return default
        return seconds

    def part(self, name: str) -> FieldReader:
        """Return a reader of a nested object; an empty one if the field is missing."""
        return FieldReader(
            self.body.get(name) if self.has(name) else {}, f"{self.path}.{name}", self.errors
        )

    def _of_type(self, name: str, type_: type, default: Any, *, required: bool = False) -> Any:
        value = self.body.get(name)
        if value is None:
            if required:
                self.wrong("is missing", name)
            return default
        if not isinstance(value, type_) or (isinstance(value, bool) and type_ is not bool):
            self.wrong(f"must be {NAMES[type_]}, and is {value!r}", name)
            return default
        return value


class ProbeOutcome(NamedTuple):
    """Outcome of one attempt: passed or not, with a message for the status and the journal."""

    passed: bool
    message: str = ""


@dataclass(frozen=True, slots=True)
class ProbeVerdict:
    """Verdict of a Start or End probe after all its attempts, with the message of the last one."""

    probe: Probe
    passed: bool
    message: str = ""

    @property
    def stops(self) -> bool:
        return not self.passed and self.probe.stop_on_failure


def read_expression(part: FieldReader, variables: Mapping[str, str]) -> str:
    """Read the field `expression`, and note its errors, given the kinds of the variables."""
    text = part.text("expression").strip()
    if wrong := expression_error(text, variables):
        part.wrong(wrong, "expression")
    return text


def judge_expression(expression: str, variables: Mapping[str, Any], found: str) -> ProbeOutcome:
    """Evaluate the expression; raise ExpressionError, with the reason, if it has no value."""
    if select(expression, variables):
        return ProbeOutcome(True, found)
    return ProbeOutcome(False, f"{found}, and {expression!r} was expected")
