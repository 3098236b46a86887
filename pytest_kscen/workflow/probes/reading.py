"""Reading what a person wrote, part by part: whatever is wrong is collected with its path, so that all of it is told at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_kscen.objects.durations import seconds_of_text

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

NAMES = {str: "a string", dict: "an object", list: "a list", int: "a whole number", bool: "true or false"}


class Mistake(NamedTuple):
    """What is wrong, and where: `templates[2].probes[0].http.url`."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


class WrongProbe(ValueError):
    """A probe that cannot be asked as it is written."""

    def __init__(self, mistakes: Iterable[Mistake]) -> None:
        self.mistakes = tuple(mistakes)
        super().__init__("\n".join(map(str, self.mistakes)))


class Part:
    """One object of it. What is missing or wrong reads as its default."""

    def __init__(self, body: Any, path: str, mistakes: list[Mistake]) -> None:
        self.path = path
        self.mistakes = mistakes
        self.body: dict[str, Any] = body if isinstance(body, dict) else {}
        if not isinstance(body, dict):
            self.wrong("must be an object")
            self.mistakes = []  # of what is in it, nothing can be said

    def wrong(self, message: str, name: str = "") -> None:
        self.mistakes.append(Mistake(f"{self.path}.{name}" if name else self.path, message))

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
            self.wrong(f"must be {'more than zero' if above_zero else 'zero or more'}, and is {text}", name)
            return default
        return seconds

    def part(self, name: str) -> Part:
        """An object in it; an empty one if it is missing."""
        return Part(self.body.get(name) if self.has(name) else {}, f"{self.path}.{name}", self.mistakes)

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
