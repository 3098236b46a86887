"""Monitor nodes by their heartbeats, mark silent ones Unknown, and taint unhealthy ones.

Started by `actors`. A node without a lease renewal or status for 50 s becomes Unknown. NoSchedule
taints follow the conditions at once. NoExecute taints, which evict pods, are added one node at a
time at the rate of the zone, and removed when the node is ready. Eviction itself is
`taint_eviction`'s work.
"""

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
LARGE_ZONE = 50  # nodes; smaller zones with a partial disruption are not tainted
UNHEALTHY_ZONE_THRESHOLD, MIN_UNREADY_NODES = 0.55, 3  # share and number of unready nodes


class ZoneState(Enum):
    """Health of a zone, from the share of its nodes that are not ready. Decides the rate at
    which pods are evicted from it.
    """

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
    """Token bucket of one token that limits how many nodes of a zone are tainted per second.
    Times are seconds of cluster time, passed in by the caller.
    """

    rate: float = EVICTION_RATE
    tokens: float = 1.0
    since: float = 0.0

    def set(self, rate: float, now: float) -> None:
        """Change the rate. The new rate starts with a token unless the old one had none left,
        as in Kubernetes, which replaces the limiter.
        """
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
    """Add and remove the NoExecute taints of nodes that are not ready, at the rate that each zone
    allows.

    Tracks only nodes in trouble, so a healthy cluster costs nothing. While all zones are down,
    nothing is tainted: the network is to blame.
    """

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._nodes = context.informers.of(NODES)
        self._tracked: dict[str, None] = {}
        self._limiters: dict[str, EvictionLimiter] = {}
        self._all_zones_down = False

    def track(self, node: Obj) -> None:
        """Track this node if it is not ready, or still carries a NoExecute taint from when it
        was not.
        """
        if ready_status(node) != "True" or any(
            has_taint(node, taint) for taint in NO_EXECUTE_TAINTS.values()
        ):
            self._tracked[node["metadata"]["name"]] = None

    def untrack(self, name: str) -> None:
        self._tracked.pop(name, None)

    async def process(self) -> bool:
        """Process all tracked nodes once, in the order in which they were tracked.

        Return True if some zone works again after all zones were down; heartbeats then have to
        start anew. A failed write is repeated at the next call.
        """
        if not self._tracked:
            return False
        were_all_down = self._all_zones_down
        counts: dict[str, list[int]] = {}
        for node in self._nodes:
            counts.setdefault(zone_of(node), [0, 0])[ready_status(node) != "True"] += 1
        states = {zone: zone_state(*numbers) for zone, numbers in counts.items()}
        self._all_zones_down = all(state is ZoneState.FULL for state in states.values())
        now = self._context.now()
        for zone, state in states.items():
            limiter = self._limiters.setdefault(zone, EvictionLimiter(since=now))
            limiter.set(eviction_rate(state, sum(counts[zone]), all_full=self._all_zones_down), now)
        for name in list(self._tracked):
            try:
                node = await self._context.api.get(NODES, name)
                taint = NO_EXECUTE_TAINTS.get(ready_status(node))
                others = [other for other in NO_EXECUTE_TAINTS.values() if other is not taint]
                if taint is None or self._all_zones_down:
                    await swap_taints(self._context, node, [], list(NO_EXECUTE_TAINTS.values()))
                    if taint is None:
                        self.untrack(name)
                elif not has_taint(node, taint) and (
                    any(has_taint(node, other) for other in others)
                    or self._limiters[zone_of(node)].take(self._context.now())
                ):
                    await swap_taints(self._context, node, [taint], others)
            except NotFound:
                self.untrack(name)
            except (ApiError, OSError):
                continue  # retried in the next period
        return were_all_down and not self._all_zones_down


async def swap_taints(
    context: ControllerContext, node: Obj, add: Sequence[Obj], remove: Sequence[Obj]
) -> None:
    """Write the node with taints added and removed; do nothing if it has them already. A
    conflict is the caller's to handle.
    """
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
    """Watch heartbeats of nodes and apply conditions and taints.

    One queue applies NoSchedule taints on changes; one loop checks every `MONITOR_PERIOD` seconds
    for silent nodes, and sleeps while the cluster has no node.
    """

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._nodes = context.informers.of(NODES)
        self._leases = context.informers.of(LEASES)
        self._pods_by_node = pods_by_node(context.informers)
        self._taint_queue = context.controller(self._taint, self._nodes)
        self._last_heartbeats: dict[str, float] = {}
        """Time of the last heartbeat by node name, the longest silence first."""
        self._reported_unknown: dict[str, None] = {}
        self._unannounced: dict[str, None] = {}
        self._nodes_exist = asyncio.Event()
        self._tainter = NoExecuteTainter(context)
        self._nodes.on_change(self._node_changed)

        def lease_changed(new: Obj | None, old: Obj | None) -> None:
            if (
                new is None
                or new["metadata"]["namespace"] != LEASE_NAMESPACE
                or new["metadata"]["name"] not in self._last_heartbeats
            ):
                return
            if old is None or new["spec"].get("renewTime") != old["spec"].get("renewTime"):
                self._record_heartbeat(new["metadata"]["name"], self._context.now())

        self._leases.on_change(lease_changed)

    async def run(self) -> None:
        await asyncio.gather(self._taint_queue.run(), self._monitor())

    def _node_changed(self, new: Obj | None, old: Obj | None) -> None:
        node = new or old
        if node is None:
            return
        name = node["metadata"]["name"]
        self._nodes_exist.set()
        if new is None:
            for records in (self._last_heartbeats, self._reported_unknown, self._unannounced):
                records.pop(name, None)
            self._tainter.untrack(name)
            self._context.recorder.normal(
                node, "RemovingNode", f"Node {name} event: Removing Node {name} from Controller"
            )
            return
        heartbeat = _heartbeat(new)
        if old is None:
            self._unannounced[name] = None
            self._record_heartbeat(
                name,
                self._context.now()
                if heartbeat
                else epoch_of(new["metadata"]["creationTimestamp"]),
            )
        elif heartbeat != _heartbeat(old):
            self._record_heartbeat(name, self._context.now())
        self._tainter.track(new)
        if old is None or _taint_relevant_state(new) != _taint_relevant_state(old):
            self._taint_queue.enqueue(Ref("", name))

    def _record_heartbeat(self, name: str, when: float) -> None:
        self._last_heartbeats.pop(name, None)
        self._last_heartbeats[name] = when
        self._reported_unknown.pop(name, None)

    async def _taint(self, ref: Ref) -> None:
        node = self._nodes.objects.get(ref)
        if node is not None:
            wanted, existing = wanted_no_schedule_taints(node), managed_no_schedule_taints(node)
            removed = [
                taint for taint in existing if not any(is_same_taint(taint, one) for one in wanted)
            ]
            await swap_taints(self._context, node, wanted, removed)

    async def _monitor(self) -> Never:
        await self._nodes.synced()
        await self._leases.synced()
        while True:
            for name in list(self._unannounced):
                del self._unannounced[name]
                if node := self._nodes.get(name):
                    self._context.recorder.normal(
                        node,
                        "RegisteredNode",
                        f"Node {name} event: Registered Node {name} in Controller",
                    )
            for name in self._overdue_nodes():
                with contextlib.suppress(ApiError, OSError):  # retried in the next period
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
                    self._reported_unknown[name] = None
                    if was_ready:
                        self._context.recorder.normal(
                            node, "NodeNotReady", f"Node {name} status is now: NodeNotReady"
                        )
                        await self._mark_pods_not_ready(name)
            await self._context.api.wait_until_visible()
            if await self._tainter.process():
                # The other nodes' silence may have had the same cause.
                for name in list(self._last_heartbeats):
                    self._record_heartbeat(name, self._context.now())
            # Without nodes, wait for one; keep the phase of the period.
            last = self._context.now()
            if not self._nodes.objects:
                self._nodes_exist.clear()
                await self._nodes_exist.wait()
            waited = self._context.now() - last
            await self._context.clock.sleep(
                MONITOR_PERIOD - waited % MONITOR_PERIOD, background=True
            )

    def _overdue_nodes(self) -> list[str]:
        """Return the nodes whose grace period has passed and that are not marked Unknown yet.
        The order of heartbeats lets the search stop at the first recent one.
        """
        now, found = self._context.now(), []
        for name, last_heartbeat in self._last_heartbeats.items():
            if now <= last_heartbeat + MONITOR_GRACE:
                break
            node = self._nodes.get(name)
            if (
                node
                and name not in self._reported_unknown
                and now > last_heartbeat + (MONITOR_GRACE if _heartbeat(node) else STARTUP_GRACE)
            ):
                found.append(name)
        return found

    async def _mark_pods_not_ready(self, name: str) -> None:
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
    """Return the parts of a node that decide its taints: the spec, and type and status of its
    conditions. Heartbeats alone change neither.
    """
    conditions = (node.get("status") or {}).get("conditions") or ()
    return node.get("spec"), *((one["type"], one["status"]) for one in conditions)


def _heartbeat(node: Obj) -> str:
    ready = condition(node, "Ready")
    return ready.get("lastHeartbeatTime") or "" if ready else ""


def _unknown_conditions(node: Obj, now: str) -> list[Obj]:
    """Return the node's conditions with the kubelet's own set to Unknown, and missing ones added.

    Conditions of other writers are kept. The words are those of Kubernetes.
    """
    conditions = list((node.get("status") or {}).get("conditions") or ())
    existing = [one["type"] for one in conditions]
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
        if type_ not in existing
    ]
