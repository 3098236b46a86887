"""A marker's parameters in our own units, and what settings put where it leaves them open: a range bound by bound."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_kscen.objects.guesses import nearest
from pytest_kscen.objects.numbers import PAIR, is_number, is_whole, no_range
from pytest_kscen.options.option import LEAST, MOST, Fills
from pytest_kscen.options.settings import OPTIONS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import pytest

    from pytest_kscen.options import Given, Settings
    from pytest_kscen.options.option import Option

RANGES = {"tuple[float, float]": float, "tuple[int, int]": int}
DURATION = "Duration"


class Bound(NamedTuple):
    """One end of a range, and who says so."""

    value: float
    said: str


def keywords(mark: pytest.Mark, kind: type[Any]) -> dict[str, Any]:
    """What a marker says by name; a ValueError lists the parameters that there are."""
    known = [field.name for field in dataclasses.fields(kind)]
    if mark.args:
        raise ValueError(f"@pytest.mark.{mark.name} takes its parameters by name: {', '.join(known)}")
    for name in mark.kwargs:
        if name not in known:
            raise ValueError(
                f"@pytest.mark.{mark.name} has no parameter {name!r}{nearest(name, known)}; its parameters are {', '.join(known)}"
            )
    return dict(mark.kwargs)


def keywords_of_all(item: pytest.Item, name: str, kind: type[Any]) -> dict[str, Any]:
    """What the markers of this name say together: of each parameter what the nearest to the test says that names it."""
    said: dict[str, Any] = {}
    for mark in reversed(list(item.iter_markers(name))):
        said |= keywords(mark, kind)
    return said


def settled(declared: Mapping[str, Any], kind: type[Any], name: str, settings: Settings) -> dict[str, Any]:
    """The parameters of the kind that goes by this name: the marker's, then those of the settings. The rest are its defaults."""
    found: dict[str, Any] = {}
    for field in dataclasses.fields(kind):
        number = RANGES.get(str(field.type).removesuffix(" | None"))
        if number is not None:
            found |= _range(declared, field, name, settings, whole=number is int)
        elif field.name in declared:
            found[field.name] = _one(field, declared[field.name])
        elif given := _given(name, field.name, None, settings):
            found[field.name] = given.value
    return found


def left_open(name: str, declared: Mapping[str, Any], made: object = None) -> Iterator[str]:
    """The flags that fill what is not declared of the kind that goes by this name, and what its actors ask for."""
    for option, fills in _filling(name):
        if fills.actor and not getattr(made, fills.actor):
            continue
        said = declared.get(fills.parameter)
        if fills.parameter not in declared or (fills.bound is not None and (said is None or said[fills.bound] is None)):
            yield option.flag


def filled_by(name: str, settings: Settings) -> dict[str, str]:
    """For each parameter of this kind that settings give: which of them."""
    said: dict[str, str] = {}
    for option, fills in _filling(name):
        if given := settings.given.get(option.flag):
            said[fills.parameter] = " and ".join(filter(None, (said.get(fills.parameter), given.source)))
    return said


def _one(field: Any, value: Any) -> Any:
    if field.type == DURATION:
        return _seconds(field.name, value)
    return tuple(value) if isinstance(value, list) else value


def _range(declared: Mapping[str, Any], field: Any, name: str, settings: Settings, *, whole: bool) -> dict[str, Any]:
    written = declared.get(field.name)
    if written is not None and (not isinstance(written, list | tuple) or len(written) != PAIR):
        raise ValueError(f"{field.name}={written!r}: give two values, the least and the most")
    bounds = [
        _marked(field.name, written, bound, whole=whole) or _filled(name, field.name, bound, settings) for bound in (LEAST, MOST)
    ]
    if not any(bounds):
        return {}
    least, most = (one or _default(name, field, number) for number, one in enumerate(bounds))
    if least.value > most.value:
        if written is not None and None not in written:
            raise no_range(field.name, written, whole=whole)
        raise ValueError(f"{field.name}: the least, {least.said}, is above the most, {most.said}: give both")
    return {field.name: (least.value, most.value)}


def _marked(parameter: str, written: Any, bound: int, *, whole: bool) -> Bound | None:
    """What the marker says of a bound; None there leaves it open."""
    if written is None or written[bound] is None:
        return None
    value = written[bound] if whole else _seconds(parameter, written[bound])
    if not (is_whole(value) if whole else is_number(value)):
        raise no_range(parameter, written, whole=whole)
    return Bound(value, f"{written[bound]} of the marker")


def _filled(name: str, parameter: str, bound: int, settings: Settings) -> Bound | None:
    given = _given(name, parameter, bound, settings)
    return Bound(given.value, f"{given.text} of {given.source}") if given else None


def _default(name: str, field: Any, bound: int) -> Bound:
    for option, fills in _filling(name):
        if (fills.parameter, fills.bound) == (field.name, bound):
            return Bound(option.parse(option.default), f"{option.default} by default ({option.flag})")
    if field.default is None:
        raise ValueError(f"{field.name} has no default that could fill what is left open: give the least and the most")
    return Bound(field.default[bound], f"{field.default[bound]} by default")


def _given(name: str, parameter: str, bound: int | None, settings: Settings) -> Given | None:
    for option, fills in _filling(name):
        if (fills.parameter, fills.bound) == (parameter, bound):
            return settings.given.get(option.flag)
    return None


def _filling(name: str) -> Iterable[tuple[Option, Fills]]:
    return ((option, option.effect) for option in OPTIONS if isinstance(option.effect, Fills) and name in option.effect.kinds)


def _seconds(name: str, duration: Any) -> float:
    from pytest_kscen.objects.durations import seconds_of

    try:
        return seconds_of(duration)
    except (AttributeError, TypeError, ValueError) as error:
        raise ValueError(f"{name}: {error}") from None
