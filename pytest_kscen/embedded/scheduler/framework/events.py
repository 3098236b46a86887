"""What happens in a cluster that may help a pod for which there was no node, and who wants to
hear of it.
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

    Hint: TypeAlias = Callable[[PodInfo, Obj | None, Obj | None], bool]


EVERYTHING = "*"
POD, ASSIGNED_POD, UNSCHEDULED_POD = "Pod", "AssignedPod", "UnschedulablePod"
NODE = "Node"


class Action(enum.IntFlag):
    """What happened to an object; updates say which part has changed, as far as it can be said
    (else OTHER).
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
    """Something that happened."""

    resource: str
    action: Action


class Interest(NamedTuple):
    """What a plugin wants to hear of the pods that it has turned down.

    The hint (pod, old object, new object) tells whether this very change may help; without one, any
    does."""

    resource: str
    action: Action = Action.ALL
    hint: Hint | None = None

    def covers(self, event: ClusterEvent) -> bool:
        if EVERYTHING in (self.resource, event.resource):
            return True
        same = self.resource == event.resource or (
            self.resource == POD and event.resource in {ASSIGNED_POD, UNSCHEDULED_POD}
        )
        return same and bool(self.action & event.action)


ASSIGNED_ADD = ClusterEvent(ASSIGNED_POD, Action.ADD)
ASSIGNED_DELETE = ClusterEvent(ASSIGNED_POD, Action.DELETE)
TIMEOUT = ClusterEvent(EVERYTHING, Action.ALL)
"""A pod has waited for an event for too long."""


# What else than nodes and pods plugins may be interested in.


STORAGE = "storage.k8s.io"
CSI_NODES = Resource(STORAGE, "v1", "csinodes", "CSINode", namespaced=False)
CSI_DRIVERS = Resource(STORAGE, "v1", "csidrivers", "CSIDriver", namespaced=False)
CSI_STORAGE_CAPACITIES = Resource(STORAGE, "v1", "csistoragecapacities", "CSIStorageCapacity")
VOLUME_ATTACHMENTS = Resource(
    STORAGE, "v1", "volumeattachments", "VolumeAttachment", namespaced=False
)
OTHERS = (
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
