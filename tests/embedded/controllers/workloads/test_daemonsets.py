import pytest

from pytest_kscen.embedded.controllers.workloads.daemonset_plan import node_of
from pytest_kscen.objects.resources import CONTROLLER_REVISIONS, DAEMON_SETS, NODES, PODS

SELECTOR = {"matchLabels": {"app": "web"}}


@pytest.fixture
def nodes(world):
    for name in "abc":
        world.create(NODES, name, {}, metadata={"labels": {"name": name}})
        world.patch(NODES, name, {"spec": {"taints": None}})


@pytest.fixture
def serve(world, template, nodes):
    def serve(**spec):
        return world.create(
            DAEMON_SETS, "agent", {"selector": SELECTOR, "template": template(), **spec}
        )

    return serve


def placed(world):
    return sorted(
        node_of(pod) for pod in world.pods() if not pod["metadata"].get("deletionTimestamp")
    )


def images(world):
    return sorted((node_of(pod), pod["spec"]["containers"][0]["image"]) for pod in world.pods())


def taint(world, node, effect, key="x"):
    world.patch(NODES, node, {"spec": {"taints": [{"key": key, "effect": effect}]}})


def test_each_node_runs_one_pod(world, serve):
    serve()
    assert placed(world) == ["a", "b", "c"]
    world.advance(1)
    assert world.status(DAEMON_SETS, "agent") == {
        "currentNumberScheduled": 3,
        "desiredNumberScheduled": 3,
        "numberMisscheduled": 0,
        "numberReady": 3,
        "numberAvailable": 3,
        "updatedNumberScheduled": 3,
        "observedGeneration": 1,
    }


def test_daemon_pod_has_node_affinity_and_tolerations(world, serve):
    serve()
    pod = world.pods()[0]
    required = pod["spec"]["affinity"]["nodeAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]
    fields = [{"key": "metadata.name", "operator": "In", "values": [node_of(pod)]}]
    assert required == {"nodeSelectorTerms": [{"matchFields": fields}]}
    ours = [
        (row["key"].removeprefix("node.kubernetes.io/"), row["effect"])
        for row in pod["spec"]["tolerations"]
    ]
    assert ours[:6] == [
        ("not-ready", "NoExecute"),
        ("unreachable", "NoExecute"),
        ("disk-pressure", "NoSchedule"),
        ("memory-pressure", "NoSchedule"),
        ("pid-pressure", "NoSchedule"),
        ("unschedulable", "NoSchedule"),
    ]
    [revision] = world.list(CONTROLLER_REVISIONS)
    digest = revision["metadata"]["labels"]["controller-revision-hash"]
    assert pod["metadata"]["labels"]["controller-revision-hash"] == digest
    assert revision["metadata"]["name"] == f"agent-{digest}"


def test_added_and_removed_nodes_are_followed(world, serve):
    serve()
    world.create(NODES, "d", {})
    world.patch(NODES, "d", {"spec": {"taints": None}})
    assert placed(world) == ["a", "b", "c", "d"]
    world.delete(NODES, "d")
    assert world.status(DAEMON_SETS, "agent")["desiredNumberScheduled"] == 3


def test_taints_prevent_or_evict_daemon_pods(world, serve):
    world.patch(NODES, "a", {"spec": {"taints": [{"key": "x", "effect": "NoSchedule"}]}})
    serve()
    assert placed(world) == ["b", "c"]
    taint(world, "b", "NoSchedule")
    assert placed(world) == ["b", "c"]
    assert world.status(DAEMON_SETS, "agent")["numberMisscheduled"] == 1
    taint(world, "c", "NoExecute")
    assert placed(world) == ["b"]
    taint(world, "c", "NoSchedule", key="node.kubernetes.io/unschedulable")
    assert placed(world) == ["b", "c"]


def test_node_selector_limits_nodes(world, serve, template):
    serve(template=template(nodeSelector={"name": "b"}))
    assert placed(world) == ["b"]
    world.patch(NODES, "c", {"metadata": {"labels": {"name": "b"}}})
    assert placed(world) == ["b", "c"]


def test_node_heartbeats_cause_no_writes(world, serve):
    serve()
    world.advance(1)
    before = world.get(DAEMON_SETS, "agent")["metadata"]["resourceVersion"]
    patch = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    world.ask(world.api.patch(NODES, "a", patch, subresource="status"))
    world.advance(1)
    assert world.get(DAEMON_SETS, "agent")["metadata"]["resourceVersion"] == before


def test_update_replaces_one_pod_at_a_time(world, serve, template):
    serve()
    world.advance(1)
    world.patch(DAEMON_SETS, "agent", {"spec": {"template": template("app:2")}})
    seen = []
    for _ in range(4):
        seen.append([image for _, image in images(world)].count("app:2"))
        world.advance(1)
    assert seen == [1, 2, 3, 3]
    assert world.status(DAEMON_SETS, "agent")["updatedNumberScheduled"] == 3


def test_update_respects_max_unavailable(world, serve, template):
    serve(updateStrategy={"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 2}})
    world.advance(1)
    world.patch(DAEMON_SETS, "agent", {"spec": {"template": template("app:2")}})
    assert [image for _, image in images(world)].count("app:2") == 2


def test_surge_starts_new_pod_first(world, serve, template):
    serve(
        updateStrategy={
            "type": "RollingUpdate",
            "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0},
        }
    )
    world.advance(1)
    world.patch(DAEMON_SETS, "agent", {"spec": {"template": template("app:2")}})
    assert len(images(world)) == 4
    least = 3
    for _ in range(8):
        least = min(least, world.status(DAEMON_SETS, "agent")["numberAvailable"])
        world.advance(0.5)
    assert least == 3
    assert images(world) == [("a", "app:2"), ("b", "app:2"), ("c", "app:2")]


def test_on_delete_replaces_deleted_pods_only(world, serve, template):
    serve(updateStrategy={"type": "OnDelete"})
    world.advance(1)
    world.patch(DAEMON_SETS, "agent", {"spec": {"template": template("app:2")}})
    world.advance(10)
    assert {image for _, image in images(world)} == {"app"}
    world.delete(PODS, world.names(PODS)[0])
    assert [image for _, image in images(world)].count("app:2") == 1


def test_failed_daemon_pod_is_replaced_with_backoff(world, serve, template):
    world.pod_runner.life = lambda _: (0.5, 1)
    serve(template=template(nodeSelector={"name": "a"}))
    world.advance(60)
    names = [pod["metadata"]["name"] for pod in world.pods()]
    failures = world.events("agent", "FailedDaemonPod")
    assert len(failures) == 6  # after 1.5, 3, 5, 9, 17 and 33 seconds
    assert failures[0].endswith("on node a, will try to kill it")
    assert len(names) == 1


def test_surplus_daemon_pod_is_deleted(world, serve):
    serve()
    world.advance(1)
    first = world.pods()[0]
    metadata = {"name": "extra", "labels": first["metadata"]["labels"]}
    world.ask(world.api.create(PODS, {"metadata": metadata, "spec": first["spec"]}, "default"))
    world.advance(1)
    assert "extra" not in world.names(PODS)
    assert placed(world) == ["a", "b", "c"]
