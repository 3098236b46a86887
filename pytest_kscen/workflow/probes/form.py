"""Parts that all forms of a probe share: the base class, reading from JSON with collected
errors, verdicts and criteria.
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
    """In whose name is asked, and about whom."""

    actor: Actor
    subject: dict[str, str]
    owner: Obj | None = None
    """The reference that what is made on the way carries."""

    @property
    def namespace(self) -> str:
        return self.subject.get("namespace", "default")

    @property
    def of(self) -> str:
        return self.subject.get("node") or self.subject.get("workflow", "")


class ProbeForm(Protocol):
    """A way to ask."""

    key: ClassVar[str]
    """Key in the body of a probe, which has this form's parameters."""
    patience: ClassVar[float]
    """Seconds that it waits for an answer if nothing else is said."""

    @classmethod
    def of(cls, part: FieldReader) -> Self: ...

    async def ask(self, context: ProbeContext, within: float) -> ProbeOutcome:
        """What cannot be asked is an ApiError, an OSError or a ValueError; who asks stops
        waiting after `within` seconds.
        """


# Reading what a person wrote, part by part: whatever is wrong is collected with its path, so
# that all of it is told at once.


NAMES = {
    str: "a string",
    dict: "an object",
    list: "a list",
    int: "a whole number",
    bool: "true or false",
}


class ProbeFieldError(NamedTuple):
    """What is wrong, and where: `templates[2].probes[0].http.url`."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


class InvalidProbe(ValueError):
    """A probe that cannot be asked as it is written."""

    def __init__(self, mistakes: Iterable[ProbeFieldError]) -> None:
        self.mistakes = tuple(mistakes)
        super().__init__("\n".join(map(str, self.mistakes)))


class FieldReader:
    """One object of it. What is missing or wrong reads as its default."""

    def __init__(self, body: Any, path: str, mistakes: list[ProbeFieldError]) -> None:
        self.path = path
        self.mistakes = mistakes
        self.body: dict[str, Any] = body if isinstance(body, dict) else {}
        if not isinstance(body, dict):
            self.wrong("must be an object")
            self.mistakes = []  # of what is in it, nothing can be said

    def wrong(self, message: str, name: str = "") -> None:
        self.mistakes.append(ProbeFieldError(f"{self.path}.{name}" if name else self.path, message))

    def only(self, known: Collection[str]) -> None:
        """Nothing else may be in it."""
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
        """Seconds of a duration."""
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
        """An object in it; an empty one if it is missing."""
        return FieldReader(
            self.body.get(name) if self.has(name) else {}, f"{self.path}.{name}", self.mistakes
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


# What came of asking: whether it is as it should be, and in which words.


class ProbeOutcome(NamedTuple):
    """Of one question."""

    passed: bool
    message: str = ""


@dataclass(frozen=True, slots=True)
class ProbeVerdict:
    """Of a probe at an edge, after as many attempts as it has."""

    probe: Probe
    passed: bool
    message: str = ""

    @property
    def stops(self) -> bool:
        """Whether what is being probed has failed by it."""
        return not self.passed and self.probe.stop_on_failure


# Expressions that judge what a probe has found, in the language of a Task's branches.


def read_expression(part: FieldReader, variables: Mapping[str, str]) -> str:
    """What a person wrote; the kinds of the variables are known."""
    text = part.text("expression").strip()
    if wrong := expression_error(text, variables):
        part.wrong(wrong, "expression")
    return text


def judge_expression(expression: str, variables: Mapping[str, Any], found: str) -> ProbeOutcome:
    """One that has no value is an ExpressionError, which says why."""
    if select(expression, variables):
        return ProbeOutcome(True, found)
    return ProbeOutcome(False, f"{found}, and {expression!r} was expected")
