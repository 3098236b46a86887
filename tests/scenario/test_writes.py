"""Classification of writes: their writer, and minor steps in the timeline."""

import contextlib

import pytest

from pytest_kscen.kube.gate import check_scenario_step_phase
from pytest_kscen.objects.errors import AlreadyExists, NotFound
from pytest_kscen.objects.resources import CONFIG_MAPS, NODES, PODS, REPLICA_SETS
from pytest_kscen.run.plan import Plan
from pytest_kscen.run.runner import ScenarioRunner
from pytest_kscen.scenario.waiting import Waiter
from pytest_kscen.scenario.writes import CREATE, UPDATE, USERS, Meaning, Write, meaning_of
from tests.scenario.objects import create, done, node, pod, scenario

CONFIG = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "c", "namespace": "default"},
    "data": {"n": "0"},
}
EVICTION = {
    "apiVersion": "policy/v1",
    "kind": "Eviction",
    "metadata": {"name": "a", "namespace": "default"},
}
OWN = "own-controller"


def brought(runner, once, waiter, every=1.0):
    """Play with a custom controller whose loop does this once."""
    cluster = runner.cluster
    api, clock = cluster.api(OWN), cluster.runner.clock

    async def control():
        while True:
            with contextlib.suppress(NotFound, AlreadyExists):
                await once(api)
            await check_scenario_step_phase(OWN, api, clock)
            await clock.sleep(every)

    runner.controllers.add(Waiter(OWN, waiter))
    cluster.runner.start(control(), OWN)


def steps(played, kind):
    return [tuple(event.step) for event in played.timeline.of(kind) if event.controller == OWN]


def test_every_change_of_an_object_is_a_step(runner):
    async def counts(api):
        number = int((await api.get(CONFIG_MAPS, "c", "default"))["data"]["n"])
        if number < 3:
            await api.patch(CONFIG_MAPS, "c", {"data": {"n": str(number + 1)}}, "default")

    brought(
        runner,
        counts,
        {
            CONFIG_MAPS: lambda one: (
                "is low" if one["metadata"]["name"] == "c" and one["data"]["n"] < "3" else ""
            )
        },
    )
    played = runner.play(scenario(create(1, CONFIG), done(1), controllers=[OWN]))

    assert steps(played, "patch") == [(1, 1), (1, 2), (1, 3)]


def test_refused_write_is_no_event_and_ends_no_turn(runner):
    async def makes(api):
        if (await api.list(NODES)).items:
            await api.create(CONFIG_MAPS, CONFIG, "default")

    brought(runner, makes, {CONFIG_MAPS: lambda _: ""}, every=0.01)
    played = runner.play(
        scenario(create(1, node()), create(2, node("two")), done(2), controllers=[OWN])
    )

    assert played.phase == "Succeeded"
    assert steps(played, "create") == [(1, 1)]
    assert [event["controller"] for event in _told(played)].count(OWN) == 1


def _told(played):
    timeline = played.live["status"]["scenarioResult"]["timeline"]
    return [{"controller": "", **event} for events in timeline.values() for event in events]


def test_scale_is_a_patch(runner):
    async def scales(api):
        if (await api.get(REPLICA_SETS, "two", "default"))["spec"]["replicas"] < 2:
            await api.patch(
                REPLICA_SETS, "two", {"spec": {"replicas": 2}}, "default", subresource="scale"
            )

    template = {"metadata": {"labels": {"app": "a"}}, "spec": pod("a")["spec"]}
    replicas = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": "two", "namespace": "default"},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "a"}}, "template": template},
    }
    brought(
        runner,
        scales,
        {REPLICA_SETS: lambda one: "is small" if one["spec"]["replicas"] < 2 else ""},
    )
    played = runner.play(
        scenario(create(1, node()), create(2, replicas), done(2), controllers=[OWN])
    )
    [event] = [event for event in played.timeline.of("patch") if event.controller == OWN]

    assert event.step == (2, 1)
    assert event.patch.operation["typeMeta"] == {"apiVersion": "apps/v1", "kind": "ReplicaSet"}


def test_eviction_is_one_deletion(runner):
    async def evicts(api):
        there = await api.get(PODS, "a", "default")
        if there["spec"].get("nodeName") and not there["metadata"].get("deletionTimestamp"):
            await api.create(PODS, EVICTION, "default", name="a", subresource="eviction")

    def stays(one):
        return "" if one["metadata"].get("deletionTimestamp") else "should go"

    brought(runner, evicts, {PODS: stays})
    played = runner.play(
        scenario(
            create(1, node()),
            create(1, pod("a")),
            done(1),
            controllers=["kube-scheduler", OWN],
            disabled=["kubelet"],
        )
    )
    assert steps(played, "delete") == [(1, 2)]
    assert played.phase == "Succeeded"


@pytest.mark.parametrize("who", ["controller", "agent", "mallory"])
def test_foreign_status_write_fails_the_scenario(runner, who):
    played = runner.play(scenario(create(1, node())))
    api = runner.cluster.api(who)
    runner.cluster.runner.call(
        api.patch(NODES, "node-1", {"status": {"allocatable": {"cpu": "64"}}}, subresource="status")
    )

    assert (played.phase, played.message) == (
        "Failed",
        (
            f"step 1: {who} updated nodes node-1 while the scenario was running; only "
            "its operations and controllers may write"
        ),
    )


@pytest.mark.parametrize(
    ("writer", "meaning"),
    [
        (f"{USERS}scenario-controller", Meaning.OURS),
        (f"{USERS}kubelet", Meaning.REACTION),
        ("system:node:one", Meaning.REACTION),
        ("system:kube-scheduler", Meaning.STEP),
        ("system:serviceaccount:kube-system:replicaset-controller", Meaning.REACTION),
        ("system:serviceaccount:kube-system:whatever", Meaning.REACTION),
        ("system:serviceaccount:theirs:own-controller", Meaning.REACTION),
        ("scenario-controller", Meaning.FOREIGN),
        ("kubelet", Meaning.FOREIGN),
        ("controller", Meaning.FOREIGN),
        ("kubernetes-admin", Meaning.FOREIGN),
        ("system:serviceaccount:theirs:controller", Meaning.FOREIGN),
        ("system:serviceaccount:theirs:scenario-controller", Meaning.FOREIGN),
        ("system:serviceaccount:theirs:replicaset-controller", Meaning.FOREIGN),
        ("system:serviceaccount:theirs:kube-scheduler", Meaning.FOREIGN),
    ],
)
def test_writer_is_identified(writer, meaning):
    write = Write(writer, CREATE, PODS, "", "default", "a", pod("a"), None)
    known = ["kube-scheduler", "replicaset-controller", "kubelet", OWN]
    assert meaning_of(write, ["kube-scheduler"], known) is meaning


def test_write_without_a_change_is_no_step():
    one = {**CONFIG, "metadata": {**CONFIG["metadata"], "resourceVersion": "1"}}
    write = Write(f"{USERS}{OWN}", UPDATE, CONFIG_MAPS, "", "default", "c", one, {**one})
    assert meaning_of(write, [OWN], [OWN]) is Meaning.RESULT


@pytest.fixture
def real():
    from pytest_kscen.clusters.controlplane.cluster import ControlPlaneCluster

    cluster = ControlPlaneCluster(1, nodes=0)
    runner = ScenarioRunner(cluster, Plan())
    yield runner
    runner.close()
    cluster.close()


@pytest.mark.controlplane
def test_real_server_calls_webhooks_for_evictions_and_status(real):
    async def evicts(api):
        there = await api.get(PODS, "a", "default")
        if there["spec"].get("nodeName") and not there["metadata"].get("deletionTimestamp"):
            await api.create(PODS, EVICTION, "default", name="a", subresource="eviction")

    operations, mallory, call = (
        (create(1, node()), create(1, pod("a"))),
        real.cluster.api("mallory"),
        real.cluster.runner.call,
    )
    played = real.play(scenario(*operations, name="foreign-status"))
    call(
        mallory.patch(
            NODES, "node-1", {"status": {"allocatable": {"cpu": "64"}}}, subresource="status"
        )
    )
    played.until_over()
    assert "mallory updated nodes node-1 while" in played.message

    played = real.play(scenario(*operations, name="foreign-eviction"))
    call(mallory.create(PODS, EVICTION, "default", name="a", subresource="eviction"))
    played.until_over()
    assert "mallory deleted pods default/a while" in played.message

    brought(
        real,
        evicts,
        {PODS: lambda one: "" if one["metadata"].get("deletionTimestamp") else "should go"},
        every=0.1,
    )
    played = real.play(
        scenario(*operations, done(1), controllers=["kube-scheduler", OWN], name="own-eviction")
    )
    [event] = [event for event in played.timeline.of("delete") if event.controller == OWN]
    assert (event.step, event.delete.operation["typeMeta"]) == (
        (1, 2),
        {"apiVersion": "v1", "kind": "Pod"},
    )
