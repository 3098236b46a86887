import pytest

from pytest_kscen.objects.conditions import is_true
from pytest_kscen.objects.resources import PODS

TWO = [{"name": "one", "image": "pause"}, {"name": "two", "image": "pause"}]


def restarts(mesh, pod="a"):
    return {
        each["name"]: each["restartCount"]
        for each in mesh.pods()[pod]["status"]["containerStatuses"]
    }


@pytest.mark.parametrize(
    ("named", "killed"), [(["two"], {"two"}), (["one", "two"], {"one", "two"}), ([], {"one"})]
)
def test_container_is_killed_once_and_restarts(mesh, named, killed):
    mesh.pod("a", containers=TWO)
    mesh.cluster.advance(10)
    mesh.chaos("PodChaos", app="a", action="container-kill", containerNames=named)
    mesh.cluster.advance(0)
    mesh.cluster.advance(0)  # what this last instant brings about
    assert mesh.conditions("PodChaos") == "SI"
    assert mesh.phases("PodChaos") == {f"default/a/{name}": "Injected" for name in sorted(killed)}
    mesh.cluster.advance(30)
    assert restarts(mesh) == {name: int(name in killed) for name in ("one", "two")}
    mesh.delete("PodChaos")
    mesh.cluster.advance(0)
    assert mesh.see("PodChaos") is None


def test_stopped_container_is_not_killed(mesh):
    mesh.pod("a", containers=[{"name": "c", "image": "somewhere.invalid/c"}])
    mesh.cluster.advance(10)
    mesh.chaos("PodChaos", app="a", action="container-kill")
    mesh.cluster.advance(5)
    assert mesh.conditions("PodChaos") == "S"
    assert mesh.phases("PodChaos") == {"default/a/c": "Not Injected/Wait"}
    assert ("Failed", "Failed to apply chaos: container default/a/c does not run") in mesh.events()


@pytest.mark.parametrize("command", [[], ["sh", "-c", "sleep 1000"]])
def test_pod_fails_until_the_chaos_ends(mesh, command):
    mesh.pod(
        "a",
        containers=[{"name": "c", "image": "busybox" if command else "pause", "command": command}],
    )
    mesh.cluster.advance(10)
    before = mesh.pods()["a"]
    assert is_true(before, "Ready")
    mesh.chaos("PodChaos", app="a", action="pod-failure", duration="60s")
    mesh.cluster.advance(0)
    assert mesh.conditions("PodChaos") == "S"  # asked for, and not seen yet
    mesh.cluster.advance(40)
    assert mesh.conditions("PodChaos") == "SI"
    assert not is_true(mesh.pods()["a"], "Ready")
    mesh.cluster.advance(21)
    assert mesh.conditions("PodChaos") == "SR"
    mesh.cluster.advance(400)
    after = mesh.pods()["a"]
    assert is_true(after, "Ready")
    assert after["spec"] == before["spec"]
    assert after["metadata"].get("annotations", {}) == {}
    assert restarts(mesh)["c"] >= 2


def test_last_of_two_pod_failures_restores_the_pod(mesh):
    mesh.pod("a")
    mesh.cluster.advance(10)
    for name in ("first", "second"):
        mesh.chaos("PodChaos", name, app="a", action="pod-failure")
        mesh.cluster.advance(10)
    mesh.delete("PodChaos", "first")
    mesh.cluster.advance(10)
    assert not is_true(mesh.pods()["a"], "Ready")
    mesh.delete("PodChaos", "second")
    mesh.cluster.advance(30)
    assert is_true(mesh.pods()["a"], "Ready")
    assert mesh.pods()["a"]["spec"]["containers"][0]["image"] == "pause"


def test_grace_period_is_awaited(mesh):
    mesh.pod(
        "a",
        containers=[
            {"name": "c", "image": "busybox", "command": ["sh", "-c", "trap '' TERM; sleep 1000"]}
        ],
    )
    mesh.cluster.advance(10)
    mesh.chaos("PodChaos", app="a", action="pod-kill", gracePeriod=20)
    mesh.cluster.advance(10)
    assert mesh.conditions("PodChaos") == "S"
    mesh.cluster.advance(15)
    assert mesh.conditions("PodChaos") == "SI"
    assert mesh.pods() == {}


def test_deleted_target_does_not_affect_the_other(mesh):
    slow = [{"name": "c", "image": "busybox", "command": ["sh", "-c", "trap '' TERM; sleep 1000"]}]
    for name in "ab":
        mesh.pod(name, app="x", containers=slow)
    mesh.cluster.advance(10)
    mesh.chaos("PodChaos", app="x", action="pod-kill", gracePeriod=20)
    mesh.cluster.advance(1)
    mesh.remove("a")
    mesh.cluster.advance(30)
    assert mesh.conditions("PodChaos") == "SI"
    assert mesh.pods() == {}


def test_target_deleted_by_others_counts_as_recovered(mesh):
    for name in "ab":
        mesh.pod(name, app="x")
    mesh.pod("late", app="x", containers=[{"name": "c", "image": "somewhere.invalid/c"}])
    mesh.cluster.advance(10)
    mesh.chaos("StressChaos", app="x", stressors={"cpu": {"workers": 1}})
    mesh.cluster.advance(1)
    assert mesh.conditions("StressChaos") == "S"
    for name in ("a", "late"):
        mesh.call(mesh.api.delete(PODS, name, "default"))
    mesh.cluster.advance(40)
    assert mesh.conditions("StressChaos") == "SI"  # of those that are left
    records = mesh.records("StressChaos")
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
def test_unchangeable_pod_is_annotated(mesh, kind):
    mesh.pod("a")
    mesh.cluster.advance(10)
    uid = mesh.chaos(kind, app="a", **MARKED[kind])["metadata"]["uid"]
    mesh.cluster.advance(1)
    assert mesh.conditions(kind) == "SI"
    mark = mesh.pods()["a"]["metadata"]["annotations"][f"marks.chaos-mesh.org/{uid}"]
    assert f'"kind":"{kind}","name":"it","namespace":"default"' in mark
    assert all(f'"{name}"' in mark for name in MARKED[kind])
    mesh.delete(kind)
    mesh.cluster.advance(1)
    assert mesh.see(kind) is None
    assert mesh.pods()["a"]["metadata"].get("annotations", {}) == {}


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
def test_chaos_in_another_namespace_is_not_injected(mesh, kind):
    mesh.chaos(kind, **ELSEWHERE[kind])
    mesh.cluster.advance(60)
    assert mesh.conditions(kind) == ""
    assert [
        reason
        for reason, message in mesh.events()
        if "which the simulation cannot act on" in message
    ] == ["Failed"]
    mesh.delete(kind)
    mesh.cluster.advance(1)
    assert mesh.see(kind) is None
