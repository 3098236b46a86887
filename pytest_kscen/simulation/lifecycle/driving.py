"""Nodes in trouble: pods are driven away from one after the other, as its zone allows, until it is ready again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.objects.conditions import condition
from pytest_kscen.objects.errors import ApiError, NotFound
from pytest_kscen.objects.resources import NODES
from pytest_kscen.simulation.lifecycle.taints import NOT_READY, UNREACHABLE, has, not_executed, swapped
from pytest_kscen.simulation.lifecycle.zones import Limiter, State, rate_of, state_of, zone_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.simulation.bench import Bench

DRIVES_AWAY = {"False": not_executed(NOT_READY), "Unknown": not_executed(UNREACHABLE)}


class Driver:
    """Gives and takes the taints that execute."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._nodes = bench.informers.of(NODES)
        self._troubled: dict[str, None] = {}
        self._limiters: dict[str, Limiter] = {}
        self._all_are_down = False

    def see(self, node: Obj) -> None:
        """Look after this node if it is not ready, or was not and still has the taint."""
        if ready_status(node) != "True" or any(has(node, taint) for taint in DRIVES_AWAY.values()):
            self._troubled[node["metadata"]["name"]] = None

    def forget(self, name: str) -> None:
        self._troubled.pop(name, None)

    async def look(self) -> bool:
        """Once over all nodes in trouble; whether some are ready again after all were down."""
        if not self._troubled:
            return False
        were_down = self._all_are_down
        self._judge_zones()
        for name in list(self._troubled):
            try:
                await self._drive_away_or_welcome(name)
            except NotFound:
                self.forget(name)
            except (ApiError, OSError):
                continue  # once more at the next look
        return were_down and not self._all_are_down

    def _judge_zones(self) -> None:
        counts: dict[str, list[int]] = {}
        for node in self._nodes:
            counts.setdefault(zone_of(node), [0, 0])[ready_status(node) != "True"] += 1
        states = {zone: state_of(*numbers) for zone, numbers in counts.items()}
        self._all_are_down = all(state is State.FULL for state in states.values())
        now = self._bench.now()
        for zone, state in states.items():
            limiter = self._limiters.setdefault(zone, Limiter(since=now))
            limiter.set(rate_of(state, sum(counts[zone]), all_full=self._all_are_down), now)

    async def _drive_away_or_welcome(self, name: str) -> None:
        node = await self._bench.api.get(NODES, name)
        taint = DRIVES_AWAY.get(ready_status(node))
        if taint is None or self._all_are_down:
            await swap(self._bench, node, [], list(DRIVES_AWAY.values()))
            if taint is None:
                self.forget(name)
            return
        others = [other for other in DRIVES_AWAY.values() if other is not taint]
        if has(node, taint):
            return
        if any(has(node, other) for other in others) or self._limiters[zone_of(node)].take(self._bench.now()):
            await swap(self._bench, node, [taint], others)


async def swap(bench: Bench, node: Obj, add: Sequence[Obj], remove: Sequence[Obj]) -> None:
    """Write the node with these taints and without those."""
    new = swapped(node, add, remove, bench.timestamp())
    if new is not None:
        await bench.api.update(NODES, new)


def ready_status(node: Obj) -> str:
    ready = condition(node, "Ready")
    return ready["status"] if ready else ""
