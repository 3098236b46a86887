"""Cluster events and the interests of plugins in them.

The event handlers make the events; the queue matches them with the interests of plugins that
refused a pod.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from pytest_kscen.objects.resources import (
    NAMESPACES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    SERVICES,
    STORAGE_CLASSES,
    Resource,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kscen.embedded.scheduler.framework.pods_and_nodes import PodInfo
    from pytest_kscen.objects.resources import Obj

    QueueingHint: TypeAlias = Callable[[PodInfo, Obj | None, Obj | None], bool]


EVERYTHING = "*"
POD, ASSIGNED_POD, UNSCHEDULED_POD = "Pod", "AssignedPod", "UnschedulablePod"
NODE = "Node"


class Action(enum.IntFlag):
    """Kinds of changes. Updates name the changed part where Kubernetes distinguishes it, otherwise
    OTHER; the flags combine in an `Interest`.
    """

    ADD = 1
    DELETE = 2
    NODE_ALLOCATABLE = 4
    NODE_LABEL = 8
    NODE_TAINT = 16
    NODE_CONDITION = 32
    NODE_ANNOTATION = 64
    POD_LABEL = 128
    POD_SCALE_DOWN = 256
    POD_GATES_GONE = 512
    POD_TOLERATION = 1024
    OTHER = 2048
    NODE_FEATURES = 4096
    UPDATE = 8192 - 4
    ALL = 8192 - 1


class ClusterEvent(NamedTuple):
    """Change of one object, as the queue sees it: kind of the resource, and action."""

    resource: str
    action: Action


class Interest(NamedTuple):
    """Event that may help pods which the plugin refused. The hint (pod, old object, new object)
    returns True if this very change may help; without a hint any such change does.
    """

    resource: str
    action: Action = Action.ALL
    hint: QueueingHint | None = None

    def covers(self, event: ClusterEvent) -> bool:
        """Return True if an event matches resource and action. An interest in POD covers assigned
        and unscheduled pods alike; `*` on either side matches everything.
        """
        if EVERYTHING in (self.resource, event.resource):
            return True
        same = self.resource == event.resource or (
            self.resource == POD and event.resource in {ASSIGNED_POD, UNSCHEDULED_POD}
        )
        return same and bool(self.action & event.action)


ASSIGNED_ADD = ClusterEvent(ASSIGNED_POD, Action.ADD)
ASSIGNED_DELETE = ClusterEvent(ASSIGNED_POD, Action.DELETE)
TIMEOUT = ClusterEvent(EVERYTHING, Action.ALL)
"""Event for a pod that has been unschedulable for too long."""


def is_placed(pod: Obj) -> bool:
    """Return True if the pod is on a node or nominated for one. Only such a pod's changes can free
    room for others.
    """
    return bool(pod["spec"].get("nodeName") or (pod.get("status") or {}).get("nominatedNodeName"))


def is_same_pod(pod: PodInfo, _: Obj | None, new: Obj | None) -> bool:
    """Return True if the changed pod is the refused pod itself: a hint for plugins that only the
    pod's own change can satisfy.
    """
    return new is not None and new["metadata"]["uid"] == pod.uid


STORAGE = "storage.k8s.io"
CSI_NODES = Resource(STORAGE, "v1", "csinodes", "CSINode", namespaced=False)
CSI_DRIVERS = Resource(STORAGE, "v1", "csidrivers", "CSIDriver", namespaced=False)
CSI_STORAGE_CAPACITIES = Resource(STORAGE, "v1", "csistoragecapacities", "CSIStorageCapacity")
VOLUME_ATTACHMENTS = Resource(
    STORAGE, "v1", "volumeattachments", "VolumeAttachment", namespaced=False
)
OTHER_RESOURCES = (
    NAMESPACES,
    PERSISTENT_VOLUMES,
    PERSISTENT_VOLUME_CLAIMS,
    STORAGE_CLASSES,
    SERVICES,
    CSI_NODES,
    CSI_DRIVERS,
    CSI_STORAGE_CAPACITIES,
    VOLUME_ATTACHMENTS,
)
