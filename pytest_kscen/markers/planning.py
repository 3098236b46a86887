"""The run that a test declares: by its markers, and on the command line where they leave it open."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kscen.markers.obligations import unmet
from pytest_kscen.markers.parameters import filled_by, keywords_of_all, left_open, settled
from pytest_kscen.markers.wish import backend_of
from pytest_kscen.options import OPTIONS, SETTINGS
from pytest_kscen.options.megatest import CHURN
from pytest_kscen.options.option import SwitchesOn

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pytest

    from pytest_kscen.chaos.profiles import Profile
    from pytest_kscen.megatest.churn import Churn
    from pytest_kscen.options import Settings
    from pytest_kscen.runs.plan import Plan

PLAN_FROM_COMMAND_LINE = "plan_from_command_line"


def plan(item: pytest.Item) -> Plan:
    """What is to happen, or a ValueError that says what is wrong with it."""
    from pytest_kscen.runs.plan import Plan

    settings = item.config.stash[SETTINGS]
    switched_on = list(_switched_on(item, settings))
    churn = _churn(item, settings, [one.parameter for one in switched_on if one.parameter])
    chaos = list(_marked_chaos(item, settings))
    marked = [profile.profile for profile in chaos]
    chaos += [_profile(one.profile, {}, settings) for one in switched_on if one.profile and one.profile not in marked]
    declared = Plan(churn, tuple(chaos), settings.volume_health)
    if complaints := unmet(declared, backend_of(item), settings, list(item.iter_markers(CHURN))):
        raise ValueError("\n".join(complaints))
    return declared


def reached(item: pytest.Item, declared: Plan) -> Iterator[str]:
    """The flags that fill what the markers of this plan leave open, if there is whoever asks for it."""
    from pytest_kscen.chaos.profiles import kind_of
    from pytest_kscen.megatest.churn import Churn

    if declared.churn:
        yield from left_open(CHURN, keywords_of_all(item, CHURN, Churn), declared.churn)
    chaos = [(kind_of(mark.args[0], mark.kwargs).profile, mark.kwargs) for mark in item.iter_markers("chaos")]
    marked = [profile for profile, _ in chaos]
    chaos += [(profile, {}) for profile in declared.declared if profile not in marked]
    for profile, said in chaos:
        yield from left_open(profile, said)


def _switched_on(item: pytest.Item, settings: Settings) -> Iterator[SwitchesOn]:
    """What the command line adds to a test that takes its plan from there."""
    if item.get_closest_marker(PLAN_FROM_COMMAND_LINE) is None:
        return
    for option in OPTIONS:
        if isinstance(option.effect, SwitchesOn) and settings.of(option):
            yield option.effect


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
            said = ", ".join(repr(one) for one in mark.args)
            raise ValueError(f"@pytest.mark.chaos({said}) takes the profile's name first, then its parameters by name")
        yield _profile(mark.args[0], mark.kwargs, settings)


def _profile(name: str, declared: Mapping[str, Any], settings: Settings) -> Profile:
    from pytest_kscen.chaos.profiles import kind_of

    kind = kind_of(name, declared)
    made: Profile = _made(kind, declared, kind.profile, f"@pytest.mark.chaos({name!r})", settings)
    return made


def _made(kind: type[Any], declared: Mapping[str, Any], name: str, where: str, settings: Settings) -> Any:
    """One part of the plan; a complaint about it says who gave the value: the marker, or a setting."""
    try:
        return kind(**settled(declared, kind, name, settings))
    except (TypeError, ValueError) as error:
        filled = filled_by(name, settings)
        said = [
            f"{one} is given by {who}" for one, who in filled.items() if one not in declared and str(error).startswith(f"{one}=")
        ]
        raise ValueError("; ".join([f"{where}: {error}", *said])) from error
