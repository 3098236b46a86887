"""The cluster's changes on their way into the scheduler's snapshot and its queue."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.embedded.pod_resources import demand_of
from pytest_kscen.embedded.scheduler.framework.events import (
    ASSIGNED_ADD,
    ASSIGNED_DELETE,
    ASSIGNED_POD,
    EVERYTHING,
    NODE,
    OTHERS,
    UNSCHEDULED_POD,
    Action,
    ClusterEvent,
)
from pytest_kscen.embedded.scheduler.framework.pods_and_nodes import PodInfo
from pytest_kscen.kube.cache import Ref
from pytest_kscen.objects.resources import NODES, PODS
from pytest_kscen.objects.scenarios import RESULTS

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable

    from pytest_kscen.embedded.scheduler.framework.handle import Handle
    from pytest_kscen.kube.informer import Informer
    from pytest_kscen.objects.resources import Obj, Resource


# What has changed between two states of an object, as far as placing pods goes.


KEPT_BY_SERVER = ("resourceVersion", "managedFields")


def node_changes(new: Obj, old: Obj) -> list[ClusterEvent]:
    found = [ClusterEvent(NODE, action) for action, read in _NODE.items() if read(new) != read(old)]
    opened = (old.get("spec") or {}).get("unschedulable") and not (new.get("spec") or {}).get(
        "unschedulable"
    )
    return [ClusterEvent(NODE, Action.NODE_TAINT), *found] if opened else found


def _conditions(node: Obj) -> dict[str, str]:
    return {
        one["type"]: one["status"] for one in (node.get("status") or {}).get("conditions") or ()
    }


_NODE: dict[Action, Callable[[Obj], object]] = {
    Action.NODE_ALLOCATABLE: lambda node: (node.get("status") or {}).get("allocatable"),
    Action.NODE_LABEL: lambda node: node["metadata"].get("labels") or {},
    Action.NODE_TAINT: lambda node: (node.get("spec") or {}).get("taints") or [],
    Action.NODE_CONDITION: _conditions,
    Action.NODE_ANNOTATION: lambda node: node["metadata"].get("annotations") or {},
    Action.NODE_FEATURES: lambda node: (node.get("status") or {}).get("declaredFeatures") or [],
}


def pod_changes(new: Obj, old: Obj) -> list[ClusterEvent]:
    """At least one: that there was a change at all; but none if it is what the scheduler has
    said itself.
    """
    if _without_ours(new) == _without_ours(old):
        return []
    resource = ASSIGNED_POD if new["spec"].get("nodeName") else UNSCHEDULED_POD
    found = [
        ClusterEvent(resource, action) for action, changed in _POD.items() if changed(new, old)
    ]
    return found or [ClusterEvent(resource, Action.OTHER)]


def _without_ours(pod: Obj) -> list[object]:
    """What it is but for what is said of attempts to place it."""
    metadata, status = pod["metadata"], pod.get("status") or {}
    kept = {key: value for key, value in metadata.items() if key not in KEPT_BY_SERVER}
    annotations = {
        key: value
        for key, value in (kept.pop("annotations", None) or {}).items()
        if not key.startswith(RESULTS)
    }
    conditions = [each for each in status.get("conditions") or () if each["type"] != "PodScheduled"]
    told = {**status, "conditions": conditions, "nominatedNodeName": None}
    return [kept, annotations, pod["spec"], told]


def _scaled_down(new: Obj, old: Obj) -> bool:
    if new["spec"] is old["spec"] or new["spec"] == old["spec"]:
        return False
    now, before = demand_of(new).requests, demand_of(old).requests
    return any(now.get(name, 0) < amount for name, amount in before.items())


_POD: dict[Action, Callable[[Obj, Obj], bool]] = {
    Action.POD_LABEL: lambda new, old: (
        (new["metadata"].get("labels") or {}) != (old["metadata"].get("labels") or {})
    ),
    Action.POD_SCALE_DOWN: _scaled_down,
    Action.POD_GATES_GONE: lambda new, old: (
        bool(old["spec"].get("schedulingGates")) and not new["spec"].get("schedulingGates")
    ),
    Action.POD_TOLERATION: lambda new, old: (
        len(new["spec"].get("tolerations") or ()) != len(old["spec"].get("tolerations") or ())
    ),
}


FINISHED = ("Succeeded", "Failed")


class Following:
    """Listens to the pictures."""

    def __init__(self, handle: Handle, profiles: Container[str]) -> None:
        self._snapshot = handle.snapshot
        self._queue = handle.queue
        self._waiting = handle.waiting
        self._nominated = handle.nominated
        self.profiles = profiles
        self._informers = handle.context.informers
        self._followed = {one: self._informers.of(one) for one in (PODS, NODES)}
        self._read: dict[Resource, Informer] = {}
        self._followed[NODES].on_change(self._node_changed)
        self._followed[PODS].on_change(self._pod_changed)

    def follow(self, kinds: Container[str], read: Iterable[Resource] = ()) -> None:
        """These kinds are of interest too; and what is only read, is there before the first pod."""
        self._read |= {resource: self._informers.of(resource) for resource in read}
        for resource in OTHERS:
            if (resource.kind in kinds or EVERYTHING in kinds) and resource not in self._followed:
                informer = self._followed[resource] = self._informers.of(resource)
                informer.on_change(self._teller(resource))

    async def synced(self) -> None:
        for informer in [*self._followed.values(), *self._read.values()]:
            await informer.synced()

    @property
    def pods(self) -> Informer:
        return self._followed[PODS]

    def _teller(self, resource: Resource) -> Callable[[Obj | None, Obj | None], None]:
        events = {
            action: ClusterEvent(resource.kind, action)
            for action in (Action.ADD, Action.OTHER, Action.DELETE)
        }

        def tell(new: Obj | None, old: Obj | None) -> None:
            self._queue.happened(
                events[Action.OTHER if new and old else Action.ADD if new else Action.DELETE],
                old,
                new,
            )

        return tell

    # --- nodes ---

    def _node_changed(self, new: Obj | None, old: Obj | None) -> None:
        node = new or old
        if node is None:
            return
        name = node["metadata"]["name"]
        if new and old:
            events = node_changes(new, old)
            info = self._snapshot.get(name)
            if info and not events and _alike(new, old):
                info.obj = new
                return
        else:
            events = [ClusterEvent(NODE, Action.ADD if new else Action.DELETE)]
        self._snapshot.see_node(name, new)
        for event in events:
            self._queue.happened(event, old, new)

    # --- pods ---

    def look_for_ours(self) -> None:
        """The profiles have changed: pods that nobody was responsible for may be ours now."""
        for pod in self.pods:
            if self.is_ours(pod) and not self._snapshot.pod(pod["metadata"]["uid"]):
                self._queue.add_missing(PodInfo(pod))

    def is_ours(self, pod: Obj) -> bool:
        spec = pod["spec"]
        return (
            not spec.get("nodeName")
            and spec.get("schedulerName", "") in self.profiles
            and not _is_finished(pod)
        )

    def _pod_changed(self, new: Obj | None, old: Obj | None) -> None:
        pod = new or old
        if pod is None:
            return
        if new is None or _is_finished(new):
            self._gone(pod)
        elif new["spec"].get("nodeName"):
            self._assigned(new, old)
        elif self.is_ours(new):
            if self._snapshot.pod(new["metadata"]["uid"]):
                return  # it is on its way already
            if old is None:
                self._queue.add(PodInfo(new))
            else:
                self._queue.update(PodInfo(new), old, pod_changes(new, old))
                before = (old.get("status") or {}).get("nominatedNodeName")
                if before and before != (new.get("status") or {}).get("nominatedNodeName"):
                    self._place_is_free(old)

    def _gone(self, pod: Obj) -> None:
        uid = pod["metadata"]["uid"]
        self._queue.remove(Ref.of(pod), uid)
        if waiting := self._waiting.get(uid):
            waiting.reject("", "pod is deleted")
        if self._snapshot.take(uid):
            self._queue.happened(ASSIGNED_DELETE, pod, None)
        elif (pod.get("status") or {}).get("nominatedNodeName"):
            self._place_is_free(pod)
        self._nominated.expected.discard(uid)

    def _assigned(self, new: Obj, old: Obj | None) -> None:
        uid, node = new["metadata"]["uid"], new["spec"]["nodeName"]
        self._nominated.expected.discard(uid)
        known = self._snapshot.pod(uid)
        if known and self._snapshot.node_of(uid) == node:
            fresh = old is None or not old["spec"].get("nodeName")
            if known.same_for_nodes(new) or fresh:
                known.obj = new
            else:
                self._snapshot.put(PodInfo(new), node)
            if old is not None and not fresh:
                if self._queue.is_curious:
                    for event in pod_changes(new, old):
                        self._queue.happened(event, old, new)
                return
        else:
            self._snapshot.put(PodInfo(new), node)
        info = self._snapshot.pod(uid)
        if info:
            self._queue.remove(info.ref, uid)
        self._queue.happened(ASSIGNED_ADD, None, new)

    def _place_is_free(self, pod: Obj) -> None:
        """Nobody comes to where this one was nominated: that may help whoever had to count with it.

        It may itself be helped too, whose place was taken from it; but not if it was there, and its
        time was up."""
        was_there = pod["metadata"]["uid"] in self._nominated.expected
        self._nominated.expected.discard(pod["metadata"]["uid"])
        self._queue.happened(
            ASSIGNED_DELETE,
            pod,
            None,
            unless=Ref.of(pod) if was_there else None,
            up_to=PodInfo(pod).priority,
        )


def _is_finished(pod: Obj) -> bool:
    return (pod.get("status") or {}).get("phase") in FINISHED


def _alike(new: Obj, old: Obj) -> bool:
    """Whether nothing is different that a node's row is made of."""
    return bool(
        (new.get("spec") is old.get("spec") or new.get("spec") == old.get("spec"))
        and (new.get("status") or {}).get("capacity") == (old.get("status") or {}).get("capacity")
        and (new.get("status") or {}).get("images") == (old.get("status") or {}).get("images")
    )
