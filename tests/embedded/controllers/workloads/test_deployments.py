import pytest

from pytest_kscen.objects.errors import forbidden
from pytest_kscen.objects.resources import DEPLOYMENTS, PODS, REPLICA_SETS

SELECTOR = {"matchLabels": {"app": "web"}}


@pytest.fixture
def deploy(world, template):
    def deploy(replicas=2, **spec):
        return world.create(
            DEPLOYMENTS,
            "web",
            {"replicas": replicas, "selector": SELECTOR, "template": template(), **spec},
        )

    return deploy


def sizes(world):
    return {
        row["spec"]["template"]["spec"]["containers"][0]["image"]: row["spec"]["replicas"]
        for row in world.list(REPLICA_SETS)
    }


def roll(world, template, image, **spec):
    world.patch(DEPLOYMENTS, "web", {"spec": {"template": template(image), **spec}})


def test_pods_are_created_and_counted(world, deploy):
    deploy(2)
    assert world.status(DEPLOYMENTS, "web")["unavailableReplicas"] == 2
    assert world.conditions(DEPLOYMENTS, "web") == {
        "Available": ("False", "MinimumReplicasUnavailable"),
        "Progressing": ("True", "ReplicaSetUpdated"),
    }
    world.advance(1)
    status = world.status(DEPLOYMENTS, "web")
    counts = {
        name: status.get(name)
        for name in ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")
    }
    assert counts == dict.fromkeys(counts, 2)
    assert status["terminatingReplicas"] == 0
    assert world.conditions(DEPLOYMENTS, "web") == {
        "Available": ("True", "MinimumReplicasAvailable"),
        "Progressing": ("True", "NewReplicaSetAvailable"),
    }
    [only] = world.names(REPLICA_SETS)
    assert world.events("web") == [f"Scaled up replica set {only} from 0 to 2"]


def test_replica_set_has_owner_and_hash(world, deploy):
    deploy(2)
    [made] = world.list(REPLICA_SETS)
    digest = made["metadata"]["labels"]["pod-template-hash"]
    assert made["metadata"]["name"] == f"web-{digest}"
    assert set(digest) <= set("bcdfghjklmnpqrstvwxz2456789")
    assert made["spec"]["selector"]["matchLabels"] == {"app": "web", "pod-template-hash": digest}
    assert made["metadata"]["annotations"] == {
        "deployment.kubernetes.io/desired-replicas": "2",
        "deployment.kubernetes.io/max-replicas": "3",
        "deployment.kubernetes.io/revision": "1",
    }
    deployment = world.get(DEPLOYMENTS, "web")
    assert deployment["metadata"]["annotations"] == {"deployment.kubernetes.io/revision": "1"}
    assert deployment["metadata"]["generation"] == 1
    assert {pod["metadata"]["labels"]["pod-template-hash"] for pod in world.pods()} == {digest}


def test_rolling_update_respects_surge_and_unavailable(world, deploy, template):
    deploy(4)
    world.advance(1)
    roll(world, template, "app:2")
    most, least = 0, 4
    for _ in range(20):
        status = world.status(DEPLOYMENTS, "web")
        most, least = max(most, status["replicas"]), min(least, status.get("availableReplicas", 0))
        world.advance(0.5)
    assert (most, least) == (5, 3)
    assert sizes(world) == {"app": 0, "app:2": 4}
    old, new = (
        world.names(REPLICA_SETS, labels=f"pod-template-hash={row}") for row in hashes(world)
    )
    assert world.events("web", "ScalingReplicaSet")[1:] == [
        f"Scaled up replica set {new[0]} from 0 to 1",
        f"Scaled down replica set {old[0]} from 4 to 3",
        f"Scaled up replica set {new[0]} from 1 to 2",
        f"Scaled down replica set {old[0]} from 3 to 1",
        f"Scaled up replica set {new[0]} from 2 to 4",
        f"Scaled down replica set {old[0]} from 1 to 0",
    ]


def hashes(world):
    rows = sorted(world.list(REPLICA_SETS), key=lambda row: row["metadata"]["creationTimestamp"])
    return [row["metadata"]["labels"]["pod-template-hash"] for row in rows]


def test_recreate_waits_for_last_old_pod(world, deploy, template):
    deploy(2, strategy={"type": "Recreate"})
    world.advance(1)
    world.pod_runner.takedown = 5.0
    roll(world, template, "app:2")
    assert sizes(world) == {"app": 0}
    world.advance(4)
    assert sizes(world) == {"app": 0}
    world.advance(1)
    assert sizes(world) == {"app": 0, "app:2": 2}


def test_failed_rollout_exceeds_deadline_and_is_rolled_back(world, deploy, template):
    deploy(2, progressDeadlineSeconds=30)
    world.advance(1)
    world.pod_runner.boot = None
    roll(world, template, "broken")
    world.advance(29)
    assert world.conditions(DEPLOYMENTS, "web")["Progressing"] == ("True", "ReplicaSetUpdated")
    world.advance(1)
    assert world.conditions(DEPLOYMENTS, "web")["Progressing"] == (
        "False",
        "ProgressDeadlineExceeded",
    )
    assert world.status(DEPLOYMENTS, "web")["availableReplicas"] == 2
    world.pod_runner.boot = 1.0
    roll(world, template, "app")
    world.advance(5)
    assert sizes(world) == {"app": 2, "broken": 0}
    assert world.conditions(DEPLOYMENTS, "web")["Progressing"] == ("True", "NewReplicaSetAvailable")
    back = next(row for row in world.list(REPLICA_SETS) if row["spec"]["replicas"])["metadata"][
        "annotations"
    ]
    assert back["deployment.kubernetes.io/revision"] == "3"
    assert back["deployment.kubernetes.io/revision-history"] == "1"


def test_paused_deployment_is_scaled_but_not_rolled_out(world, deploy, template):
    deploy(2)
    world.advance(1)
    world.patch(DEPLOYMENTS, "web", {"spec": {"paused": True}})
    assert world.conditions(DEPLOYMENTS, "web")["Progressing"] == ("Unknown", "DeploymentPaused")
    roll(world, template, "app:2", replicas=3)
    world.advance(2)
    assert sizes(world) == {"app": 3}
    world.patch(DEPLOYMENTS, "web", {"spec": {"paused": False}})
    world.advance(10)
    assert sizes(world) == {"app": 0, "app:2": 3}


def test_scaling_during_rollout_is_proportional(world, deploy, template):
    deploy(
        10,
        strategy={"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 3, "maxUnavailable": 2}},
    )
    world.advance(1)
    world.pod_runner.boot = None
    roll(world, template, "app:2")
    assert sizes(world) == {"app": 8, "app:2": 5}
    world.patch(DEPLOYMENTS, "web", {"spec": {"replicas": 15}})
    assert sizes(world) == {"app": 11, "app:2": 7}


def test_old_replica_sets_beyond_history_are_deleted(world, deploy, template):
    deploy(1, revisionHistoryLimit=1)
    for number in range(4):
        world.advance(3)
        roll(world, template, f"app:{number}")
    world.advance(5)
    assert sizes(world) == {"app:2": 0, "app:3": 1}


def test_unhealthy_old_pods_are_deleted_first(world, deploy, template):
    deploy(4)
    world.advance(1)
    sick = world.names(PODS)[0]
    world.unready(sick)
    roll(world, template, "app:2")
    assert sick not in world.names(PODS)


def test_pod_refusal_sets_replica_failure_condition(world, deploy, monkeypatch):
    create, tries = world.api.create, []

    async def refuse(resource, obj, *args, **options):
        if resource is PODS and not options.get("subresource"):
            tries.append(world.now)
            raise forbidden(PODS, "", "no")
        return await create(resource, obj, *args, **options)

    monkeypatch.setattr(world.api, "create", refuse)
    deploy(2)
    world.advance(1)
    assert tries == [
        0,
        0,
        0.005,
        0.025,
        0.065,
        0.145,
        0.305,
        0.625,
    ]  # that it has told of its failure brings it back once
    assert world.conditions(DEPLOYMENTS, "web")["ReplicaFailure"] == ("True", "FailedCreate")
    [name] = world.names(REPLICA_SETS)
    assert world.events(name) == ["Error creating: pods is forbidden: no"]
    monkeypatch.undo()
    world.advance(5)
    assert "ReplicaFailure" not in world.conditions(DEPLOYMENTS, "web")
    assert world.status(DEPLOYMENTS, "web")["readyReplicas"] == 2


def test_pods_are_deleted_with_deployment(world, deploy):
    deploy(3)
    world.advance(1)
    world.delete(DEPLOYMENTS, "web")
    assert world.names(REPLICA_SETS) == world.names(PODS) == []


def test_hash_collision_is_resolved(world, deploy, template):
    deploy(1)
    world.advance(1)
    [taken] = world.names(REPLICA_SETS)
    world.delete(DEPLOYMENTS, "web", propagation="Orphan")
    world.patch(REPLICA_SETS, taken, {"metadata": {"labels": {"app": "other"}}})
    deploy(1)
    world.advance(2)
    assert world.status(DEPLOYMENTS, "web")["collisionCount"] == 1
    assert len(world.names(REPLICA_SETS)) == 2


def test_orphaned_replica_sets_are_adopted(world, deploy):
    deploy(2)
    world.advance(1)
    before = world.names(PODS)
    world.delete(DEPLOYMENTS, "web", propagation="Orphan")
    assert world.names(PODS) == before
    again = deploy(2)
    world.advance(1)
    assert world.names(PODS) == before
    [owner] = world.list(REPLICA_SETS)[0]["metadata"]["ownerReferences"]
    assert owner["uid"] == again["metadata"]["uid"]


def test_hundred_pods_are_ready_within_a_second(world, deploy):
    deploy(100)
    world.advance(1)
    assert world.status(DEPLOYMENTS, "web")["readyReplicas"] == 100
    assert len(world.pods()) == 100
