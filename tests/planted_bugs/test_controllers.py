"""Each bug of the controllers changes a cluster or a result, and leaves nothing behind."""

from types import SimpleNamespace

import pytest

from planted_bugs import controllers
from planted_bugs.catalogue import planted
from pytest_kscen.clusters.embedded import EmbeddedCluster
from pytest_kscen.embedded.controllers import disruption_budgets, endpoints
from pytest_kscen.embedded.controllers.endpoint_slices import ServiceBackend
from pytest_kscen.embedded.controllers.workloads import daemonset_plan, job_completion
from pytest_kscen.embedded.controllers.workloads.deployment_rollout import max_unavailable
from pytest_kscen.objects.conditions import condition
from pytest_kscen.objects.errors import NotFound
from pytest_kscen.objects.resources import CONFIG_MAPS, NODES, PODS, REPLICA_SETS


class Cluster:
    def __init__(self):
        self.cluster = EmbeddedCluster("planted", nodes=2)
        self.api = self.cluster.api("test")

    def call(self, coroutine):
        return self.cluster.runner.call(coroutine)

    def advance(self, seconds):
        self.cluster.runner.advance(seconds)

    def create(self, resource, name, **more):
        metadata = {"name": name, "namespace": "default", **more.pop("metadata", {})}
        obj = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}
        return self.call(self.api.create(resource, {**obj, **more}))

    def exists(self, resource, name):
        try:
            self.call(self.api.get(resource, name, "default"))
        except NotFound:
            return False
        return True

    def config_map(self, name, owner=None, **metadata):
        if owner:
            reference = {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "name": "owner",
                "uid": owner,
                "blockOwnerDeletion": True,
            }
            metadata["ownerReferences"] = [reference]
        return self.create(CONFIG_MAPS, name, metadata=metadata)

    @property
    def node(self):
        return self.call(self.api.list(NODES)).items[0]


CONTAINERS = [{"name": "c", "image": "app:1"}]


def dependent_of_a_namesake(cluster):
    cluster.config_map("owner")
    cluster.config_map("dependent", owner="another")
    cluster.advance(5)
    return cluster.exists(CONFIG_MAPS, "dependent")


def owner_in_foreground_deletion(cluster):
    owner = cluster.config_map("owner")
    uid = owner["metadata"]["uid"]
    cluster.config_map("dependent", owner=uid, finalizers=["example.com/hold"])
    cluster.advance(1)
    deletion = cluster.api.delete(CONFIG_MAPS, "owner", "default", propagation="Foreground")
    cluster.call(deletion)
    cluster.advance(5)
    return cluster.exists(CONFIG_MAPS, "owner")


def pod_after_a_passing_taint(cluster):
    node = cluster.node["metadata"]["name"]
    toleration = {"key": "x", "operator": "Exists", "effect": "NoExecute"}
    toleration["tolerationSeconds"] = 20
    spec = {"containers": CONTAINERS, "nodeName": node, "tolerations": [toleration]}
    cluster.create(PODS, "p", spec=spec)
    cluster.advance(5)
    for taints in ([{"key": "x", "effect": "NoExecute"}], []):
        cluster.call(cluster.api.patch(NODES, node, {"spec": {"taints": taints}}))
        cluster.advance(5)
    cluster.advance(60)
    return cluster.exists(PODS, "p")


def readiness(cluster):
    return condition(cluster.node, "Ready")["status"]


def readiness_without_power(cluster):
    cluster.cluster.site.machines.power_off(cluster.node["metadata"]["name"])
    cluster.advance(100)
    return readiness(cluster)


def readiness_with_power(cluster):
    seen = set()
    for _ in range(100):
        cluster.advance(1)
        seen.add(readiness(cluster))
    return seen


def active_pods(cluster):
    labels = {"app": "a"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": CONTAINERS}}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    cluster.create(REPLICA_SETS, "r", spec=spec)
    cluster.advance(10)
    (pod,) = cluster.call(cluster.api.list(PODS, "default")).items
    cluster.cluster.site.machines.power_off(pod["spec"]["nodeName"])  # no kubelet ends the pod
    cluster.call(cluster.api.delete(PODS, pod["metadata"]["name"], "default"))
    cluster.advance(5)
    pods = cluster.call(cluster.api.list(PODS, "default")).items
    return sum("deletionTimestamp" not in one["metadata"] for one in pods)


def pods_that_may_be_unavailable():
    rolling = {"maxUnavailable": "25%", "maxSurge": 1}
    strategy = {"type": "RollingUpdate", "rollingUpdate": rolling}
    return max_unavailable({"spec": {"replicas": 5, "strategy": strategy}})


def pod(name="p", ready="False"):
    metadata = {"name": name, "namespace": "default", "uid": name}
    status = {"conditions": [{"type": "Ready", "status": ready}]}
    return {"metadata": metadata, "spec": {"nodeName": "n"}, "status": status}


def ready_addresses():
    backend = ServiceBackend(pod(), "10.0.0.1", (), "")
    subsets = endpoints.subsets_of({"spec": {}}, [backend])
    return ["addresses" in subset for subset in subsets]


def tolerated_by_daemons():
    return daemonset_plan._tolerations({})[0]["key"]


def outcome_of_a_job():
    spec = {"backoffLimit": 1, "template": {"spec": {}}}
    state = SimpleNamespace(
        job={"spec": spec}, limited_per_index=False, failed=1, failed_indexes=[], suspended=False
    )
    found = job_completion._limit_exceeded(state, 0.0)
    return found and found.reason


IN_CLUSTER = {
    dependent_of_a_namesake,
    owner_in_foreground_deletion,
    pod_after_a_passing_taint,
    readiness_without_power,
    readiness_with_power,
    active_pods,
}
CASES = {
    # bug: (what is done, what follows, what follows with the bug)
    "owner-found-by-name": (dependent_of_a_namesake, False, True),
    "foreground-owner-gone-first": (owner_in_foreground_deletion, True, False),
    "eviction-not-cancelled": (pod_after_a_passing_taint, True, False),
    "silent-node-noticed-late": (readiness_without_power, "Unknown", "True"),
    "lease-renewals-ignored": (readiness_with_power, {"True"}, {"True", "Unknown"}),
    "terminating-pods-counted": (active_pods, 1, 0),
    "max-unavailable-rounded-up": (pods_that_may_be_unavailable, 1, 2),
    "unready-pods-in-endpoints": (ready_addresses, [False], [True]),
    "unready-pods-protect-budget": (lambda: disruption_budgets.count_healthy([pod()], {}), 0, 1),
    "daemons-evicted-with-node": (
        tolerated_by_daemons,
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/disk-pressure",
    ),
    "back-off-limit-reached-early": (outcome_of_a_job, None, "BackoffLimitExceeded"),
}


def outcome(act):
    if act not in IN_CLUSTER:
        return act()
    cluster = Cluster()
    try:
        return act(cluster)
    finally:
        cluster.cluster.close()


@pytest.mark.parametrize("bug", controllers.BUGS, ids=lambda bug: bug.name)
def test_bug_changes_what_the_controllers_do(bug):
    act, sound, broken = CASES[bug.name]
    assert outcome(act) == sound
    with planted(bug.name):
        assert outcome(act) == broken
    if act not in IN_CLUSTER:
        assert outcome(act) == sound
