import pytest

from pytest_kscen.objects.conditions import is_true
from pytest_kscen.objects.resources import PODS

TWO = [{"name": "one", "image": "pause"}, {"name": "two", "image": "pause"}]


def restarts(mesh_cluster, pod="a"):
    return {
        each["name"]: each["restartCount"]
        for each in mesh_cluster.pods()[pod]["status"]["containerStatuses"]
    }


@pytest.mark.parametrize(
    ("named", "killed"), [(["two"], {"two"}), (["one", "two"], {"one", "two"}), ([], {"one"})]
)
def test_container_is_killed_once_and_restarts(mesh_cluster, named, killed):
    mesh_cluster.pod("a", containers=TWO)
    mesh_cluster.cluster.advance(10)
    mesh_cluster.chaos("PodChaos", app="a", action="container-kill", containerNames=named)
    mesh_cluster.cluster.advance(0)
    mesh_cluster.cluster.advance(0)  # what this last instant brings about
    assert mesh_cluster.conditions("PodChaos") == "SI"
    assert mesh_cluster.phases("PodChaos") == {
        f"default/a/{name}": "Injected" for name in sorted(killed)
    }
    mesh_cluster.cluster.advance(30)
    assert restarts(mesh_cluster) == {name: int(name in killed) for name in ("one", "two")}
    mesh_cluster.delete("PodChaos")
    mesh_cluster.cluster.advance(0)
    assert mesh_cluster.see("PodChaos") is None


def test_stopped_container_is_not_killed(mesh_cluster):
    mesh_cluster.pod("a", containers=[{"name": "c", "image": "somewhere.invalid/c"}])
    mesh_cluster.cluster.advance(10)
    mesh_cluster.chaos("PodChaos", app="a", action="container-kill")
    mesh_cluster.cluster.advance(5)
    assert mesh_cluster.conditions("PodChaos") == "S"
    assert mesh_cluster.phases("PodChaos") == {"default/a/c": "Not Injected/Wait"}
    assert (
        "Failed",
        "Failed to apply chaos: container default/a/c does not run",
    ) in mesh_cluster.events()


@pytest.mark.parametrize("command", [[], ["sh", "-c", "sleep 1000"]])
def test_pod_fails_until_the_chaos_ends(mesh_cluster, command):
    mesh_cluster.pod(
        "a",
        containers=[{"name": "c", "image": "busybox" if command else "pause", "command": command}],
    )
    mesh_cluster.cluster.advance(10)
    before = mesh_cluster.pods()["a"]
    assert is_true(before, "Ready")
    mesh_cluster.chaos("PodChaos", app="a", action="pod-failure", duration="60s")
    mesh_cluster.cluster.advance(0)
    assert mesh_cluster.conditions("PodChaos") == "S"  # asked for, and not seen yet
    mesh_cluster.cluster.advance(40)
    assert mesh_cluster.conditions("PodChaos") == "SI"
    assert not is_true(mesh_cluster.pods()["a"], "Ready")
    mesh_cluster.cluster.advance(21)
    assert mesh_cluster.conditions("PodChaos") == "SR"
    mesh_cluster.cluster.advance(400)
    after = mesh_cluster.pods()["a"]
    assert is_true(after, "Ready")
    assert after["spec"] == before["spec"]
    assert after["metadata"].get("annotations", {}) == {}
    assert restarts(mesh_cluster)["c"] >= 2


def test_last_of_two_pod_failures_restores_the_pod(mesh_cluster):
    mesh_cluster.pod("a")
    mesh_cluster.cluster.advance(10)
    for name in ("first", "second"):
        mesh_cluster.chaos("PodChaos", name, app="a", action="pod-failure")
        mesh_cluster.cluster.advance(10)
    mesh_cluster.delete("PodChaos", "first")
    mesh_cluster.cluster.advance(10)
    assert not is_true(mesh_cluster.pods()["a"], "Ready")
    mesh_cluster.delete("PodChaos", "second")
    mesh_cluster.cluster.advance(30)
    assert is_true(mesh_cluster.pods()["a"], "Ready")
    assert mesh_cluster.pods()["a"]["spec"]["containers"][0]["image"] == "pause"


def test_grace_period_is_awaited(mesh_cluster):
    mesh_cluster.pod(
        "a",
        containers=[
            {"name": "c", "image": "busybox", "command": ["sh", "-c", "trap '' TERM; sleep 1000"]}
        ],
    )
    mesh_cluster.cluster.advance(10)
    mesh_cluster.chaos("PodChaos", app="a", action="pod-kill", gracePeriod=20)
    mesh_cluster.cluster.advance(10)
    assert mesh_cluster.conditions("PodChaos") == "S"
    mesh_cluster.cluster.advance(15)
    assert mesh_cluster.conditions("PodChaos") == "SI"
    assert mesh_cluster.pods() == {}


def test_deleted_target_does_not_affect_the_other(mesh_cluster):
    slow = [{"name": "c", "image": "busybox", "command": ["sh", "-c", "trap '' TERM; sleep 1000"]}]
    for name in "ab":
        mesh_cluster.pod(name, app="x", containers=slow)
    mesh_cluster.cluster.advance(10)
    mesh_cluster.chaos("PodChaos", app="x", action="pod-kill", gracePeriod=20)
    mesh_cluster.cluster.advance(1)
    mesh_cluster.remove("a")
    mesh_cluster.cluster.advance(30)
    assert mesh_cluster.conditions("PodChaos") == "SI"
    assert mesh_cluster.pods() == {}


def test_target_deleted_by_others_counts_as_recovered(mesh_cluster):
    for name in "ab":
        mesh_cluster.pod(name, app="x")
    mesh_cluster.pod("late", app="x", containers=[{"name": "c", "image": "somewhere.invalid/c"}])
    mesh_cluster.cluster.advance(10)
    mesh_cluster.chaos("StressChaos", app="x", stressors={"cpu": {"workers": 1}})
    mesh_cluster.cluster.advance(1)
    assert mesh_cluster.conditions("StressChaos") == "S"
    for name in ("a", "late"):
        mesh_cluster.call(mesh_cluster.api.delete(PODS, name, "default"))
    mesh_cluster.cluster.advance(40)
    assert mesh_cluster.conditions("StressChaos") == "SI"  # of those that are left
    records = mesh_cluster.records("StressChaos")
    assert [record["phase"] for record in records.values()] == [
        "Not Injected",
        "Injected",
        "Not Injected",
    ]
    assert [(record["injectedCount"], record["recoveredCount"]) for record in records.values()] == [
        (1, 1),
        (1, 0),
        (0, 0),
    ]
    assert records["default/late/c"]["events"][-1]["message"] == "the target has vanished"


MARKED = {
    "StressChaos": {"stressors": {"memory": {"workers": 1, "size": "50%"}}},
    "IOChaos": {"action": "latency", "volumePath": "/data", "delay": "10ms"},
    "TimeChaos": {"timeOffset": "-10m"},
    "DNSChaos": {"action": "error"},
    "HTTPChaos": {"target": "Request", "port": 80, "abort": True},
    "JVMChaos": {"action": "gc"},
    "KernelChaos": {"failKernRequest": {"failtype": 0}},
    "BlockChaos": {"action": "delay", "volumeName": "data", "delay": {"latency": "1s"}},
}


@pytest.mark.parametrize("kind", MARKED)
def test_unchangeable_pod_is_annotated(mesh_cluster, kind):
    mesh_cluster.pod("a")
    mesh_cluster.cluster.advance(10)
    uid = mesh_cluster.chaos(kind, app="a", **MARKED[kind])["metadata"]["uid"]
    mesh_cluster.cluster.advance(1)
    assert mesh_cluster.conditions(kind) == "SI"
    mark = mesh_cluster.pods()["a"]["metadata"]["annotations"][f"marks.chaos-mesh.org/{uid}"]
    assert f'"kind":"{kind}","name":"it","namespace":"default"' in mark
    assert all(f'"{name}"' in mark for name in MARKED[kind])
    mesh_cluster.delete(kind)
    mesh_cluster.cluster.advance(1)
    assert mesh_cluster.see(kind) is None
    assert mesh_cluster.pods()["a"]["metadata"].get("annotations", {}) == {}


ELSEWHERE = {
    "AWSChaos": {"action": "ec2-stop", "awsRegion": "r", "ec2Instance": "i"},
    "AzureChaos": {
        "action": "vm-stop",
        "resourceGroupName": "r",
        "subscriptionID": "s",
        "vmName": "v",
    },
    "GCPChaos": {"action": "node-stop", "instance": "i", "project": "p", "zone": "z"},
    "PhysicalMachineChaos": {"action": "process", "mode": "one", "address": ["1.2.3.4"]},
}


@pytest.mark.parametrize("kind", ELSEWHERE)
def test_chaos_in_another_namespace_is_not_injected(mesh_cluster, kind):
    mesh_cluster.chaos(kind, **ELSEWHERE[kind])
    mesh_cluster.cluster.advance(60)
    assert mesh_cluster.conditions(kind) == ""
    assert [
        reason
        for reason, message in mesh_cluster.events()
        if "which the simulation cannot act on" in message
    ] == ["Failed"]
    mesh_cluster.delete(kind)
    mesh_cluster.cluster.advance(1)
    assert mesh_cluster.see(kind) is None
