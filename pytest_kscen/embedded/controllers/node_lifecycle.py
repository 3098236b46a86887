"""The node lifecycle controller. A node is heard by its lease and its status; one that is silent
for 50 s is Unknown.

Its conditions call for taints at once; the taint that drives pods away is given one node after the
other, as its zone allows. A node that is ready again loses them."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from pytest_kscen.clock import epoch_of
from pytest_kscen.embedded.controllers.taint_eviction import (
    NOT_READY,
    UNREACHABLE,
    has_taint,
    managed_no_schedule_taints,
    no_execute_taint,
    wanted_no_schedule_taints,
    with_taints_swapped,
)
from pytest_kscen.embedded.indexes import pods_by_node
from pytest_kscen.embedded.node_matching import is_same_taint
from pytest_kscen.kube.cache import Ref
from pytest_kscen.objects.conditions import condition
from pytest_kscen.objects.errors import ApiError, NotFound
from pytest_kscen.objects.resources import LEASES, NODES, PODS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Never

    from pytest_kscen.embedded.controller import ControllerContext
    from pytest_kscen.objects.resources import Obj


EVICTION_RATE, SECONDARY_EVICTION_RATE = 0.1, 0.01  # nodes per second
LARGE_ZONE = 50  # nodes; a smaller zone that is partially disrupted is left alone
UNHEALTHY_ZONE_THRESHOLD, MIN_UNREADY_NODES = 0.55, 3  # of its nodes, and so many


class ZoneState(Enum):
    """A zone's."""

    NORMAL = "Normal"
    PARTIAL = "PartialDisruption"
    FULL = "FullDisruption"


def zone_of(node: Obj) -> str:
    labels = node["metadata"].get("labels") or {}
    region = labels.get("topology.kubernetes.io/region", "")
    return f"{region}:{labels.get('topology.kubernetes.io/zone', '')}"


def zone_state(ready: int, unready: int) -> ZoneState:
    if not ready and unready:
        return ZoneState.FULL
    if unready >= MIN_UNREADY_NODES and unready / (ready + unready) >= UNHEALTHY_ZONE_THRESHOLD:
        return ZoneState.PARTIAL
    return ZoneState.NORMAL


def eviction_rate(state: ZoneState, nodes: int, *, all_full: bool) -> float:
    if state is ZoneState.FULL:
        return 0.0 if all_full else EVICTION_RATE
    if state is ZoneState.PARTIAL:
        return SECONDARY_EVICTION_RATE if nodes > LARGE_ZONE else 0.0
    return EVICTION_RATE


@dataclass(slots=True)
class EvictionLimiter:
    """One token at most."""

    rate: float = EVICTION_RATE
    tokens: float = 1.0
    since: float = 0.0

    def set(self, rate: float, now: float) -> None:
        """A new rate begins with a token, unless the old one had none left."""
        if rate != self.rate:
            had_one = self.rate <= 0 or self._fill(now) >= 1
            self.rate, self.tokens, self.since = rate, 1.0 if had_one else 0.0, now

    def take(self, now: float) -> bool:
        if self.rate <= 0 or self._fill(now) < 1:
            return False
        self.tokens -= 1
        return True

    def _fill(self, now: float) -> float:
        self.tokens = min(1.0, self.tokens + (now - self.since) * self.rate)
        self.since = now
        return self.tokens


NO_EXECUTE_TAINTS = {"False": no_execute_taint(NOT_READY), "Unknown": no_execute_taint(UNREACHABLE)}


class NoExecuteTainter:
    """Gives and takes the taints that execute."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._nodes = context.informers.of(NODES)
        self._troubled: dict[str, None] = {}
        self._limiters: dict[str, EvictionLimiter] = {}
        self._all_are_down = False

    def see(self, node: Obj) -> None:
        """Look after this node if it is not ready, or was not and still has the taint."""
        if ready_status(node) != "True" or any(
            has_taint(node, taint) for taint in NO_EXECUTE_TAINTS.values()
        ):
            self._troubled[node["metadata"]["name"]] = None

    def forget(self, name: str) -> None:
        self._troubled.pop(name, None)

    async def look(self) -> bool:
        """Once over all nodes in trouble; whether some are ready again after all were down."""
        if not self._troubled:
            return False
        were_down = self._all_are_down
        counts: dict[str, list[int]] = {}
        for node in self._nodes:
            counts.setdefault(zone_of(node), [0, 0])[ready_status(node) != "True"] += 1
        states = {zone: zone_state(*numbers) for zone, numbers in counts.items()}
        self._all_are_down = all(state is ZoneState.FULL for state in states.values())
        now = self._context.now()
        for zone, state in states.items():
            limiter = self._limiters.setdefault(zone, EvictionLimiter(since=now))
            limiter.set(eviction_rate(state, sum(counts[zone]), all_full=self._all_are_down), now)
        for name in list(self._troubled):
            try:
                await self._drive_away_or_welcome(name)
            except NotFound:
                self.forget(name)
            except (ApiError, OSError):
                continue  # once more at the next look
        return were_down and not self._all_are_down

    async def _drive_away_or_welcome(self, name: str) -> None:
        node = await self._context.api.get(NODES, name)
        taint = NO_EXECUTE_TAINTS.get(ready_status(node))
        if taint is None or self._all_are_down:
            await swap_taints(self._context, node, [], list(NO_EXECUTE_TAINTS.values()))
            if taint is None:
                self.forget(name)
            return
        others = [other for other in NO_EXECUTE_TAINTS.values() if other is not taint]
        if has_taint(node, taint):
            return
        if any(has_taint(node, other) for other in others) or self._limiters[zone_of(node)].take(
            self._context.now()
        ):
            await swap_taints(self._context, node, [taint], others)


async def swap_taints(
    context: ControllerContext, node: Obj, add: Sequence[Obj], remove: Sequence[Obj]
) -> None:
    """Write the node with these taints and without those."""
    new = with_taints_swapped(node, add, remove, context.timestamp())
    if new is not None:
        await context.api.update(NODES, new)


def ready_status(node: Obj) -> str:
    ready = condition(node, "Ready")
    return ready["status"] if ready else ""


MONITOR_PERIOD, MONITOR_GRACE, STARTUP_GRACE = 5.0, 50.0, 60.0
LEASE_NAMESPACE = "kube-node-lease"
STATUS_UNKNOWN = {"reason": "NodeStatusUnknown", "message": "Kubelet stopped posting node status."}
STATUS_NEVER_UPDATED = {
    "reason": "NodeStatusNeverUpdated",
    "message": "Kubelet never posted node status.",
}
KUBELET_CONDITIONS = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")


class NodeLifecycle:
    """The controller."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._nodes = context.informers.of(NODES)
        self._leases = context.informers.of(LEASES)
        self._pods_by_node = pods_by_node(context.informers)
        self._tainting = context.controller(self._taint, self._nodes)
        self._heard: dict[str, float] = {}
        """When each node was heard last, the longest silence first."""
        self._silent: dict[str, None] = {}
        self._new: dict[str, None] = {}
        self._some = asyncio.Event()
        self._driver = NoExecuteTainter(context)
        self._nodes.on_change(self._node_changed)
        self._leases.on_change(self._lease_changed)

    async def run(self) -> None:
        await asyncio.gather(self._tainting.run(), self._monitor())

    def _node_changed(self, new: Obj | None, old: Obj | None) -> None:
        node = new or old
        if node is None:
            return
        name = node["metadata"]["name"]
        self._some.set()
        if new is None:
            self._forget(node)
            return
        heartbeat = _heartbeat(new)
        if old is None:
            self._new[name] = None
            self._hear(
                name,
                self._context.now()
                if heartbeat
                else epoch_of(new["metadata"]["creationTimestamp"]),
            )
        elif heartbeat != _heartbeat(old):
            self._hear(name, self._context.now())
        self._driver.see(new)
        if old is None or _taint_relevant_state(new) != _taint_relevant_state(old):
            self._tainting.enqueue(Ref("", name))

    def _lease_changed(self, new: Obj | None, old: Obj | None) -> None:
        if (
            new is None
            or new["metadata"]["namespace"] != LEASE_NAMESPACE
            or new["metadata"]["name"] not in self._heard
        ):
            return
        if old is None or new["spec"].get("renewTime") != old["spec"].get("renewTime"):
            self._hear(new["metadata"]["name"], self._context.now())

    def _hear(self, name: str, when: float) -> None:
        self._heard.pop(name, None)
        self._heard[name] = when
        self._silent.pop(name, None)

    def _forget(self, node: Obj) -> None:
        name = node["metadata"]["name"]
        for memory in (self._heard, self._silent, self._new):
            memory.pop(name, None)
        self._driver.forget(name)
        self._context.recorder.normal(
            node, "RemovingNode", f"Node {name} event: Removing Node {name} from Controller"
        )

    async def _taint(self, ref: Ref) -> None:
        node = self._nodes.objects.get(ref)
        if node is not None:
            wanted, there = wanted_no_schedule_taints(node), managed_no_schedule_taints(node)
            gone = [
                taint for taint in there if not any(is_same_taint(taint, one) for one in wanted)
            ]
            await swap_taints(self._context, node, wanted, gone)

    async def _monitor(self) -> Never:
        await self._nodes.synced()
        await self._leases.synced()
        while True:
            await self._greet()
            for name in self._overdue():
                with contextlib.suppress(ApiError, OSError):  # once more at the next look
                    # The node's conditions are Unknown, and its pods are not ready.
                    node = await self._context.api.get(NODES, name)
                    was_ready = ready_status(node) == "True"
                    status = {
                        **(node.get("status") or {}),
                        "conditions": _unknown_conditions(node, self._context.timestamp()),
                    }
                    if status != node.get("status"):
                        await self._context.api.update(
                            NODES, {**node, "status": status}, subresource="status"
                        )
                    self._silent[name] = None
                    if was_ready:
                        self._context.recorder.normal(
                            node, "NodeNotReady", f"Node {name} status is now: NodeNotReady"
                        )
                        await self._mark_pods(name)
            await self._context.api.caught_up()
            if await self._driver.look():
                for name in list(self._heard):
                    self._hear(
                        name, self._context.now()
                    )  # the silence of the others may have had the same cause
            # Where there is no node there is nothing to look at; the looks keep their beat all
            # the same.
            last = self._context.now()
            if not self._nodes.objects:
                self._some.clear()
                await self._some.wait()
            waited = self._context.now() - last
            await self._context.clock.sleep(
                MONITOR_PERIOD - waited % MONITOR_PERIOD, background=True
            )

    async def _greet(self) -> None:
        for name in list(self._new):
            del self._new[name]
            if node := self._nodes.get(name):
                self._context.recorder.normal(
                    node,
                    "RegisteredNode",
                    f"Node {name} event: Registered Node {name} in Controller",
                )

    def _overdue(self) -> list[str]:
        """Nodes that were not heard for too long, and are not known for it yet."""
        now, found = self._context.now(), []
        for name, heard in self._heard.items():
            if now <= heard + MONITOR_GRACE:
                break
            node = self._nodes.get(name)
            if (
                node
                and name not in self._silent
                and now > heard + (MONITOR_GRACE if _heartbeat(node) else STARTUP_GRACE)
            ):
                found.append(name)
        return found

    async def _mark_pods(self, name: str) -> None:
        for pod in self._pods_by_node.of(name):
            ready = condition(pod, "Ready")
            if ready is None or ready["status"] == "False":
                continue
            conditions = [
                {**one, "status": "False", "lastTransitionTime": self._context.timestamp()}
                if one is ready
                else one
                for one in pod["status"]["conditions"]
            ]
            try:
                await self._context.write_status(
                    PODS, pod, {**pod["status"], "conditions": conditions}
                )
            except NotFound:
                continue
            self._context.recorder.warning(pod, "NodeNotReady", "Node is not ready")


def _taint_relevant_state(node: Obj) -> tuple[Any, ...]:
    """What a node says that calls for taints."""
    conditions = (node.get("status") or {}).get("conditions") or ()
    return node.get("spec"), *((one["type"], one["status"]) for one in conditions)


def _heartbeat(node: Obj) -> str:
    ready = condition(node, "Ready")
    return ready.get("lastHeartbeatTime") or "" if ready else ""


def _unknown_conditions(node: Obj, now: str) -> list[Obj]:
    """The kubelet's conditions as they are when it is silent; nobody else's are touched."""
    conditions = list((node.get("status") or {}).get("conditions") or ())
    there = [one["type"] for one in conditions]
    made = node["metadata"]["creationTimestamp"]
    return [
        {**one, "status": "Unknown", **STATUS_UNKNOWN, "lastTransitionTime": now}
        if one["type"] in KUBELET_CONDITIONS and one["status"] != "Unknown"
        else one
        for one in conditions
    ] + [
        {
            "type": type_,
            "status": "Unknown",
            **STATUS_NEVER_UPDATED,
            "lastHeartbeatTime": made,
            "lastTransitionTime": now,
        }
        for type_ in KUBELET_CONDITIONS
        if type_ not in there
    ]
