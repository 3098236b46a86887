"""Flags of the command line that reach none of the tests that were selected: somebody expects of them what does not happen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.markers.planning import PLAN_FROM_COMMAND_LINE, plan
from pytest_kscen.options import OPTIONS, SETTINGS
from pytest_kscen.options.general import DURATION
from pytest_kscen.options.megatest import CHURN
from pytest_kscen.options.option import SwitchesOn

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pytest

    from pytest_kscen.options.option import Option


def idle(items: Sequence[pytest.Item]) -> list[str]:
    """A line for each thing that the tests lack, with the flags that go by it. What the environment or a file gives is for all."""
    if not items:
        return []
    given = items[0].config.stash[SETTINGS].given
    flags = [option for option in OPTIONS if option.effect and option.flag in given and given[option.flag].source == option.flag]
    if not flags:
        return []
    there = {name for item in items for name in _acting(item)}
    lacking: dict[str, list[str]] = {}
    for option in flags:
        kinds = _kinds(option)
        if not there.intersection(kinds):
            lacking.setdefault(" or ".join(kinds), []).append(option.flag)
    return [f"{', '.join(said)}: without effect, no selected test has {kinds}" for kinds, said in lacking.items()]


def idle_duration(config: pytest.Config) -> list[str]:
    """What is to be said where no run has asked for it."""
    given = config.stash[SETTINGS].given.get(DURATION.flag)
    told = f"{DURATION.flag}: without effect, no run has left its length open"
    return [told] if given and given.source == DURATION.flag else []


def _acting(item: pytest.Item) -> Iterator[str]:
    declared = plan(item)
    if item.get_closest_marker(PLAN_FROM_COMMAND_LINE):
        yield PLAN_FROM_COMMAND_LINE
    if declared.churn:
        yield CHURN
    for profile in declared.chaos:
        yield profile.profile


def _kinds(option: Option) -> tuple[str, ...]:
    if option.effect is None:
        return ()
    return (PLAN_FROM_COMMAND_LINE,) if isinstance(option.effect, SwitchesOn) else option.effect.kinds
