"""The replicated storage's resources, as its users and its controllers name them."""

from __future__ import annotations

from pytest_kscen.objects.resources import Resource

GROUP = "storage.deckhouse.io"
NAMESPACE = "d8-sds-replicated-volume"
NODE_LABEL = "storage.deckhouse.io/sds-replicated-volume-node"

REPLICATED_VOLUMES = Resource(GROUP, "v1alpha1", "replicatedvolumes", "ReplicatedVolume", namespaced=False)
REPLICATED_STORAGE_CLASSES = Resource(GROUP, "v1alpha1", "replicatedstorageclasses", "ReplicatedStorageClass", namespaced=False)

IO_READY, QUORUM = "IOReady", "Quorum"
HEALTH = (IO_READY, QUORUM)
