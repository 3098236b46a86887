"""What may stand where, put together from small parts: a part looks at a value and tells what is wrong with it.

A value that is null is not there, as Kubernetes has it. What has no place in a record is told as a warning, with the nearest
name that has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from pytest_kscen.objects.guesses import nearest
from pytest_kscen.workflow.validation.fault import Fault, error, warning

if TYPE_CHECKING:
    from pytest_kscen.objects.documents import Path

Shape: TypeAlias = Callable[[Any, "Path"], Iterator[Fault]]
Check: TypeAlias = Callable[[str], str]
"""Tells what is wrong with a text, or nothing."""

LONGEST_SHOWN = 60
KNOWN_SHOWN = 12


def anything(value: Any, path: Path) -> Iterator[Fault]:  # noqa: ARG001  # a shape's signature
    """What somebody else judges."""
    yield from ()


def text(check: Check = lambda _: "", *, empty: bool = True) -> Shape:
    """A text, of a certain form or of any."""

    def look(value: Any, path: Path) -> Iterator[Fault]:
        if not isinstance(value, str):
            quoted = ": put it in quotes" if isinstance(value, bool | int | float) else ""
            yield error(path, f"{shown(value)} is no text{quoted}")
        elif not value and not empty:
            yield error(path, f"{path[-1]} is empty")
        elif complaint := check(value):
            yield error(path, complaint)

    return look


def one_of(*words: str) -> Shape:
    def check(value: str) -> str:
        return "" if value in words else f"{shown(value)} is none of {', '.join(words)}{nearest(value, words)}"

    return text(check)


def whole(low: int | None = None, high: int | None = None) -> Shape:
    """A whole number, within bounds."""

    def look(value: Any, path: Path) -> Iterator[Fault]:
        if not isinstance(value, int) or isinstance(value, bool):
            yield error(path, f"{shown(value)} is no whole number")
        elif low is not None and value < low:
            yield error(path, f"{value} is too small: {low} is the least")
        elif high is not None and value > high:
            yield error(path, f"{value} is too large: {high} is the most")

    return look


def number(value: Any, path: Path) -> Iterator[Fault]:
    if not isinstance(value, int | float) or isinstance(value, bool):
        yield error(path, f"{shown(value)} is no number")


def yes_or_no(value: Any, path: Path) -> Iterator[Fault]:
    if not isinstance(value, bool):
        yield error(path, f"{shown(value)} is neither true nor false")


def a_list(of: Shape, *, least: int = 0) -> Shape:
    def look(value: Any, path: Path) -> Iterator[Fault]:
        if not isinstance(value, list):
            yield error(path, f"{shown(value)} is no list")
            return
        if len(value) < least:
            yield error(path, f"{path[-1]} is empty")
        for place, each in enumerate(value):
            yield from of(each, (*path, str(place)))

    return look


def a_map(of: Shape) -> Shape:
    """Names, each with something of the same form."""

    def look(value: Any, path: Path) -> Iterator[Fault]:
        if not isinstance(value, Mapping):
            yield error(path, f"{shown(value)} is no map")
            return
        for key, each in value.items():
            yield from of(each, (*path, str(key)))

    return look


def a_record(fields: Mapping[str, Shape], *required: str) -> Shape:
    """Names that are known, each with a form of its own."""

    def look(value: Any, path: Path) -> Iterator[Fault]:
        if not isinstance(value, Mapping):
            names = known(fields or dict.fromkeys(required))
            yield error(path, f"{shown(value)} is no map{names and f' with {names}'}")
            return
        for name in required:
            if value.get(name) is None:
                yield error(path, f"{name} is missing")
        for key, each in value.items():
            if key not in fields:
                yield warning((*path, str(key)), f"nothing is called {key!r} here{nearest(str(key), fields)}: it is ignored")
            elif each is not None:
                yield from fields[key](each, (*path, key))

    return look


def shown(value: Any) -> str:
    """A value in a message."""
    words = "nothing" if value is None else repr(value)
    return words if len(words) <= LONGEST_SHOWN else f"{words[: LONGEST_SHOWN - 1]}…"


def known(names: Mapping[str, Any]) -> str:
    first = [*names][:KNOWN_SHOWN]
    return ", ".join(first) + (", …" if len(names) > len(first) else "")
