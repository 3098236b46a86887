"""Each bug of the storage changes a decision or a cluster, and leaves nothing behind."""

from types import SimpleNamespace

import pytest
from storage_cluster import RV, RVA, RVR, StorageCluster

from planted_bugs import storage
from planted_bugs.catalogue import planted
from pytest_kscen.chance import Chance
from pytest_kscen.clusters.embedded import EmbeddedCluster
from pytest_kscen.models.storage import attachment_rules, decisions, volume_view
from pytest_kscen.models.storage.drbd import DrbdRefused
from pytest_kscen.models.storage.generations import (
    GENERATIONS,
    conditions,
    conditions_replicas,
    generation,
)
from pytest_kscen.models.storage.nodes import StorageNode
from pytest_kscen.models.storage.system import ParsedObjects
from pytest_kscen.models.storage.volume_view import (
    AGENT_FINALIZER,
    CONTROLLER_FINALIZER,
    PreviousDecisions,
    QuorumSettings,
    ReplicaAddress,
    VolumeAttachment,
    VolumeReplica,
    VolumeView,
)
from pytest_kscen.objects.resources import NODES
from pytest_kscen.objects.storage import NODE_LABEL

CONDITIONS = GENERATIONS["conditions"]
SAFE = conditions.LAYOUTS["ConsistencyAndAvailability"]
MEBI = 2**20


# --- views ---


def replica(number, node, type_="Diskful", *, deleting=False, **fields):
    metadata = {"name": f"v-{number}", "uid": f"{number}", "generation": 1}
    obj = {"metadata": {**metadata, "creationTimestamp": "2026-01-01T00:00:00Z"}, "spec": {}}
    known = {"initialized": True, "in_quorum": True, "in_sync": True, "actual_type": type_}
    address = ReplicaAddress("10.0.0.1", 7000 + number)
    return VolumeReplica(
        obj, f"v-{number}", node, type_, deleting, True, True, address, **{**known, **fields}
    )


def attachment(node, *, deleting=False):
    metadata = {"name": f"rva-{node}", "uid": node, "generation": 1}
    return VolumeAttachment({"metadata": metadata}, f"rva-{node}", node, deleting, True)


def view(*replicas, attachments=(), desired=(), deleting=False, size="100Mi", layout=SAFE):
    hosts = {name: StorageNode(name, "", True, "") for name in "abcdef"}
    metadata = {"name": "v", "uid": "v", "generation": 1, "finalizers": [CONTROLLER_FINALIZER]}
    if deleting:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return VolumeView(
        "v",
        {"metadata": metadata, "spec": {"size": size}},
        layout,
        list(replicas),
        list(attachments),
        SimpleNamespace(hosts=hosts, host=hosts.get),
        PreviousDecisions(list(desired), 1, "secret", 0),
    )


def context():
    return decisions.DecisionContext(
        CONDITIONS,
        lambda node: {"c": 0, "d": 1}.get(node, 2),
        lambda: 1,
        Chance("planted").stream("x"),
        lambda: 1767225700.0,
        ParsedObjects(CONDITIONS),
    )


THREE = replica(0, "a"), replica(1, "b"), replica(2, "c")


def decided_quorum():
    leaving = [replica(3 + number, node, deleting=True) for number, node in enumerate("de")]
    return decisions._volume_decision(view(*THREE, *leaving), context()).quorum.votes


def surplus():
    found = volume_view.plan_changes(
        view(*THREE, replica(3, "d", "Access")), (), CONDITIONS.tie_breakers
    )
    return [one.name for one in found.surplus]


def missing_disks():
    return decisions._missing_disks(
        view(replica(0, "a"), replica(1, "b"), replica(2, "c", deleting=True)), CONDITIONS
    )


def chosen_node():
    leaving = view(replica(0, "a"), replica(1, "b"), replica(2, "c", deleting=True))
    return decisions._ReplicaPlanner(leaving, context()).take_node("Diskful")


def initial():
    fresh = replica(0, "d", initialized=False, in_sync=False)
    return generation.is_initial_replica(fresh, [replica(1, "b"), replica(2, "c")])


def leaves():
    copying = replica(3, "d", in_sync=False)
    gone = replica(2, "c", deleting=True)
    forming = view(replica(0, "a"), replica(1, "b"), gone, copying)
    return attachment_rules.may_leave(forming, gone, QuorumSettings(2, 2))


def releases_volume():
    gone = [replica(number, node, deleting=True) for number, node in enumerate("abc")]
    writes = decisions.decide(view(*gone, deleting=True), context())
    return any(
        write.resource is RV and getattr(write, "finalizers", None) == [] for write in writes
    )


def desired():
    return view(*THREE, attachments=[attachment(node) for node in "abc"]).desired_nodes


def desired_beside_one():
    both = [attachment(node) for node in "ab"]
    return view(*THREE, attachments=both, desired="a").desired_nodes


def detached():
    primary = replica(0, "a", primary=True)
    return attachment_rules.is_detached(view(primary), attachment("a", deleting=True))


def io_ready():
    two = view(*THREE[:2], replica(2, "c", in_sync=False), replica(3, "d", "Access"))
    return CONDITIONS.io_ready(two, QuorumSettings(2, 2)).holds


def in_quorum():
    status = SimpleNamespace(quorum=False, disk_state="UpToDate", role="Secondary")
    found = conditions_replicas.agent_conditions(THREE[0], SimpleNamespace(status=status))
    return found["InQuorum"].holds


def attached_to():
    wanted = view(*THREE, attachments=[attachment("a")])
    found = decisions._volume_decision(wanted, context())
    return CONDITIONS.volume_status(wanted, found, "now")["actuallyAttachedTo"]


def observed_generation():
    value = {"Ready": volume_view.IO_READY}
    before = generation.with_conditions({"metadata": {"generation": 1}}, value, "then")
    obj = {"metadata": {"generation": 2}, "status": {"conditions": before}}
    return generation.with_conditions(obj, value, "now")[0]["observedGeneration"]


def published_size():
    sizes = replica(0, "a", size=200 * MEBI), replica(1, "b", size=100 * MEBI)
    return generation.granted_size(view(*sizes, size="200Mi"), "100Mi")


def ordered_size():
    config = {"deviceMinor": 1, "quorum": 2}
    status = {"drbd": {"config": config}, "actualSize": "100Mi"}
    mine = replica(0, "a")
    mine.obj["status"] = {"drbd": {"config": {"peersInitialized": True, "peers": {}}}}
    orders = CONDITIONS.orders({"spec": {"size": "200Mi"}, "status": status}, mine, initial=False)
    return orders.config.size // MEBI


def orders_follow_the_volume():
    volumes = [
        {"spec": {}, "status": {"drbd": {"config": {"deviceMinor": 1, "quorum": quorum}}}}
        for quorum in (2, 3)
    ]
    one, other = [CONDITIONS.order_inputs(volume, THREE[0]) for volume in volumes]
    return one != other


# --- clusters ---


def minors(cluster):
    cluster.ready_volume("v")
    cluster.ready_volume("w")
    cluster.delete(RV, "v")
    cluster.until(lambda: cluster.get(RV, "v") is None)
    cluster.ready_volume("x")
    return [cluster.status(RV, name)["drbd"]["config"]["deviceMinor"] for name in "wx"]


def ports(cluster):
    for node in cluster.node_names[3:]:  # three nodes are left: nothing can be replaced
        cluster.call(cluster.api.patch(NODES, node, {"metadata": {"labels": {NODE_LABEL: None}}}))
    cluster.ready_volume("v")
    cluster.delete(RVR, "v-0")
    cluster.advance(5)
    cluster.ready_volume("w")
    node = cluster.nodes("v")[0]
    return sorted(
        one["status"]["drbd"]["config"]["address"]["port"]
        for one in [*cluster.replicas("v"), *cluster.replicas("w")]
        if one["spec"].get("nodeName") == node
    )


def kernels_after_deletion(cluster):
    cluster.ready_volume()
    cluster.delete(RV, "v")
    cluster.until(lambda: cluster.get(RV, "v") is None)
    cluster.advance(10)
    return list(cluster.system.drbd._volumes)


def replica_released_while_the_agent_was_away(cluster):
    node = cluster.ready_volume()[0]["spec"]["nodeName"]
    cluster.kill(cluster.pods("agent", node)[0])
    cluster.delete(RV, "v")
    cluster.advance(60)
    return [one["metadata"]["finalizers"] for one in cluster.replicas()]


def attachment_that_outlives_its_volume(cluster):
    nodes = [one["spec"]["nodeName"] for one in cluster.ready_volume()]
    for node in nodes:
        cluster.attach(node)
        cluster.advance(2)
    cluster.delete(RV, "v")
    for node in nodes[:2]:
        cluster.detach(node)
    cluster.advance(20)
    assert cluster.get(RV, "v") is None
    cluster.detach(nodes[2])
    cluster.advance(20)
    return cluster.get(RVA, f"rva-v-{nodes[2]}") is None


def attachment_after_one_refusal(cluster):
    node = cluster.ready_volume()[0]["spec"]["nodeName"]
    promote, refused = cluster.system.drbd.primary, []

    def primary(node, resource):
        if not refused:
            refused.append(node)
            raise DrbdRefused("not yet")
        promote(node, resource)

    cluster.system.drbd.primary = primary
    cluster.attach(node)
    cluster.advance(30)
    assert refused
    return cluster.of_attachment(node)["Attached"][0]


def io_ready_without_a_node(cluster):
    node = cluster.ready_volume()[0]["spec"]["nodeName"]
    cluster.site.machines.power_off(node)
    cluster.advance(100)
    return cluster.of_volume()["IOReady"][0]


def ready_after_a_minute(cluster):
    cluster.volume()
    cluster.advance(60)
    return cluster.is_whole()


def working_controllers(cluster):
    cluster.advance(60)
    return len(cluster.system._controllers)


CASES = {
    # bug: (what is done, what follows, what follows with the bug)
    "quorum-counts-disks-only": (lambda: CONDITIONS.quorum(SAFE, 3, 5).votes, 3, 2),
    "minimum-redundancy-one": (lambda: CONDITIONS.quorum(SAFE, 3, 3).redundancy, 2, 1),
    "quorum-counts-leaving-replicas": (decided_quorum, 2, 3),
    "tie-breakers-ignore-access": (lambda: CONDITIONS.tie_breakers(SAFE, 3, 1), 1, 0),
    "idle-access-kept": (surplus, ["v-3"], []),
    "minor-from-count": (minors, [1, 0], [1, 1]),
    "port-of-leaving-replica": (ports, [7000, 7001], [7000, 7000]),
    "node-ids-collide": (lambda: conditions.node_id(4), 4, 0),
    "replacement-waits-for-leaving": (missing_disks, 1, 0),
    "placement-forgets-leaving": (chosen_node, "d", "c"),
    "replacement-initialised-as-first": (initial, False, True),
    "replica-leaves-before-sync": (leaves, False, True),
    "disk-not-wiped": (kernels_after_deletion, [], ["v"]),
    "agent-finalizer-kept": (replica_released_while_the_agent_was_away, [], [[AGENT_FINALIZER]]),
    "volume-released-before-replicas": (releases_volume, False, True),
    "third-attachment-planned": (desired, ["a", "b"], ["a", "b", "c"]),
    "attachment-waits-for-all": (desired_beside_one, ["a", "b"], ["a"]),
    "attachment-released-while-primary": (detached, False, True),
    "attachment-of-lost-volume-kept": (attachment_that_outlives_its_volume, True, False),
    "refused-promotion-not-retried": (attachment_after_one_refusal, "True", "False"),
    "ioready-counts-diskless": (io_ready, False, True),
    "outdated-replica-ready": (lambda: replica(0, "a", in_sync=False).io_ready.holds, False, True),
    "dead-agent-trusted": (io_ready_without_a_node, "False", "True"),
    "node-change-missed": (io_ready_without_a_node, "False", "True"),
    "quorum-condition-sticky": (in_quorum, False, True),
    "attached-before-promotion": (attached_to, [], ["a"]),
    "deferred-statuses-cut-short": (ready_after_a_minute, True, False),
    "observed-generation-stale": (observed_generation, 2, 1),
    "size-reported-too-early": (published_size, "100Mi", "200Mi"),
    "resize-waits-for-itself": (ordered_size, 200, 100),
    "leader-election-ignored": (working_controllers, 1, 3),
    "orders-cached-without-volume": (orders_follow_the_volume, True, False),
}
IN_CLUSTER = {
    minors,
    ports,
    kernels_after_deletion,
    replica_released_while_the_agent_was_away,
    attachment_that_outlives_its_volume,
    attachment_after_one_refusal,
    io_ready_without_a_node,
    ready_after_a_minute,
    working_controllers,
}


def outcome(act):
    if act not in IN_CLUSTER:
        return act()
    cluster = EmbeddedCluster("planted", nodes=6)
    try:
        return act(StorageCluster(cluster, "conditions"))
    finally:
        cluster.close()


@pytest.mark.parametrize("bug", storage.BUGS, ids=lambda bug: bug.name)
def test_bug_changes_what_the_storage_does(bug):
    act, sound, broken = CASES[bug.name]
    assert outcome(act) == sound
    with planted(bug.name):
        assert outcome(act) == broken
    if act not in IN_CLUSTER:
        assert outcome(act) == sound
