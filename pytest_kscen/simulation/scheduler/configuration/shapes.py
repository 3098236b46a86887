"""What a part of a configuration may look like: small judges, put together into larger ones.

A judge looks at a value and its place and yields what is wrong, in words for people.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from pytest_kscen.objects.durations import seconds_of_text
from pytest_kscen.objects.guesses import nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    Judge: TypeAlias = Callable[[Any, str], Iterable[str]]


def anything(_: Any, __: str) -> Iterator[str]:
    yield from ()


def text(value: Any, place: str) -> Iterator[str]:
    if not isinstance(value, str):
        yield f"{place}: {value!r} is no text"


def filled(value: Any, place: str) -> Iterator[str]:
    """A text that is not empty."""
    if not isinstance(value, str) or not value:
        yield f"{place}: {value!r} is no name"


def truth(value: Any, place: str) -> Iterator[str]:
    if not isinstance(value, bool):
        yield f"{place}: {value!r} is neither true nor false"


def duration(value: Any, place: str) -> Iterator[str]:
    try:
        seconds_of_text(value)
    except (ValueError, TypeError):
        yield f"{place}: {value!r} is no duration: write a number and a unit, as in '5s'"


def whole(low: int, high: int | None = None) -> Judge:
    """A whole number within bounds, both included."""

    def judge(value: Any, place: str) -> Iterator[str]:
        if not isinstance(value, int) or isinstance(value, bool):
            yield f"{place}: {value!r} is no whole number"
        elif value < low or (high is not None and value > high):
            yield f"{place}: {value} is not from {low} " + (f"to {high}" if high is not None else "upwards")

    return judge


def one_of(*words: str) -> Judge:
    def judge(value: Any, place: str) -> Iterator[str]:
        if value not in words:
            yield f"{place}: {value!r} is none of {', '.join(words)}{nearest(str(value), words)}"

    return judge


def several(judge: Judge) -> Judge:
    """A list."""

    def judge_all(value: Any, place: str) -> Iterator[str]:
        if not isinstance(value, list):
            yield f"{place}: {value!r} is no list"
            return
        for number, item in enumerate(value):
            yield from judge(item, f"{place}[{number}]")

    return judge_all


def fields(known: Mapping[str, Judge], *, needed: Iterable[str] = ()) -> Judge:
    """An object with these fields. One that is null is one that is not there."""
    needed = tuple(needed)

    def judge(value: Any, place: str) -> Iterator[str]:
        if not isinstance(value, dict):
            yield f"{place or 'the configuration'}: {value!r} is no object with fields"
            return
        for name, part in value.items():
            where = f"{place}.{name}" if place else name
            if name not in known:
                yield f"{where}: there is no such field{nearest(str(name), known)}"
            elif part is not None:
                yield from known[name](part, where)
        for name in needed:
            if value.get(name) is None:
                yield f"{place}.{name} is missing" if place else f"{name} is missing"

    return judge
