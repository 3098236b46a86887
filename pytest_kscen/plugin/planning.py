"""Cluster and plan that a test declares by its markers, completed from the command line.

The check of markers, the report of unused flags and the fixtures call it. Engines may not be
imported at load time.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from pytest_kscen.clusters import BACKENDS
from pytest_kscen.objects.arguments import (
    PAIR,
    CountRange,
    Duration,
    DurationRange,
    is_number,
    is_whole_number,
    nearest,
    parameter_types,
    range_error,
)
from pytest_kscen.objects.options import LEAST, MOST, Fills, SwitchesOn
from pytest_kscen.plugin.options import CHURN, OPTIONS, SETTINGS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pytest_kscen.chaos.profile import Profile
    from pytest_kscen.judge.guarantees.declaration import Guarantee
    from pytest_kscen.megatest.churn import Churn
    from pytest_kscen.objects.options import Option
    from pytest_kscen.plugin.option_values import Given
    from pytest_kscen.plugin.options import Settings
    from pytest_kscen.run.plan import Plan


class Bound(NamedTuple):
    """End of a range, and the option or marker that sets it."""

    value: float
    source: str


def keywords(mark: pytest.Mark, kind: type[Any]) -> dict[str, Any]:
    """Return a marker's keyword arguments; a ValueError lists the parameters that there are."""
    known = [field.name for field in dataclasses.fields(kind)]
    if mark.args:
        raise ValueError(
            f"@pytest.mark.{mark.name} takes its parameters by name: {', '.join(known)}"
        )
    for name in mark.kwargs:
        if name not in known:
            raise ValueError(
                f"@pytest.mark.{mark.name} has no parameter "
                f"{name!r}{nearest(name, known)}; its parameters are {', '.join(known)}"
            )
    return dict(mark.kwargs)


def keywords_of_all(item: pytest.Item, name: str, kind: type[Any]) -> dict[str, Any]:
    """Return the arguments of all markers of this name; of each parameter the one nearest to the
    test.
    """
    arguments: dict[str, Any] = {}
    for mark in reversed(list(item.iter_markers(name))):
        arguments |= keywords(mark, kind)
    return arguments


def settled(
    declared: Mapping[str, Any], kind: type[Any], name: str, settings: Settings
) -> dict[str, Any]:
    """Return the parameters for `kind`: the marker's, then those of options.

    Other parameters are left out: `kind` has defaults for them.
    """
    found: dict[str, Any] = {}
    types = parameter_types(kind)
    for field in dataclasses.fields(kind):
        type_ = types[field.name]
        if type_ in (DurationRange, CountRange):
            found |= _range(declared, field, name, settings, whole=type_ == CountRange)
        elif field.name in declared:
            value = declared[field.name]
            if type_ == Duration:
                found[field.name] = _seconds(field.name, value)
            else:
                found[field.name] = tuple(value) if isinstance(value, list) else value
        elif given := _given(name, field.name, None, settings):
            found[field.name] = given.value
    return found


def left_open(name: str, declared: Mapping[str, Any], made: object = None) -> Iterator[str]:
    """Yield flags of parameters that the marker does not set, if the plan's actors use them."""
    for option, fills in _filling(name):
        if fills.actor and not getattr(made, fills.actor):
            continue
        value = declared.get(fills.parameter)
        if fills.parameter not in declared or (
            fills.bound is not None and (value is None or value[fills.bound] is None)
        ):
            yield option.flag


def filled_by(name: str, settings: Settings) -> dict[str, str]:
    """Return the options that set each parameter, by parameter."""
    sources: dict[str, str] = {}
    for option, fills in _filling(name):
        if given := settings.given.get(option.flag):
            sources[fills.parameter] = " and ".join(
                filter(None, (sources.get(fills.parameter), given.source))
            )
    return sources


def _range(
    declared: Mapping[str, Any], field: Any, name: str, settings: Settings, *, whole: bool
) -> dict[str, Any]:
    written = declared.get(field.name)
    if written is not None and (not isinstance(written, list | tuple) or len(written) != PAIR):
        raise ValueError(f"{field.name}={written!r}: give two values, the least and the most")
    bounds = [
        _marked(field.name, written, bound, whole=whole)
        or _filled(name, field.name, bound, settings)
        for bound in (LEAST, MOST)
    ]
    if not any(bounds):
        return {}
    least, most = (one or _default(name, field, number) for number, one in enumerate(bounds))
    if least.value > most.value:
        if written is not None and None not in written:
            raise range_error(field.name, written, whole=whole)
        raise ValueError(
            f"{field.name}: the least, {least.source}, is above the most, {most.source}: give both"
        )
    return {field.name: (least.value, most.value)}


def _marked(parameter: str, written: Any, bound: int, *, whole: bool) -> Bound | None:
    """Return the marker's bound of a range; None if it leaves the bound open."""
    if written is None or written[bound] is None:
        return None
    value = written[bound] if whole else _seconds(parameter, written[bound])
    if not (is_whole_number(value) if whole else is_number(value)):
        raise range_error(parameter, written, whole=whole)
    return Bound(value, f"{written[bound]} of the marker")


def _filled(name: str, parameter: str, bound: int, settings: Settings) -> Bound | None:
    given = _given(name, parameter, bound, settings)
    return Bound(given.value, f"{given.text} of {given.source}") if given else None


def _default(name: str, field: Any, bound: int) -> Bound:
    for option, fills in _filling(name):
        if (fills.parameter, fills.bound) == (field.name, bound):
            return Bound(
                option.parse(option.default), f"{option.default} by default ({option.flag})"
            )
    if field.default is None:
        raise ValueError(
            f"{field.name} has no default that could fill what is left open: give the "
            "least and the most"
        )
    return Bound(field.default[bound], f"{field.default[bound]} by default")


def _given(name: str, parameter: str, bound: int | None, settings: Settings) -> Given | None:
    for option, fills in _filling(name):
        if (fills.parameter, fills.bound) == (parameter, bound):
            return settings.given.get(option.flag)
    return None


def _filling(name: str) -> Iterable[tuple[Option, Fills]]:
    return (
        (option, option.effect)
        for option in OPTIONS
        if isinstance(option.effect, Fills) and name in option.effect.kinds
    )


def _seconds(name: str, duration: Any) -> float:
    from pytest_kscen.objects.arguments import seconds_of

    try:
        return seconds_of(duration)
    except (AttributeError, TypeError, ValueError) as error:
        raise ValueError(f"{name}: {error}") from None


SCOPES = ("function", "module", "session")


@dataclasses.dataclass(frozen=True, slots=True)
class ClusterRequest:
    """Cluster that a test requests; None leaves a value to the options and the backend."""

    backend: str | None = None
    nodes: int | None = None
    scope: str = "function"

    def __post_init__(self) -> None:
        if self.backend is not None and self.backend not in BACKENDS.names():
            raise ValueError(
                f"backend={self.backend!r}: choose one of {', '.join(BACKENDS.names())}"
            )
        if self.scope not in SCOPES:
            raise ValueError(f"scope={self.scope!r}: choose one of {', '.join(SCOPES)}")
        if self.nodes is not None and (not isinstance(self.nodes, int) or self.nodes < 0):
            raise ValueError(f"nodes={self.nodes!r}: give a whole number, 0 or more")


def cluster_request(item: pytest.Item) -> ClusterRequest:
    arguments = keywords_of_all(item, "cluster", ClusterRequest)
    try:
        return ClusterRequest(**arguments)
    except ValueError as error:
        raise ValueError(f"@pytest.mark.cluster: {error}") from error


def backend_of(item: pytest.Item) -> str:
    """Return the backend of this test's cluster."""
    return cluster_request(item).backend or item.config.stash[SETTINGS].kscen_cluster


def unmet(
    plan: Plan, backend: str, settings: Settings, churn_marks: Sequence[pytest.Mark]
) -> list[str]:
    """Return a line for each option that a plan needs and that is missing, on a cluster of others.

    On such a cluster these options have no defaults.
    """
    if BACKENDS[backend].recreated:
        return []
    return [
        *_storage_classes(plan, backend, settings, churn_marks),
        *_parent(plan, backend, settings),
    ]


def _storage_classes(
    plan: Plan, backend: str, settings: Settings, marks: Sequence[pytest.Mark]
) -> list[str]:
    if (
        plan.churn is None
        or settings.storage_classes
        or any("storage_classes" in mark.kwargs for mark in marks)
    ):
        return []
    how = (
        "--storage-classes A,B (KSCEN_STORAGE_CLASSES, storage_classes in the ini file) or "
        "volume_churn(storage_classes=[...])"
    )
    return [f"the {backend} cluster has storage classes of its own: name those to test with {how}"]


def _parent(plan: Plan, backend: str, settings: Settings) -> list[str]:
    acting = list(dict.fromkeys(profile.name for profile in plan.chaos if profile.needs_machines()))
    missing = [
        f"{flag} (KSCEN_{variable})"
        for flag, variable, value in (
            ("--parent-kubeconfig FILE", "PARENT_KUBECONFIG", settings.parent_kubeconfig),
            ("--vm-namespace NAME", "VM_NAMESPACE", settings.vm_namespace),
        )
        if not value
    ]
    if not acting or not missing:
        return []
    acts = (
        f"{', '.join(acting)} act{'s' if len(acting) == 1 else ''} on the virtual machines "
        f"under the {backend} cluster's nodes"
    )
    return [f"{acts}: give {' and '.join(missing)}"]


PLAN_FROM_COMMAND_LINE = "plan_from_command_line"


def plan(item: pytest.Item) -> Plan:
    """Return the test's plan, built at the first call and kept on the item.

    The check of markers, the report of unused flags and the fixtures share it. If a
    fixture adds a marker during the setup of the test, the plan is built again. Raises a ValueError
    that lists all mistakes in the markers and in the options for them.
    """
    marks = list(item.iter_markers())
    kept = item.stash.get(_PLAN, None)
    if kept is None or kept.marks != marks:
        kept = item.stash[_PLAN] = PlanOfItem(_built(item), marks)
    return kept.plan


class PlanOfItem(NamedTuple):
    """Plan of one test item, with the markers that it was built from."""

    plan: Plan
    marks: list[pytest.Mark]


GUARANTEES = "guarantees"
"""Marker of a test's own guarantees."""
_PLAN = pytest.StashKey[PlanOfItem]()


def _built(item: pytest.Item) -> Plan:
    from pytest_kscen.run.plan import Plan

    settings = item.config.stash[SETTINGS]
    from_command_line = item.get_closest_marker(PLAN_FROM_COMMAND_LINE) is not None
    switched_on = [
        option.effect
        for option in (OPTIONS if from_command_line else ())
        if isinstance(option.effect, SwitchesOn) and settings.of(option)
    ]
    churn = _churn(item, settings, [one.parameter for one in switched_on if one.parameter])
    chaos = list(_marked_chaos(item, settings))
    marked = [profile.name for profile in chaos]
    chaos += [
        _profile(one.profile, {}, settings)
        for one in switched_on
        if one.profile and one.profile not in marked
    ]
    declared = Plan(churn, tuple(chaos), settings.volume_health, _guarantees(item))
    if complaints := unmet(declared, backend_of(item), settings, list(item.iter_markers(CHURN))):
        raise ValueError("\n".join(complaints))
    return declared


def _guarantees(item: pytest.Item) -> tuple[Guarantee, ...]:
    """Return the guarantees of all markers of this test, the outermost first."""
    marks = list(item.iter_markers(GUARANTEES))[::-1]
    if not marks:
        return ()
    from pytest_kscen.judge.guarantees.declaration import check_guarantees

    if any(mark.kwargs for mark in marks):
        raise ValueError("@pytest.mark.guarantees takes guarantees alone, without names")
    given = tuple(each for mark in marks for each in mark.args)
    try:
        check_guarantees(given)
    except (TypeError, ValueError) as error:
        raise ValueError(f"@pytest.mark.{error}") from None
    return given


def reached(item: pytest.Item, declared: Plan) -> Iterator[str]:
    """Yield the flags of parameters that the markers of this plan do not set."""
    from pytest_kscen.chaos.profiles import profile_named
    from pytest_kscen.megatest.churn import Churn

    if declared.churn:
        yield from left_open(CHURN, keywords_of_all(item, CHURN, Churn), declared.churn)
    chaos = [
        (profile_named(mark.args[0], mark.kwargs).name, mark.kwargs)
        for mark in item.iter_markers("chaos")
    ]
    marked = [profile for profile, _ in chaos]
    chaos += [(profile, {}) for profile in declared.declared if profile not in marked]
    for profile, arguments in chaos:
        yield from left_open(profile, arguments)


def _churn(item: pytest.Item, settings: Settings, actors: list[str]) -> Churn | None:
    from pytest_kscen.megatest.churn import Churn

    if not any(item.get_closest_marker(name) for name in (CHURN, PLAN_FROM_COMMAND_LINE)):
        return None
    declared = dict.fromkeys(actors, True) | keywords_of_all(item, CHURN, Churn)
    made: Churn = _made(Churn, declared, CHURN, f"@pytest.mark.{CHURN}", settings)
    return made


def _marked_chaos(item: pytest.Item, settings: Settings) -> Iterator[Profile]:
    for mark in reversed(list(item.iter_markers("chaos"))):
        if len(mark.args) != 1 or not isinstance(mark.args[0], str):
            arguments = ", ".join(repr(one) for one in mark.args)
            raise ValueError(
                f"@pytest.mark.chaos({arguments}) takes the profile's name first, then its "
                "parameters by name"
            )
        yield _profile(mark.args[0], mark.kwargs, settings)


def _profile(name: str, declared: Mapping[str, Any], settings: Settings) -> Profile:
    from pytest_kscen.chaos.profiles import profile_named

    kind = profile_named(name, declared)
    made: Profile = _made(kind, declared, kind.name, f"@pytest.mark.chaos({name!r})", settings)
    return made


def _made(
    kind: type[Any], declared: Mapping[str, Any], name: str, where: str, settings: Settings
) -> Any:
    """Make one part of the plan; an error names the marker or option with the invalid value."""
    try:
        return kind(**settled(declared, kind, name, settings))
    except (TypeError, ValueError) as error:
        filled = filled_by(name, settings)
        sources = [
            f"{one} is given by {source}"
            for one, source in filled.items()
            if one not in declared and str(error).startswith(f"{one}=")
        ]
        raise ValueError("; ".join([f"{where}: {error}", *sources])) from error
