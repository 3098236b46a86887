"""What else than nodes and pods plugins may be interested in."""

from pytest_kscen.objects.resources import (
    NAMESPACES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    SERVICES,
    STORAGE_CLASSES,
    Resource,
)

STORAGE = "storage.k8s.io"
CSI_NODES = Resource(STORAGE, "v1", "csinodes", "CSINode", namespaced=False)
CSI_DRIVERS = Resource(STORAGE, "v1", "csidrivers", "CSIDriver", namespaced=False)
CSI_STORAGE_CAPACITIES = Resource(STORAGE, "v1", "csistoragecapacities", "CSIStorageCapacity")
VOLUME_ATTACHMENTS = Resource(STORAGE, "v1", "volumeattachments", "VolumeAttachment", namespaced=False)
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
