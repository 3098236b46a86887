import pytest

from pytest_kscen.models.virtualization.hypervisor import MEMORY_TRANSFER, RECEIVER_PREPARE
from pytest_kscen.objects.resources import PODS


@pytest.mark.parametrize("type_", ["Migrate", "Evict"])
def test_guest_is_migrated_while_running(machine_cluster, type_):
    node, boot_id, pod = (
        machine_cluster.vm()["status"]["nodeName"],
        machine_cluster.boot_id(),
        machine_cluster.pod()["metadata"]["name"],
    )
    takes = round(0.7 + RECEIVER_PREPARE + machine_cluster.draws(*MEMORY_TRANSFER), 3)
    machine_cluster.watch("phase", "power", "node", "op")
    machine_cluster.operate(type_)
    machine_cluster.run_recording(60)
    assert machine_cluster.story == [
        (0, "phase", "Migrating"),
        (0, "op", "InProgress"),
        (takes, "phase", "Running"),
        (takes, "op", "Completed"),
    ]
    assert machine_cluster.vm()["status"]["nodeName"] != node
    assert machine_cluster.boot_id() == boot_id
    assert machine_cluster.pod()["metadata"]["name"] != pod
    assert machine_cluster.pod()["spec"]["nodeName"] == machine_cluster.vm()["status"]["nodeName"]


def test_guest_is_migrated_again_and_restarts_in_place(machine_cluster):
    nodes = [machine_cluster.vm()["status"]["nodeName"]]
    for name in ("one", "two"):
        machine_cluster.operate("Migrate", name=name)
        machine_cluster.advance(60)
        nodes.append(machine_cluster.vm()["status"]["nodeName"])
    assert nodes[0] != nodes[1] != nodes[2]
    machine_cluster.operate("Restart", name="three", force=True)
    machine_cluster.advance(1)
    assert not machine_cluster.machines["node-1"].powered
    machine_cluster.advance(120)
    assert machine_cluster.phase() == "Running"
    assert machine_cluster.machines["node-1"].powered


def test_guest_is_migrated_to_the_requested_node(machine_cluster):
    machine_cluster.operate(
        "Migrate", migrate={"nodeSelector": {"kubernetes.io/hostname": "parent-2"}}, vm="node-1"
    )
    machine_cluster.advance(60)
    assert (
        machine_cluster.vm()["status"]["nodeName"] == "parent-2"
        or machine_cluster.phase() == "Migrating"
    )


def pods_of_both(machine_cluster):
    source = machine_cluster.pod()["metadata"]["name"]
    machine_cluster.operate("Migrate")
    machine_cluster.advance(2)
    (target,) = [
        pod["metadata"]["name"]
        for pod in machine_cluster.pods()
        if pod["metadata"]["name"] != source
    ]
    return source, target


def test_guest_stays_without_its_target(machine_cluster):
    source, target = pods_of_both(machine_cluster)
    machine_cluster.call(machine_cluster.api.delete(PODS, target, "vms"))
    machine_cluster.advance(10)
    assert machine_cluster.outcome() == (
        "Failed",
        "OperationFailed",
        "The guest has not moved: one of its two pods has ended.",
    )
    assert machine_cluster.pod()["metadata"]["name"] == source
    assert machine_cluster.machines["node-1"].powered


def test_migration_without_its_source_ends_and_the_guest_restarts(machine_cluster):
    source, target = pods_of_both(machine_cluster)
    machine_cluster.call(machine_cluster.api.delete(PODS, source, "vms", grace_period=0))
    machine_cluster.advance(60)
    assert machine_cluster.phase_of() == "Failed"
    assert machine_cluster.pod()["metadata"]["name"] not in (source, target)
    machine_cluster.advance(60)
    assert machine_cluster.machines["node-1"].powered


def test_stop_supersedes_a_migration(machine_cluster):
    pods_of_both(machine_cluster)
    machine_cluster.operate("Stop", name="stop")
    machine_cluster.advance(60)
    assert machine_cluster.phase_of() == "Superseded"
    assert machine_cluster.phase_of("stop") == "Completed"
    assert machine_cluster.pods() == []
