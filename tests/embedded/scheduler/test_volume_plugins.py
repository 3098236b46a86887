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


def having(*claims):
    return {
        "volumes": [
            {"name": f"v{number}", "persistentVolumeClaim": {"claimName": name}}
            for number, name in enumerate(claims)
        ]
    }


@pytest.fixture
def stock(hall):
    """What lies about in a cluster."""

    class Stock:
        def make(self, resource, name, namespace="", **parts):
            metadata = {
                "name": name,
                **({"namespace": namespace} if namespace else {}),
                **parts.pop("metadata", {}),
            }
            made = hall.ask(hall.api.create(resource, {"metadata": metadata, **parts}, namespace))
            hall.advance()
            return made

        def csi_volume(self, name, labels=None):
            """A volume with a claim of the same name bound to it."""
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
    def test_a_claim_for_one_pod_alone(self, hall, stock):
        hall.nodes(2)
        stock.claim("data", mode="ReadWriteOncePod")
        hall.volume(accessModes=["ReadWriteOncePod"])
        assert hall.pod("first", **having("data"))
        hall.pod(**having("data"))
        assert hall.why().startswith(
            "0/2 nodes are available: 2 node(s) unavailable due to PersistentVolumeClaim "
            "with ReadWriteOncePod access mode "
            "already in-use by another pod. "
        )
        hall.delete("first")
        assert hall.where()

    def test_a_disk_that_only_one_pod_of_a_node_may_have(self, hall):
        disk = {"volumes": [{"name": "d", "gcePersistentDisk": {"pdName": "disk"}}]}
        hall.nodes(2)
        assert {hall.pod("a", **disk), hall.pod("b", **disk)} == {"n1", "n2"}
        hall.pod("c", **disk)
        assert hall.why("c").startswith(
            "0/2 nodes are available: 2 node(s) had no available disk. "
        )

    def test_but_all_may_read_it(self, hall):
        disk = {
            "volumes": [{"name": "d", "gcePersistentDisk": {"pdName": "disk", "readOnly": True}}]
        }
        hall.nodes(1)
        assert {hall.pod("a", **disk), hall.pod("b", **disk)} == {"n1"}


class TestLimits:
    def test_no_more_than_the_node_says(self, hall, stock):
        hall.nodes(1)
        stock.csi_node("n1", 2)
        for name in ("a", "b", "c"):
            stock.csi_volume(name)
        assert hall.pod("first", **having("a", "b")) == "n1"
        assert hall.pod("shares", **having("a")) == "n1"
        hall.pod(**having("c"))
        assert hall.why().startswith("0/1 nodes are available: 1 node(s) exceed max volume count. ")
        hall.ask(
            hall.api.patch(
                CSI_NODES,
                "n1",
                {
                    "spec": {
                        "drivers": [{"name": DRIVER, "nodeID": "n1", "allocatable": {"count": 3}}]
                    }
                },
            )
        )
        hall.advance()
        assert hall.where() == "n1"

    def test_what_is_still_attached_counts(self, hall, stock):
        hall.nodes(1)
        stock.csi_node("n1", 1)
        for name in ("a", "b"):
            stock.csi_volume(name)
        source = {"persistentVolumeName": "a"}
        stock.make(
            VOLUME_ATTACHMENTS, "va", spec={"attacher": DRIVER, "nodeName": "n1", "source": source}
        )
        hall.pod(**having("b"))
        assert hall.where() is None
        hall.ask(hall.api.delete(VOLUME_ATTACHMENTS, "va"))
        hall.advance()
        assert hall.where() == "n1"


class TestZones:
    def test_where_the_volume_is(self, hall, stock):
        hall.node("n1", labels={ZONE: "a"})
        hall.node("n2", labels={ZONE: "b"})
        stock.csi_volume("data", labels={ZONE: "b__c"})
        assert hall.pod(**having("data")) == "n2"

    def test_nowhere(self, hall, stock):
        hall.node("n1", labels={ZONE: "a"})
        stock.csi_volume("data", labels={ZONE: "b"})
        hall.pod(**having("data"))
        assert hall.why().startswith(
            "0/1 nodes are available: 1 node(s) had no available volume zone. "
        )
        hall.change("n1", {"metadata": {"labels": {ZONE: "b"}}})
        assert hall.where() == "n1"


class TestProvisioning:
    def test_where_there_is_room(self, hall, stock):
        hall.node("n1", labels={ZONE: "a"})
        hall.node("n2", labels={ZONE: "b"})
        stock.make(CSI_DRIVERS, DRIVER, spec={"storageCapacity": True})
        stock.slow_class()
        stock.capacity("small", "a", "1Gi")
        stock.claim("data", cls="slow", size="5Gi")
        hall.pod(**having("data"))
        assert hall.why().startswith(
            "0/2 nodes are available: 2 node(s) did not have enough free storage. "
        )
        stock.capacity("large", "b", "10Gi")
        assert hall.get()["status"]["nominatedNodeName"] == "n2"

    def test_the_node_that_was_chosen_before(self, hall, stock):
        hall.nodes(3)
        stock.slow_class()
        stock.claim("data", cls="slow", annotations={"volume.kubernetes.io/selected-node": "n2"})
        hall.pod(**having("data"))
        assert hall.get()["status"]["nominatedNodeName"] == "n2"
