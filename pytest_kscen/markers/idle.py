"""Flags of the command line that reach none of the tests that were selected: somebody expects of them what does not happen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.markers.planning import PLAN_FROM_COMMAND_LINE, plan, reached
from pytest_kscen.options import OPTIONS, SETTINGS
from pytest_kscen.options.general import DURATION
from pytest_kscen.options.megatest import CHURN, PARENT_KUBECONFIG, VM_NAMESPACE
from pytest_kscen.options.option import Fills, SwitchesOn

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Sequence

    import pytest

    from pytest_kscen.options.option import Option
    from pytest_kscen.runs.plan import Plan

NO_MACHINES = "no run has had to do with virtual machines"
TOLD_BY_RUNS = {
    DURATION.flag: "no run has left its length open",
    PARENT_KUBECONFIG.flag: NO_MACHINES,
    VM_NAMESPACE.flag: NO_MACHINES,
}
"""What only a run can say, for a test may conduct it itself: why nothing came of a flag for which none has asked."""

ACTORS = tuple(option.effect.actor for option in OPTIONS if isinstance(option.effect, Fills) and option.effect.actor)


def idle(items: Sequence[pytest.Item]) -> list[str]:
    """A line for each thing that the tests lack, with the flags that go by it. What the environment or a file gives is for all."""
    if not items:
        return []
    given = items[0].config.stash[SETTINGS].given
    flags = [option for option in OPTIONS if option.effect and option.flag in given and given[option.flag].source == option.flag]
    if not flags:
        return []
    planned = [(item, plan(item)) for item in items]
    there = {name for item, declared in planned for name in _acting(item, declared)}
    used = {flag for item, declared in planned for flag in reached(item, declared)}
    why: dict[str, list[str]] = {}
    for option in flags:
        kinds = _kinds(option)
        if not there.intersection(kinds):
            why.setdefault(f"no selected test has {' or '.join(kinds)}", []).append(option.flag)
        elif isinstance(option.effect, Fills) and option.flag not in used:
            why.setdefault(f"each marker that it could fill says its own {option.effect.parameter}", []).append(option.flag)
    return [f"{', '.join(said)}: without effect, {reason}" for reason, said in why.items()]


def idle_in_runs(config: pytest.Config, asked: Container[str]) -> list[str]:
    """What is to be said after runs that have asked for these flags alone."""
    given = config.stash[SETTINGS].given
    flags = [flag for flag in TOLD_BY_RUNS if flag in given and given[flag].source == flag and flag not in asked]
    return [f"{flag}: without effect, {TOLD_BY_RUNS[flag]}" for flag in flags]


def _acting(item: pytest.Item, declared: Plan) -> Iterator[str]:
    if item.get_closest_marker(PLAN_FROM_COMMAND_LINE):
        yield PLAN_FROM_COMMAND_LINE
    if declared.churn:
        yield CHURN
        yield from (f"{CHURN}({actor}=True)" for actor in ACTORS if getattr(declared.churn, actor))
    for profile in declared.chaos:
        yield profile.profile


def _kinds(option: Option) -> tuple[str, ...]:
    """Those of whom one at least has to be there."""
    match option.effect:
        case SwitchesOn():
            return (PLAN_FROM_COMMAND_LINE,)
        case Fills(actor=""):
            return option.effect.kinds
        case Fills(actor=actor):
            return tuple(f"{kind}({actor}=True)" for kind in option.effect.kinds)
        case _:
            return ()
