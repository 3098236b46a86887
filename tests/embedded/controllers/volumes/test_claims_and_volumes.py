import pytest

from pytest_kscen.embedded.volume_matching import SELECTED_NODE


class TestMatching:
    def test_claim_binds_matching_volume(self, storage):
        claim = storage.claim()
        assert storage.bound() == ("Pending", None)
        assert storage.events("data")[0][0] == "FailedBinding"
        storage.volume()
        assert storage.bound() == ("Bound", "pv")
        volume, bound = (
            storage.get("PersistentVolume", "pv"),
            storage.get("PersistentVolumeClaim", "data"),
        )
        assert volume["status"]["phase"] == "Bound"
        assert volume["spec"]["claimRef"]["uid"] == claim["metadata"]["uid"]
        assert bound["status"]["capacity"] == {"storage": "1Gi"}
        assert bound["status"]["accessModes"] == ["ReadWriteOnce"]
        assert bound["metadata"]["annotations"] == {
            "pv.kubernetes.io/bind-completed": "yes",
            "pv.kubernetes.io/bound-by-controller": "yes",
        }

    def test_smallest_sufficient_volume_is_bound(self, storage):
        for name, size in (("huge", "10Gi"), ("small", "1Gi"), ("fits", "2Gi")):
            storage.volume(name, size=size)
        storage.claim(size="1500Mi")
        assert storage.bound() == ("Bound", "fits")

    @pytest.mark.parametrize(
        "other",
        [
            {"modes": ["ReadWriteMany"]},
            {"cls": "fast"},
            {"volumeMode": "Block"},
            {"selector": {"matchLabels": {"tier": "gold"}}},
            {"size": "2Gi"},
        ],
        ids=lambda other: next(iter(other)),
    )
    def test_unsuitable_volume_is_not_bound(self, storage, other):
        storage.volume()
        storage.claim(**other)
        assert storage.bound() == ("Pending", None)
        assert storage.phase("PersistentVolume", "pv") == "Available"

    def test_selector_labels_match(self, storage):
        storage.volume("plain")
        storage.volume("gold", labels={"tier": "gold"})
        storage.claim(selector={"matchLabels": {"tier": "gold"}})
        assert storage.bound() == ("Bound", "gold")

    def test_volume_binds_one_claim(self, storage):
        storage.volume()
        for name in ("one", "two"):
            storage.claim(name)
        assert [storage.bound(name)[0] for name in ("one", "two")] == ["Bound", "Pending"]


class TestByName:
    def test_claim_with_volume_name_binds_it(self, storage):
        storage.claim(volumeName="second")
        storage.volume("first")
        assert storage.bound() == ("Pending", "second")
        storage.volume("second")
        assert storage.bound() == ("Bound", "second")
        assert storage.phase("PersistentVolume", "first") == "Available"

    def test_named_volume_must_satisfy_claim(self, storage):
        storage.volume(size="1Gi")
        storage.claim(size="2Gi", volumeName="pv")
        assert storage.bound()[0] == "Pending"
        assert storage.events("data") == [
            ("VolumeMismatch", 'Cannot bind to requested volume "pv": requested PV is too small')
        ]

    def test_named_volume_of_other_claim_is_not_bound(self, storage):
        storage.volume()
        storage.claim("other")
        storage.claim(volumeName="pv")
        assert storage.bound()[0] == "Pending"
        assert storage.events("data") == [
            ("FailedBinding", 'volume "pv" already bound to a different claim.')
        ]

    def test_volume_with_claim_reference_binds_it(self, storage):
        storage.volume(claimRef={"namespace": "default", "name": "data"})
        storage.claim("other")
        assert storage.bound("other") == ("Pending", None)
        storage.claim()
        assert storage.bound() == ("Bound", "pv")


class TestLoss:
    def test_claim_of_deleted_volume_is_lost(self, storage):
        storage.volume()
        storage.claim()
        storage.patch("PersistentVolume", "pv", {"metadata": {"finalizers": None}})
        storage.delete("PersistentVolume", "pv")
        storage.patch("PersistentVolume", "pv", {"metadata": {"finalizers": None}})
        assert storage.bound() == ("Lost", "pv")
        assert (
            "ClaimLost",
            "Bound claim has lost its PersistentVolume. Data on the volume is lost!",
        ) in storage.events("data")

    def test_volume_of_deleted_claim_is_released(self, storage):
        storage.volume()
        storage.claim()
        storage.delete("PersistentVolumeClaim", "data")
        assert storage.get("PersistentVolumeClaim", "data") is None
        assert storage.phase("PersistentVolume", "pv") == "Released"
        storage.claim()
        assert storage.bound() == ("Pending", None)
        storage.patch("PersistentVolume", "pv", {"spec": {"claimRef": None}})
        assert storage.bound() == ("Bound", "pv")

    def test_undeletable_volume_fails(self, storage):
        storage.volume(persistentVolumeReclaimPolicy="Delete")
        storage.claim()
        storage.delete("PersistentVolumeClaim", "data")
        assert storage.phase("PersistentVolume", "pv") == "Failed"


class TestProvisioning:
    def test_immediate_binding_provisions_volume(self, storage):
        storage.class_(mode="Immediate")
        claim = storage.claim(cls="fast", size="3Gi")
        assert storage.bound() == ("Pending", None)
        storage.advance(1.1)
        name = f"pvc-{claim['metadata']['uid']}"
        assert storage.bound() == ("Bound", name)
        spec = storage.get("PersistentVolume", name)["spec"]
        assert spec["capacity"] == {"storage": "3Gi"}
        assert (spec["storageClassName"], spec["persistentVolumeReclaimPolicy"]) == (
            "fast",
            "Delete",
        )
        assert spec["csi"] == {"driver": "kscen.io.disk", "volumeHandle": name}
        assert storage.events("data")[-1] == (
            "ProvisioningSucceeded",
            f"Successfully provisioned volume {name}",
        )

    def test_delayed_binding_provisions_after_scheduling(self, storage):
        storage.class_()
        storage.claim(cls="fast")
        storage.advance(60)
        assert storage.bound() == ("Pending", None)
        assert storage.events("data")[0] == (
            "WaitForFirstConsumer",
            "waiting for first consumer to be created before binding",
        )
        storage.patch(
            "PersistentVolumeClaim",
            "data",
            {"metadata": {"annotations": {SELECTED_NODE: "node-1"}}},
        )
        storage.advance(1.1)
        assert storage.bound()[0] == "Bound"

    def test_provisioned_volume_is_deleted_when_released(self, storage):
        storage.class_(mode="Immediate")
        claim = storage.claim(cls="fast")
        storage.advance(1.1)
        name = f"pvc-{claim['metadata']['uid']}"
        storage.delete("PersistentVolumeClaim", "data")
        assert storage.phase("PersistentVolume", name) == "Released"
        storage.advance(1.1)
        assert storage.get("PersistentVolume", name) is None

    def test_later_created_class_provisions(self, storage):
        storage.claim(cls="fast")
        assert storage.events("data") == [
            ("ProvisioningFailed", 'storageclass.storage.k8s.io "fast" not found')
        ]
        storage.class_(mode="Immediate")
        storage.advance(1.1)
        assert storage.bound()[0] == "Bound"

    def test_foreign_provisioner_is_left_alone(self, storage):
        mine = storage.class_(mode="Immediate")
        metadata = {"name": "theirs"}
        storage.create(
            {
                **{key: mine[key] for key in ("apiVersion", "kind")},
                "metadata": metadata,
                "provisioner": "example.com/x",
            }
        )
        storage.claim(cls="theirs")
        storage.advance(60)
        claim = storage.get("PersistentVolumeClaim", "data")
        assert (
            claim["metadata"]["annotations"]["volume.kubernetes.io/storage-provisioner"]
            == "example.com/x"
        )
        assert storage.events("data")[-1][0] == "ExternalProvisioning"


class TestProtection:
    def test_claim_in_use_is_kept_until_last_pod_is_gone(self, storage):
        storage.volume()
        storage.claim()
        storage.pod(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}])
        storage.delete("PersistentVolumeClaim", "data")
        assert storage.get("PersistentVolumeClaim", "data")["metadata"]["deletionTimestamp"]
        storage.delete("Pod", "p", grace_period=0)
        assert storage.get("PersistentVolumeClaim", "data") is None

    def test_bound_volume_is_kept_until_claim_is_gone(self, storage):
        storage.volume()
        storage.claim()
        storage.delete("PersistentVolume", "pv")
        assert storage.phase("PersistentVolume", "pv") == "Bound"
        storage.delete("PersistentVolumeClaim", "data")
        assert storage.get("PersistentVolume", "pv") is None


class TestEphemeral:
    def test_ephemeral_claim_is_created_and_deleted_with_pod(self, storage):
        storage.class_(mode="Immediate")
        spec = {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": "fast",
        }
        pod = storage.pod(
            volumes=[{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": spec}}}]
        )
        claim = storage.get("PersistentVolumeClaim", "p-scratch")
        owner = claim["metadata"]["ownerReferences"][0]
        assert (owner["kind"], owner["uid"], owner["controller"]) == (
            "Pod",
            pod["metadata"]["uid"],
            True,
        )
        storage.advance(1.1)
        assert storage.bound("p-scratch")[0] == "Bound"
