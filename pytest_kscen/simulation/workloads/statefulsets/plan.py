"""What a StatefulSet does next. Pure: what there is goes in; out come the steps up to the first thing to be waited for.

In order (OrderedReady) every pod waits for those before it; Parallel sets wait for nobody but while rolling.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_kscen.simulation.workloads.podstate import available_in, is_finished, is_ready, phase
from pytest_kscen.simulation.workloads.statefulsets.identity import revision_of, wanted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kscen.objects.resources import Obj


class Verb(enum.Enum):
    """The kinds of steps."""

    CREATE = "create"
    KEEP = "keep"
    """See that its identity and its claims are right."""
    DELETE = "delete"
    CONDEMN = "condemn"
    """Delete because the set has shrunk."""


@dataclass(frozen=True, slots=True)
class Step:
    """One thing to do about one pod."""

    verb: Verb
    ordinal: int
    pod: Obj | None = None


@dataclass(slots=True)
class View:
    """A StatefulSet and its pods by number, at one instant."""

    owner: Obj
    pods: dict[int, Obj]
    current: Obj
    update: Obj
    now: float

    @property
    def in_order(self) -> bool:
        return bool(self.owner["spec"].get("podManagementPolicy", "OrderedReady") == "OrderedReady")

    def is_healthy(self, pod: Obj) -> bool:
        return is_running_and_ready(pod) and not is_terminating(pod)

    def is_available(self, pod: Obj) -> bool:
        return is_running_and_ready(pod) and available_in(pod, self.owner["spec"].get("minReadySeconds", 0), self.now) == 0


def is_running_and_ready(pod: Obj) -> bool:
    return phase(pod) == "Running" and is_ready(pod)


def is_terminating(pod: Obj) -> bool:
    return bool(pod["metadata"].get("deletionTimestamp"))


def steps(view: View) -> Iterator[Step]:
    """The steps of one look."""
    for ordinal in wanted(view.owner):
        pod = view.pods.get(ordinal)
        yield from _about(ordinal, pod)
        if view.in_order and (pod is None or is_terminating(pod) or not view.is_available(pod)):
            return
    if any(is_finished(view.pods[ordinal]) for ordinal in wanted(view.owner) if ordinal in view.pods):
        return
    condemned = [ordinal for ordinal in sorted(view.pods, reverse=True) if ordinal not in wanted(view.owner)]
    yield from _shrink(view, condemned)
    if not condemned or not view.in_order:
        yield from _roll(view)


def _about(ordinal: int, pod: Obj | None) -> Iterator[Step]:
    """What to do about one pod that should be there."""
    if pod is None:
        yield Step(Verb.CREATE, ordinal)
    elif not is_finished(pod):
        yield Step(Verb.KEEP, ordinal, pod)
    elif not is_terminating(pod):
        yield Step(Verb.DELETE, ordinal, pod)


def _shrink(view: View, condemned: list[int]) -> Iterator[Step]:
    """The last pod first; in order, an unhealthy pod holds up all but itself."""
    unhealthy = [ordinal for ordinal in condemned if not view.is_healthy(view.pods[ordinal])]
    for ordinal in condemned:
        pod = view.pods[ordinal]
        if not is_terminating(pod) and (not view.in_order or view.is_available(pod) or ordinal == unhealthy[-1]):
            yield Step(Verb.CONDEMN, ordinal, pod)
        if view.in_order:
            return


def _roll(view: View) -> Iterator[Step]:
    """Replace one pod of an older revision, the last first, when all after it are well."""
    strategy = view.owner["spec"].get("updateStrategy") or {}
    if strategy.get("type", "RollingUpdate") == "OnDelete":
        return
    partition = (strategy.get("rollingUpdate") or {}).get("partition", 0)
    for ordinal in reversed(wanted(view.owner)[partition:]):
        pod = view.pods.get(ordinal)
        if pod is None:
            return
        if revision_of(pod) != view.update["metadata"]["name"] and not is_terminating(pod):
            yield Step(Verb.DELETE, ordinal, pod)
            return
        if not view.is_healthy(pod):
            return


def revision_for(view: View, ordinal: int) -> Obj:
    """The revision that a new pod of this number is made from."""
    strategy = view.owner["spec"].get("updateStrategy") or {}
    if strategy.get("type", "RollingUpdate") != "RollingUpdate":
        return view.update
    place = ordinal - wanted(view.owner).start
    rolling = strategy.get("rollingUpdate")
    still_current = (view.owner.get("status") or {}).get("currentReplicas", 0)
    return view.current if place < (rolling.get("partition", 0) if rolling else still_current) else view.update
