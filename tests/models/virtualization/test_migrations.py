import pytest

from pytest_kscen.models.virtualization.hypervisor import MEMORY_TRANSFER, RECEIVER_PREPARE
from pytest_kscen.objects.resources import PODS


@pytest.mark.parametrize("type_", ["Migrate", "Evict"])
def test_guest_is_migrated_while_running(place, type_):
    node, boot_id, pod = (
        place.vm()["status"]["nodeName"],
        place.boot_id(),
        place.pod()["metadata"]["name"],
    )
    takes = round(0.7 + RECEIVER_PREPARE + place.draws(*MEMORY_TRANSFER), 3)
    place.watch("phase", "power", "node", "op")
    place.operate(type_)
    place.live(60)
    assert place.story == [
        (0, "phase", "Migrating"),
        (0, "op", "InProgress"),
        (takes, "phase", "Running"),
        (takes, "op", "Completed"),
    ]
    assert place.vm()["status"]["nodeName"] != node
    assert place.boot_id() == boot_id
    assert place.pod()["metadata"]["name"] != pod
    assert place.pod()["spec"]["nodeName"] == place.vm()["status"]["nodeName"]


def test_guest_is_migrated_again_and_restarts_in_place(place):
    nodes = [place.vm()["status"]["nodeName"]]
    for name in ("one", "two"):
        place.operate("Migrate", name=name)
        place.advance(60)
        nodes.append(place.vm()["status"]["nodeName"])
    assert nodes[0] != nodes[1] != nodes[2]
    place.operate("Restart", name="three", force=True)
    place.advance(1)
    assert not place.machines["node-1"].powered
    place.advance(120)
    assert place.phase() == "Running"
    assert place.machines["node-1"].powered


def test_guest_is_migrated_to_the_requested_node(place):
    place.operate(
        "Migrate", migrate={"nodeSelector": {"kubernetes.io/hostname": "parent-2"}}, vm="node-1"
    )
    place.advance(60)
    assert place.vm()["status"]["nodeName"] == "parent-2" or place.phase() == "Migrating"


def pods_of_both(place):
    source = place.pod()["metadata"]["name"]
    place.operate("Migrate")
    place.advance(2)
    (target,) = [
        pod["metadata"]["name"] for pod in place.pods() if pod["metadata"]["name"] != source
    ]
    return source, target


def test_guest_stays_without_its_target(place):
    source, target = pods_of_both(place)
    place.call(place.api.delete(PODS, target, "vms"))
    place.advance(10)
    assert place.outcome() == (
        "Failed",
        "OperationFailed",
        "The guest has not moved: one of its two pods has ended.",
    )
    assert place.pod()["metadata"]["name"] == source
    assert place.machines["node-1"].powered


def test_migration_without_its_source_ends_and_the_guest_restarts(place):
    source, target = pods_of_both(place)
    place.call(place.api.delete(PODS, source, "vms", grace_period=0))
    place.advance(60)
    assert place.phase_of() == "Failed"
    assert place.pod()["metadata"]["name"] not in (source, target)
    place.advance(60)
    assert place.machines["node-1"].powered


def test_stop_supersedes_a_migration(place):
    pods_of_both(place)
    place.operate("Stop", name="stop")
    place.advance(60)
    assert place.phase_of() == "Superseded"
    assert place.phase_of("stop") == "Completed"
    assert place.pods() == []
