"""Our victims and their nodes, compared with the choices of the real kube-scheduler."""

import pytest
from test_against_kube_scheduler import PATIENCE, has_seen_all, ours, rival  # noqa: F401
from test_small_and_large import HOST, ZONE

from pytest_kscen.chance import Chance
from pytest_kscen.embedded.scheduler.filtering import SchedulingAttempt, find_feasible_nodes
from pytest_kscen.embedded.scheduler.framework.pods_and_nodes import QueuedPod
from pytest_kscen.embedded.scheduler.plugins.preemption import best_candidates
from pytest_kscen.objects.conditions import condition
from pytest_kscen.objects.resources import POD_DISRUPTION_BUDGETS, PODS
from pytest_kscen.scheduler import CycleState, PodInfo

pytestmark = pytest.mark.controlplane

NODE_COUNT, ROUNDS = 8, 12
HARD = "requiredDuringSchedulingIgnoredDuringExecution"


def node(number):
    labels = {HOST: f"n{number}", ZONE: f"z{number % 3}"}
    amounts = {"cpu": "4", "memory": "8Gi", "pods": "8"}
    return {
        "metadata": {"name": f"n{number}", "labels": labels},
        "spec": {},
        "status": {"capacity": amounts, "allocatable": amounts},
    }


def some_pod(draws, name, cls, *, may_have_port=True, **spec):
    app = f"a{draws.below(3)}"
    container = {
        "name": "c",
        "image": "app:1",
        "resources": {"requests": {"cpu": f"{draws.whole(4, 20)}00m"}},
    }
    if may_have_port and draws.below(5) == 0:
        container["ports"] = [{"containerPort": 80, "hostPort": 80}]
    mine = {"labelSelector": {"matchLabels": {"app": f"a{draws.below(3)}"}}}
    spec = {"containers": [container], "priorityClassName": f"class-{cls}", **spec}
    match draws.below(8):
        case 0:
            spec["affinity"] = {"podAntiAffinity": {HARD: [{**mine, "topologyKey": HOST}]}}
        case 1:
            skew = {
                "maxSkew": draws.whole(1, 2),
                "topologyKey": ZONE,
                "whenUnsatisfiable": "DoNotSchedule",
            }
            spec["topologySpreadConstraints"] = [{**skew, **mine}]
        case 2:
            spec["nodeSelector"] = {ZONE: f"z{draws.below(3)}"}
    return {
        "metadata": {"name": name, "namespace": "default", "labels": {"app": app}},
        "spec": spec,
    }


def fill(rival, draws):  # noqa: F811
    """Every node with pods on it that are too many for anything else, and budgets; their last
    versions.
    """
    made = []
    for number in range(NODE_COUNT):
        for one in range(draws.whole(2, 4)):
            pod = some_pod(
                draws,
                f"v{number}-{one}",
                draws.below(2),
                nodeName=f"n{number}",
                may_have_port=one == 0,
            )
            rival.ask(rival.api.create(PODS, pod))
            status = {
                "status": {"startTime": f"2026-01-01T0{draws.whole(1, 4)}:0{one}:00Z"}
            }  # no two alike on a node
            name = pod["metadata"]["name"]
            made.append(
                rival.ask(rival.api.patch(PODS, name, status, "default", subresource="status"))
            )
    for number in range(draws.below(3)):
        name, selector = f"pdb{number}", {"matchLabels": {"app": f"a{number}"}}
        obj = {
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"minAvailable": 1, "selector": selector},
        }
        rival.ask(rival.api.create(POD_DISRUPTION_BUDGETS, obj))
        status = {
            "disruptionsAllowed": draws.below(2),
            "currentHealthy": 1,
            "desiredHealthy": 1,
            "expectedPods": 1,
        }
        rival.ask(
            rival.api.patch(
                POD_DISRUPTION_BUDGETS, name, {"status": status}, "default", subresource="status"
            )
        )
    return made


async def opinion(scheduler, obj):
    """Nodes that will do; or the best nodes to make room on, with all candidates; or why nothing
    helps.
    """
    profile = scheduler._profiles["default-scheduler"]
    handle, state, pod = profile.handle, CycleState(), PodInfo(obj)
    handle.snapshot.refresh()
    assert profile.pre_filter(state, pod, handle.snapshot.nodes) is None
    found = find_feasible_nodes(
        SchedulingAttempt(profile, QueuedPod(pod, 0, 0), pod, state),
        handle.snapshot.nodes,
        0,
        len(handle.snapshot.nodes),
    )
    if found.nodes:
        return [node.name for node in found.nodes], {}, ""
    plugin = profile.plugins["DefaultPreemption"]
    helped = [
        one
        for one in handle.snapshot.nodes
        if found.statuses[one.name].code.name == "UNSCHEDULABLE"
    ]
    candidates, refusals = plugin._find_candidates(state, pod, helped)
    best = best_candidates(candidates, "2026-12-31T00:00:00Z") if candidates else []
    return best, candidates, plugin._explain_refusals(refusals)


@pytest.mark.parametrize("seed", range(8))
def test_victims_are_equal(rival, ours, seed):  # noqa: F811
    draws = Chance(seed).stream("preemption")
    rival.clear()
    rival.ask(rival.api.delete_collection(POD_DISRUPTION_BUDGETS, "default"))
    for number in range(NODE_COUNT):
        rival.add_node(node(number))
    made = fill(rival, draws)
    has_seen_all(rival)
    mine, preemptions = ours(), 0
    pods = mine.informers.of(PODS)

    def version(pod):
        return (pods.get(pod["metadata"]["name"], "default") or pod | {"metadata": {}})[
            "metadata"
        ].get("resourceVersion")

    assert rival.runner.until(
        lambda: all(version(pod) == pod["metadata"]["resourceVersion"] for pod in made), PATIENCE
    )
    for number in range(ROUNDS):
        pod = some_pod(draws, f"p{number}", 2)
        best, candidates, words = rival.ask(
            opinion(mine.scheduler, {**pod, "spec": {**pod["spec"], "priority": 20}})
        )
        found = rival.placed(pod)
        where = found["spec"].get("nodeName") or found["status"].get("nominatedNodeName")
        if where is None:
            assert not best
            assert words in condition(found, "PodScheduled")["message"]
        else:
            assert where in best, (number, where, best, pod)
        if where in candidates:
            assert going(rival, len(candidates[where].pods)) == sorted(
                one.name for one in candidates[where].pods
            )
            preemptions += 1
        settle(rival, found if not found["spec"].get("nodeName") else None)
        gone = lambda: {one["metadata"]["name"] for one in pods} == names(rival)  # noqa: E731
        assert rival.runner.until(gone, PATIENCE)
        if found["spec"].get("nodeName"):
            mine.has_seen(found)
    assert preemptions


def test_displaced_pod_is_rescheduled_immediately(rival):  # noqa: F811
    """As ours does in test_default_preemption."""
    rival.clear()
    for name, cpu in (("n1", "2"), ("n2", "1")):
        amounts = {"cpu": cpu, "memory": "8Gi", "pods": "8"}
        status = {"capacity": amounts, "allocatable": amounts}
        rival.add_node(
            {"metadata": {"name": name, "labels": {ZONE: "z"}}, "spec": {}, "status": status}
        )
    for name, where, cpu in (
        ("a", "n1", "1"),
        ("b", "n1", "1"),
        ("c", "n2", "500m"),
        ("d", "n2", "500m"),
    ):
        rival.ask(rival.api.create(PODS, of_class(name, cpu, 0, nodeName=where)))
    has_seen_all(rival)
    before = names(rival)
    for name, cpu, cls in (("first", "1", 1), ("boss", "2", 2)):
        rival.placed(of_class(name, cpu, cls, nodeSelector={ZONE: "z"}))
        assert rival.runner.until(lambda: nominated(rival, name) == "n1", PATIENCE)  # noqa: B023
    assert rival.runner.until(lambda: nominated(rival, "first") == "n2", PATIENCE)
    assert names(rival) == before | {"first", "boss"}


def of_class(name, cpu, cls, **spec):
    container = {"name": "c", "image": "app:1", "resources": {"requests": {"cpu": cpu}}}
    spec = {"containers": [container], "priorityClassName": f"class-{cls}", **spec}
    return {"metadata": {"name": name, "namespace": "default"}, "spec": spec}


def nominated(rival, name):  # noqa: F811
    return rival.ask(rival.api.get(PODS, name, "default"))["status"].get("nominatedNodeName")


def names(rival):  # noqa: F811
    return {one["metadata"]["name"] for one in rival.ask(rival.api.list(PODS)).items}


def going(rival, count):  # noqa: F811
    """Return the terminating pods once there are as many as expected."""

    def told():
        pods = rival.ask(rival.api.list(PODS)).items
        return sorted(
            one["metadata"]["name"] for one in pods if "deletionTimestamp" in one["metadata"]
        )

    rival.runner.until(lambda: len(told()) >= count, PATIENCE)
    return told()


def settle(rival, pod):  # noqa: F811
    """Delete the terminating pods, and the pending pod if there is one."""
    if pod is not None:
        rival.ask(rival.api.delete(PODS, pod["metadata"]["name"], "default", grace_period=0))
    for one in rival.ask(rival.api.list(PODS)).items:
        if "deletionTimestamp" in one["metadata"]:
            rival.ask(rival.api.delete(PODS, one["metadata"]["name"], "default", grace_period=0))
