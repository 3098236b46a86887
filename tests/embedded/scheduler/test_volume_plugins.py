import pytest

from pytest_kscen.embedded.scheduler.framework.events import (
    CSI_DRIVERS,
    CSI_NODES,
    CSI_STORAGE_CAPACITIES,
    VOLUME_ATTACHMENTS,
)
from pytest_kscen.objects.resources import (
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    STORAGE_CLASSES,
)

DRIVER = "csi.example.com"
ZONE = "topology.kubernetes.io/zone"


def having_volumes(*claims):
    return {
        "volumes": [
            {"name": f"v{number}", "persistentVolumeClaim": {"claimName": name}}
            for number, name in enumerate(claims)
        ]
    }


@pytest.fixture
def volume_objects(cluster):
    """Return builders of the volume objects of a cluster."""

    class Stock:
        def make(self, resource, name, namespace="", **parts):
            metadata = {
                "name": name,
                **({"namespace": namespace} if namespace else {}),
                **parts.pop("metadata", {}),
            }
            made = cluster.ask(
                cluster.api.create(resource, {"metadata": metadata, **parts}, namespace)
            )
            cluster.advance()
            return made

        def csi_volume(self, name, labels=None):
            """Create a volume bound to a claim of the same name."""
            reference = {"kind": "PersistentVolumeClaim", "namespace": "default", "name": name}
            size = {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce"],
                "claimRef": reference,
            }
            csi = {"driver": DRIVER, "volumeHandle": name}
            spec = {**size, "csi": csi, "persistentVolumeReclaimPolicy": "Retain"}
            self.make(
                PERSISTENT_VOLUMES, name, metadata={"name": name, "labels": labels or {}}, spec=spec
            )
            self.claim(name, volumeName=name)

        def claim(self, name, mode="ReadWriteOnce", cls="", size="1Gi", annotations=None, **more):
            spec = {
                "accessModes": [mode],
                "resources": {"requests": {"storage": size}},
                "storageClassName": cls,
                **more,
            }
            metadata = {"name": name, "annotations": annotations or {}}
            self.make(PERSISTENT_VOLUME_CLAIMS, name, "default", metadata=metadata, spec=spec)

        def csi_node(self, name, count):
            drivers = [{"name": DRIVER, "nodeID": name, "allocatable": {"count": count}}]
            self.make(CSI_NODES, name, spec={"drivers": drivers})

        def slow_class(self, name="slow", provisioner=DRIVER, mode="WaitForFirstConsumer"):
            self.make(STORAGE_CLASSES, name, provisioner=provisioner, volumeBindingMode=mode)

        def capacity(self, name, zone, size):
            topology = {"matchLabels": {ZONE: zone}}
            self.make(
                CSI_STORAGE_CAPACITIES,
                name,
                "default",
                storageClassName="slow",
                capacity=size,
                nodeTopology=topology,
            )

    return Stock()


class TestRestrictions:
    def test_read_write_once_pod_claim(self, cluster, volume_objects):
        cluster.nodes(2)
        volume_objects.claim("data", mode="ReadWriteOncePod")
        cluster.volume(accessModes=["ReadWriteOncePod"])
        assert cluster.pod("first", **having_volumes("data"))
        cluster.pod(**having_volumes("data"))
        assert cluster.why().startswith(
            "0/2 nodes are available: 2 node(s) unavailable due to PersistentVolumeClaim "
            "with ReadWriteOncePod access mode "
            "already in-use by another pod. "
        )
        cluster.delete("first")
        assert cluster.where()

    def test_exclusive_disk(self, cluster):
        disk = {"volumes": [{"name": "d", "gcePersistentDisk": {"pdName": "disk"}}]}
        cluster.nodes(2)
        assert {cluster.pod("a", **disk), cluster.pod("b", **disk)} == {"n1", "n2"}
        cluster.pod("c", **disk)
        assert cluster.why("c").startswith(
            "0/2 nodes are available: 2 node(s) had no available disk. "
        )

    def test_read_only_disk_is_shared(self, cluster):
        disk = {
            "volumes": [{"name": "d", "gcePersistentDisk": {"pdName": "disk", "readOnly": True}}]
        }
        cluster.nodes(1)
        assert {cluster.pod("a", **disk), cluster.pod("b", **disk)} == {"n1"}


class TestLimits:
    def test_node_volume_limit(self, cluster, volume_objects):
        cluster.nodes(1)
        volume_objects.csi_node("n1", 2)
        for name in ("a", "b", "c"):
            volume_objects.csi_volume(name)
        assert cluster.pod("first", **having_volumes("a", "b")) == "n1"
        assert cluster.pod("shares", **having_volumes("a")) == "n1"
        cluster.pod(**having_volumes("c"))
        assert cluster.why().startswith(
            "0/1 nodes are available: 1 node(s) exceed max volume count. "
        )
        cluster.ask(
            cluster.api.patch(
                CSI_NODES,
                "n1",
                {
                    "spec": {
                        "drivers": [{"name": DRIVER, "nodeID": "n1", "allocatable": {"count": 3}}]
                    }
                },
            )
        )
        cluster.advance()
        assert cluster.where() == "n1"

    def test_attached_volumes_count(self, cluster, volume_objects):
        cluster.nodes(1)
        volume_objects.csi_node("n1", 1)
        for name in ("a", "b"):
            volume_objects.csi_volume(name)
        source = {"persistentVolumeName": "a"}
        volume_objects.make(
            VOLUME_ATTACHMENTS, "va", spec={"attacher": DRIVER, "nodeName": "n1", "source": source}
        )
        cluster.pod(**having_volumes("b"))
        assert cluster.where() is None
        cluster.ask(cluster.api.delete(VOLUME_ATTACHMENTS, "va"))
        cluster.advance()
        assert cluster.where() == "n1"


class TestZones:
    def test_volume_zone(self, cluster, volume_objects):
        cluster.node("n1", labels={ZONE: "a"})
        cluster.node("n2", labels={ZONE: "b"})
        volume_objects.csi_volume("data", labels={ZONE: "b__c"})
        assert cluster.pod(**having_volumes("data")) == "n2"

    def test_no_matching_zone(self, cluster, volume_objects):
        cluster.node("n1", labels={ZONE: "a"})
        volume_objects.csi_volume("data", labels={ZONE: "b"})
        cluster.pod(**having_volumes("data"))
        assert cluster.why().startswith(
            "0/1 nodes are available: 1 node(s) had no available volume zone. "
        )
        cluster.change("n1", {"metadata": {"labels": {ZONE: "b"}}})
        assert cluster.where() == "n1"


class TestProvisioning:
    def test_storage_capacity(self, cluster, volume_objects):
        cluster.node("n1", labels={ZONE: "a"})
        cluster.node("n2", labels={ZONE: "b"})
        volume_objects.make(CSI_DRIVERS, DRIVER, spec={"storageCapacity": True})
        volume_objects.slow_class()
        volume_objects.capacity("small", "a", "1Gi")
        volume_objects.claim("data", cls="slow", size="5Gi")
        cluster.pod(**having_volumes("data"))
        assert cluster.why().startswith(
            "0/2 nodes are available: 2 node(s) did not have enough free storage. "
        )
        volume_objects.capacity("large", "b", "10Gi")
        assert cluster.get()["status"]["nominatedNodeName"] == "n2"

    def test_previously_selected_node(self, cluster, volume_objects):
        cluster.nodes(3)
        volume_objects.slow_class()
        volume_objects.claim(
            "data", cls="slow", annotations={"volume.kubernetes.io/selected-node": "n2"}
        )
        cluster.pod(**having_volumes("data"))
        assert cluster.get()["status"]["nominatedNodeName"] == "n2"
