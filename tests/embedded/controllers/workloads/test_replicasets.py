import pytest

from pytest_kscen.embedded.controllers.pod_state import by_deletion_rank
from pytest_kscen.objects.resources import PODS, REPLICA_SETS

SELECTOR = {"matchLabels": {"app": "web"}}


@pytest.fixture
def replicate(world, template):
    def replicate(replicas=3, name="rs", **spec):
        return world.create(
            REPLICA_SETS,
            name,
            {"replicas": replicas, "selector": SELECTOR, "template": template(), **spec},
        )

    return replicate


def test_pods_are_created_from_template(world, replicate):
    owner = replicate(1)
    [pod] = world.pods()
    assert pod["metadata"]["generateName"] == "rs-"
    assert pod["metadata"]["labels"] == {"app": "web"}
    assert pod["metadata"]["ownerReferences"] == [
        {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "name": "rs",
            "uid": owner["metadata"]["uid"],
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]
    assert world.events("rs") == [f"Created pod: {pod['metadata']['name']}"]


def test_deleted_pod_is_replaced_immediately(world, replicate):
    replicate(2)
    world.advance(1)
    gone = world.names(PODS)[0]
    world.pod_runner.takedown = 5.0
    world.delete(PODS, gone)
    assert len(world.names(PODS)) == 3
    status = world.status(REPLICA_SETS, "rs")
    assert (status["replicas"], status["readyReplicas"], status["terminatingReplicas"]) == (2, 1, 1)
    world.advance(5)
    assert gone not in world.names(PODS)
    assert world.status(REPLICA_SETS, "rs")["terminatingReplicas"] == 0


def test_failed_pod_is_replaced_and_kept(world, replicate):
    replicate(1)
    world.advance(1)
    failed = world.names(PODS)[0]
    world.end(failed, 1)
    assert len(world.names(PODS)) == 2
    assert failed in world.names(PODS)


def test_status_counts_existing_pods(world, replicate):
    replicate(2)
    assert world.status(REPLICA_SETS, "rs") == {
        "replicas": 2,
        "fullyLabeledReplicas": 2,
        "observedGeneration": 1,
        "terminatingReplicas": 0,
    }


def test_pods_are_available_after_min_ready_seconds(world, replicate):
    replicate(1, minReadySeconds=10)
    world.advance(10)
    assert "availableReplicas" not in world.status(REPLICA_SETS, "rs")
    world.advance(1)
    assert world.status(REPLICA_SETS, "rs")["availableReplicas"] == 1


def test_matching_orphans_are_adopted(world, replicate):
    world.create(
        PODS,
        "lone",
        {"containers": [{"name": "c", "image": "app"}]},
        metadata={"labels": {"app": "web"}},
    )
    owner = replicate(2)
    assert (
        world.get(PODS, "lone")["metadata"]["ownerReferences"][0]["uid"] == owner["metadata"]["uid"]
    )
    assert len(world.names(PODS)) == 2


def test_pod_that_stops_matching_is_released_and_replaced(world, replicate):
    replicate(1)
    world.advance(1)
    [name] = world.names(PODS)
    world.patch(PODS, name, {"metadata": {"labels": {"app": "other"}}})
    assert "ownerReferences" not in world.get(PODS, name)["metadata"]
    assert len(world.names(PODS)) == 2


def test_orphan_is_adopted_by_one_set(world, replicate):
    replicate(0, "one")
    replicate(0, "two")
    world.create(
        PODS,
        "lone",
        {"containers": [{"name": "c", "image": "app"}]},
        metadata={"labels": {"app": "web"}},
    )
    world.advance(5)
    assert world.names(PODS) == []
    assert sorted(world.events("one") + world.events("two")) == ["Deleted pod: lone"]


def test_pods_are_deleted_with_set_unless_orphaned(world, replicate):
    replicate(2)
    world.advance(1)
    world.delete(REPLICA_SETS, "rs", propagation="Orphan")
    assert len(world.names(PODS)) == 2
    assert all("ownerReferences" not in pod["metadata"] for pod in world.pods())
    replicate(2)
    world.delete(REPLICA_SETS, "rs", propagation="Foreground")
    assert world.names(PODS) == []


NOW = 1_000_000.0


def pod(uid, *, node="n", phase="Running", ready=None, cost=None, restarts=0, created=100_000):
    stamp = lambda seconds: (  # noqa: E731
        f"1970-01-{1 + int(seconds) // 86400:02}T{int(seconds) % 86400 // 3600:02}:00:00Z"
    )
    condition = (
        [{"type": "Ready", "status": "True", "lastTransitionTime": stamp(ready)}]
        if ready is not None
        else []
    )
    annotations = {"controller.kubernetes.io/pod-deletion-cost": cost} if cost else {}
    return {
        "metadata": {"uid": uid, "creationTimestamp": stamp(created), "annotations": annotations},
        "spec": {"nodeName": node} if node else {},
        "status": {
            "phase": phase,
            "conditions": condition,
            "containerStatuses": [{"restartCount": restarts}],
        },
    }


@pytest.mark.parametrize(
    ("gone", "kept"),
    [
        (pod("b", node=""), pod("a")),
        (pod("b", phase="Pending"), pod("a", phase="Unknown")),
        (pod("b", phase="Unknown"), pod("a")),
        (pod("b"), pod("a", ready=0)),
        (pod("b", ready=0, cost="-5"), pod("a", ready=0)),
        (pod("b", node="crowded", ready=0), pod("a", node="empty", ready=0)),
        (pod("b", ready=990_000), pod("a", ready=0)),
        (pod("b", ready=0, restarts=3), pod("a", ready=0)),
        (pod("b", ready=0, created=990_000), pod("a", ready=0)),
        (pod("a", ready=0), pod("b", ready=0)),
    ],
    ids=[
        "unplaced",
        "pending",
        "unknown",
        "unready",
        "cheap",
        "crowded",
        "newly ready",
        "restarted",
        "young",
        "by uid",
    ],
)
def test_deletion_order_of_pods(gone, kept):
    assert by_deletion_rank([kept, gone], {"crowded": 2, "empty": 1, "n": 2}, NOW) == [gone, kept]
