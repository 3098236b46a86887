"""Event handlers: pass changes of the cluster on to the scheduler's snapshot and queue.

They run inside the informers' callbacks and must not wait.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.embedded.pod_resources import demand_of
from pytest_kscen.embedded.scheduler.framework.events import (
    ASSIGNED_ADD,
    ASSIGNED_DELETE,
    ASSIGNED_POD,
    EVERYTHING,
    NODE,
    OTHER_RESOURCES,
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


SERVER_MANAGED_FIELDS = ("resourceVersion", "managedFields")


def node_changes(new: Obj, old: Obj) -> list[ClusterEvent]:
    """Return the changes of a node that matter to scheduling, one event for each changed part. A
    node that was uncordoned counts as a changed taint first.
    """
    found = [
        ClusterEvent(NODE, action)
        for action, read in _NODE_FIELDS.items()
        if read(new) != read(old)
    ]
    opened = (old.get("spec") or {}).get("unschedulable") and not (new.get("spec") or {}).get(
        "unschedulable"
    )
    return [ClusterEvent(NODE, Action.NODE_TAINT), *found] if opened else found


_NODE_FIELDS: dict[Action, Callable[[Obj], object]] = {
    Action.NODE_ALLOCATABLE: lambda node: (node.get("status") or {}).get("allocatable"),
    Action.NODE_LABEL: lambda node: node["metadata"].get("labels") or {},
    Action.NODE_TAINT: lambda node: (node.get("spec") or {}).get("taints") or [],
    Action.NODE_CONDITION: lambda node: {
        one["type"]: one["status"] for one in (node.get("status") or {}).get("conditions") or ()
    },
    Action.NODE_ANNOTATION: lambda node: node["metadata"].get("annotations") or {},
    Action.NODE_FEATURES: lambda node: (node.get("status") or {}).get("declaredFeatures") or [],
}


def pod_changes(new: Obj, old: Obj) -> list[ClusterEvent]:
    """Return the changes between two versions of a pod as events. At least OTHER, unless only
    fields differ that the scheduler itself writes.
    """
    if _without_scheduler_fields(new) == _without_scheduler_fields(old):
        return []
    resource = ASSIGNED_POD if new["spec"].get("nodeName") else UNSCHEDULED_POD
    found = [
        ClusterEvent(resource, action)
        for action, changed in _POD_CHANGES.items()
        if changed(new, old)
    ]
    return found or [ClusterEvent(resource, Action.OTHER)]


def _without_scheduler_fields(pod: Obj) -> list[object]:
    """Return the pod's content without results, conditions and nominations of scheduling
    attempts.
    """
    metadata, status = pod["metadata"], pod.get("status") or {}
    kept = {key: value for key, value in metadata.items() if key not in SERVER_MANAGED_FIELDS}
    annotations = {
        key: value
        for key, value in (kept.pop("annotations", None) or {}).items()
        if not key.startswith(RESULTS)
    }
    conditions = [each for each in status.get("conditions") or () if each["type"] != "PodScheduled"]
    kept_status = {**status, "conditions": conditions, "nominatedNodeName": None}
    return [kept, annotations, pod["spec"], kept_status]


def _scaled_down(new: Obj, old: Obj) -> bool:
    if new["spec"] is old["spec"] or new["spec"] == old["spec"]:
        return False
    now, before = demand_of(new).requests, demand_of(old).requests
    return any(now.get(name, 0) < amount for name, amount in before.items())


_POD_CHANGES: dict[Action, Callable[[Obj, Obj], bool]] = {
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


FINAL_PHASES = ("Succeeded", "Failed")


class EventHandlers:
    """Handlers of node, pod and other events for one scheduler. Pods and nodes are always watched;
    other kinds once a plugin is interested in them.
    """

    def __init__(self, handle: Handle, profiles: Container[str]) -> None:
        self._snapshot = handle.snapshot
        self._queue = handle.queue
        self._waiting = handle.waiting
        self._nominated = handle.nominated
        self.profiles = profiles
        self._informers = handle.context.informers
        self._watched = {one: self._informers.of(one) for one in (PODS, NODES)}
        self._read: dict[Resource, Informer] = {}
        self._watched[NODES].on_change(self._node_changed)
        self._watched[PODS].on_change(self._pod_changed)

    def watch_kinds(self, kinds: Container[str], read: Iterable[Resource] = ()) -> None:
        """Watch these kinds too, by the plugins' interests. Resources in `read` are only synced
        before the first pod is scheduled.
        """
        self._read |= {resource: self._informers.of(resource) for resource in read}
        for resource in OTHER_RESOURCES:
            if (resource.kind in kinds or EVERYTHING in kinds) and resource not in self._watched:
                informer = self._watched[resource] = self._informers.of(resource)
                informer.on_change(self._make_handler(resource))

    async def synced(self) -> None:
        for informer in [*self._watched.values(), *self._read.values()]:
            await informer.synced()

    @property
    def pods(self) -> Informer:
        return self._watched[PODS]

    def _make_handler(self, resource: Resource) -> Callable[[Obj | None, Obj | None], None]:
        events = {
            action: ClusterEvent(resource.kind, action)
            for action in (Action.ADD, Action.OTHER, Action.DELETE)
        }

        def changed(new: Obj | None, old: Obj | None) -> None:
            self._queue.handle_event(
                events[Action.OTHER if new and old else Action.ADD if new else Action.DELETE],
                old,
                new,
            )

        return changed

    def _node_changed(self, new: Obj | None, old: Obj | None) -> None:
        node = new or old
        if node is None:
            return
        name = node["metadata"]["name"]
        if new and old:
            events = node_changes(new, old)
            info = self._snapshot.get(name)
            if (
                info
                and not events
                and (new.get("spec") is old.get("spec") or new.get("spec") == old.get("spec"))
                and _capacity_and_images(new) == _capacity_and_images(old)
            ):
                info.obj = new
                return
        else:
            events = [ClusterEvent(NODE, Action.ADD if new else Action.DELETE)]
        self._snapshot.update_node(name, new)
        for event in events:
            self._queue.handle_event(event, old, new)

    def enqueue_unassigned(self) -> None:
        """Queue pods that belong to a profile only now, after the profiles have changed."""
        for pod in self.pods:
            if self.is_responsible_for(pod) and not self._snapshot.pod(pod["metadata"]["uid"]):
                self._queue.add_if_missing(PodInfo(pod))

    def is_responsible_for(self, pod: Obj) -> bool:
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
            self._pod_removed(pod)
        elif new["spec"].get("nodeName"):
            self._pod_assigned(new, old)
        elif self.is_responsible_for(new):
            if self._snapshot.pod(new["metadata"]["uid"]):
                return  # assumed on a node already
            if old is None:
                self._queue.add(PodInfo(new))
            else:
                self._queue.update(PodInfo(new), old, pod_changes(new, old))
                before = (old.get("status") or {}).get("nominatedNodeName")
                if before and before != (new.get("status") or {}).get("nominatedNodeName"):
                    self._nomination_released(old)

    def _pod_removed(self, pod: Obj) -> None:
        uid = pod["metadata"]["uid"]
        self._queue.remove(Ref.of(pod), uid)
        if waiting := self._waiting.get(uid):
            waiting.reject("", "pod is deleted")
        if self._snapshot.unassign_pod(uid):
            self._queue.handle_event(ASSIGNED_DELETE, pod, None)
        elif (pod.get("status") or {}).get("nominatedNodeName"):
            self._nomination_released(pod)
        self._nominated.expected.discard(uid)

    def _pod_assigned(self, new: Obj, old: Obj | None) -> None:
        uid, node = new["metadata"]["uid"], new["spec"]["nodeName"]
        self._nominated.expected.discard(uid)
        known = self._snapshot.pod(uid)
        if known and self._snapshot.node_of(uid) == node:
            fresh = old is None or not old["spec"].get("nodeName")
            if known.equals_for_node(new) or fresh:
                known.obj = new
            else:
                self._snapshot.assign_pod(PodInfo(new), node)
            if old is not None and not fresh:
                if self._queue.needs_events:
                    for event in pod_changes(new, old):
                        self._queue.handle_event(event, old, new)
                return
        else:
            self._snapshot.assign_pod(PodInfo(new), node)
        info = self._snapshot.pod(uid)
        if info:
            self._queue.remove(info.ref, uid)
        self._queue.handle_event(ASSIGNED_ADD, None, new)

    def _nomination_released(self, pod: Obj) -> None:
        """Requeue pods after a nominated pod has released its node: pods up to its priority, which
        counted it as present.

        The pod itself is requeued if its nomination was cleared, but not if its binding timed out.
        """
        was_there = pod["metadata"]["uid"] in self._nominated.expected
        self._nominated.expected.discard(pod["metadata"]["uid"])
        self._queue.handle_event(
            ASSIGNED_DELETE,
            pod,
            None,
            unless=Ref.of(pod) if was_there else None,
            up_to=PodInfo(pod).priority,
        )


def _is_finished(pod: Obj) -> bool:
    return (pod.get("status") or {}).get("phase") in FINAL_PHASES


def _capacity_and_images(node: Obj) -> tuple[object, object]:
    status = node.get("status") or {}
    return status.get("capacity"), status.get("images")
