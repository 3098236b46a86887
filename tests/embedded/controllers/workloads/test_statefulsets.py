import pytest

from pytest_kscen.objects.resources import (
    CONTROLLER_REVISIONS,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    STATEFUL_SETS,
)

SELECTOR = {"matchLabels": {"app": "web"}}
CLAIMS = [
    {
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
]


@pytest.fixture
def state(world, template):
    def state(replicas=3, **spec):
        body = {
            "replicas": replicas,
            "serviceName": "db",
            "selector": SELECTOR,
            "template": template(),
            **spec,
        }
        return world.create(STATEFUL_SETS, "db", body)

    return state


def images(world):
    return {pod["metadata"]["name"]: pod["spec"]["containers"][0]["image"] for pod in world.pods()}


def roll(world, template, image="app:2", **spec):
    world.patch(STATEFUL_SETS, "db", {"spec": {"template": template(image), **spec}})


def test_pods_start_in_order(world, state):
    state(3)
    assert world.names(PODS) == ["db-0"]
    world.advance(1)
    assert world.names(PODS) == ["db-0", "db-1"]
    world.advance(2)
    status = world.status(STATEFUL_SETS, "db")
    revision = world.names(CONTROLLER_REVISIONS)[0]
    assert status == {
        "observedGeneration": 1,
        "replicas": 3,
        "readyReplicas": 3,
        "currentReplicas": 3,
        "updatedReplicas": 3,
        "availableReplicas": 3,
        "currentRevision": revision,
        "updateRevision": revision,
        "collisionCount": 0,
    }


def test_pod_has_identity(world, state):
    state(1, volumeClaimTemplates=CLAIMS, ordinals={"start": 7})
    [pod] = world.pods()
    revision = world.names(CONTROLLER_REVISIONS)[0]
    assert pod["metadata"]["labels"] == {
        "app": "web",
        "apps.kubernetes.io/pod-index": "7",
        "controller-revision-hash": revision,
        "statefulset.kubernetes.io/pod-name": "db-7",
    }
    assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == ("db-7", "db")
    assert {"name": "data", "persistentVolumeClaim": {"claimName": "data-db-7"}} in pod["spec"][
        "volumes"
    ]
    assert world.events("db") == [
        "Create Claim data-db-7 Pod db-7 in StatefulSet db success",
        "Create Pod db-7 in StatefulSet db successful",
    ]


def test_unready_pod_blocks_ordered_start(world, state):
    world.pod_runner.boot = None
    state(3)
    world.advance(60)
    assert world.names(PODS) == ["db-0"]


def test_parallel_pods_start_together(world, state):
    world.pod_runner.boot = None
    state(3, podManagementPolicy="Parallel")
    assert world.names(PODS) == ["db-0", "db-1", "db-2"]
    world.patch(STATEFUL_SETS, "db", {"spec": {"replicas": 0}})
    assert world.names(PODS) == []


def test_scale_down_removes_highest_ordinals(world, state):
    state(3)
    world.advance(3)
    world.pod_runner.takedown = 5.0
    world.patch(STATEFUL_SETS, "db", {"spec": {"replicas": 1}})
    deleting = [
        pod["metadata"]["name"] for pod in world.pods() if pod["metadata"].get("deletionTimestamp")
    ]
    assert deleting == ["db-2"]
    world.advance(5)
    assert world.names(PODS) == ["db-0", "db-1"]
    world.advance(5)
    assert world.names(PODS) == ["db-0"]


def test_update_rolls_from_highest_ordinal(world, state, template):
    state(3)
    world.advance(3)
    roll(world, template)
    seen = []
    for _ in range(4):
        seen.append([name for name, image in images(world).items() if image == "app:2"])
        world.advance(1)
    assert seen == [["db-2"], ["db-1", "db-2"], ["db-0", "db-1", "db-2"], ["db-0", "db-1", "db-2"]]
    status = world.status(STATEFUL_SETS, "db")
    assert status["currentRevision"] == status["updateRevision"]
    assert [row["revision"] for row in world.list(CONTROLLER_REVISIONS)].count(2) == 1


def test_partition_keeps_lower_ordinals(world, state, template):
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}
    state(3, updateStrategy=rolling)
    world.advance(3)
    roll(world, template)
    world.advance(10)
    assert images(world) == {"db-0": "app", "db-1": "app", "db-2": "app:2"}
    world.delete(PODS, "db-0")
    world.advance(2)
    assert images(world)["db-0"] == "app"
    status = world.status(STATEFUL_SETS, "db")
    assert (status["currentReplicas"], status["updatedReplicas"]) == (2, 1)


def test_on_delete_replaces_deleted_pods_only(world, state, template):
    state(2, updateStrategy={"type": "OnDelete"})
    world.advance(2)
    roll(world, template)
    world.advance(10)
    assert set(images(world).values()) == {"app"}
    world.delete(PODS, "db-1")
    world.advance(1)
    assert images(world) == {"db-0": "app", "db-1": "app:2"}


def test_rollback_reuses_revision(world, state, template):
    state(1)
    world.advance(1)
    [first] = world.names(CONTROLLER_REVISIONS)
    roll(world, template)
    world.advance(3)
    roll(world, template, "app")
    world.advance(3)
    assert world.get(CONTROLLER_REVISIONS, first)["revision"] == 3
    assert len(world.names(CONTROLLER_REVISIONS)) == 2
    assert world.status(STATEFUL_SETS, "db")["currentRevision"] == first


def test_revisions_beyond_history_are_deleted(world, state, template):
    state(1, revisionHistoryLimit=1)
    for number in range(4):
        world.advance(3)
        roll(world, template, f"app:{number}")
    world.advance(5)
    assert sorted(row["revision"] for row in world.list(CONTROLLER_REVISIONS)) == [4, 5]


def test_failed_pod_is_recreated_with_same_name(world, state):
    state(1)
    world.advance(1)
    before = world.get(PODS, "db-0")["metadata"]["uid"]
    world.end("db-0", 1)
    world.advance(1)
    again = world.get(PODS, "db-0")
    assert again["metadata"]["uid"] != before
    assert again["status"]["phase"] == "Running"


def owners(world, claim):
    references = world.get(PERSISTENT_VOLUME_CLAIMS, claim)["metadata"].get("ownerReferences", [])
    return [(reference["kind"], reference["name"]) for reference in references]


def test_claims_are_kept_by_default(world, state):
    state(2, volumeClaimTemplates=CLAIMS)
    world.advance(2)
    world.patch(STATEFUL_SETS, "db", {"spec": {"replicas": 1}})
    world.delete(STATEFUL_SETS, "db")
    world.advance(5)
    assert world.names(PODS) == []
    assert world.names(PERSISTENT_VOLUME_CLAIMS) == ["data-db-0", "data-db-1"]
    assert owners(world, "data-db-0") == []


def test_retention_policy_deletes_claims(world, state):
    policy = {"whenScaled": "Delete", "whenDeleted": "Delete"}
    state(2, volumeClaimTemplates=CLAIMS, persistentVolumeClaimRetentionPolicy=policy)
    world.advance(2)
    assert owners(world, "data-db-1") == [("StatefulSet", "db")]
    world.pod_runner.takedown = 5.0
    world.patch(STATEFUL_SETS, "db", {"spec": {"replicas": 1}})
    assert owners(world, "data-db-1") == [("Pod", "db-1")]
    world.advance(5)
    assert not _unmarked(world, "data-db-1")
    world.delete(STATEFUL_SETS, "db")
    world.advance(10)
    assert not _unmarked(world, "data-db-0")


def _unmarked(world, claim):
    """Return claims without a deletion mark: no controller protects claims here."""
    found = [
        row for row in world.list(PERSISTENT_VOLUME_CLAIMS) if row["metadata"]["name"] == claim
    ]
    return bool(found) and "deletionTimestamp" not in found[0]["metadata"]


def test_availability_follows_min_ready_seconds(world, state):
    state(2, minReadySeconds=5)
    world.advance(5)
    assert world.names(PODS) == ["db-0"]
    world.advance(1)
    assert world.names(PODS) == ["db-0", "db-1"]
    assert world.status(STATEFUL_SETS, "db")["availableReplicas"] == 1
