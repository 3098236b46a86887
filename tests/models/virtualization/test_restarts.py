"""How long it takes until a machine is away and back, from the operation to the nested cluster's
node.
"""

import pytest

from pytest_kscen.clock import ActorCrashedError
from pytest_kscen.models.virtualization.hypervisor import GUEST_BOOT, GUEST_SHUTDOWN, Launcher
from pytest_kscen.objects.resources import EVENTS, PODS

GONE = 5.5  # the launcher puts away its guest, and the kubelet the pod
START = 10.7  # a sandbox, a container, and a domain in it
RUNS = GONE + START


def test_forced_restart_cuts_the_power(place):
    boot = place.draws(*GUEST_BOOT)
    place.watch("phase", "power", "agent", "op")
    place.operate("Restart", force=True)
    place.live(120)
    up = round(RUNS + boot, 3)
    assert place.story == [
        (0, "phase", "Stopping"),
        (0, "power", False),
        (0, "agent", "False"),
        (0, "op", "InProgress"),
        (GONE, "phase", "Starting"),
        (RUNS, "phase", "Running"),
        (RUNS, "op", "Completed"),
        (up, "power", True),
        (up, "agent", "True"),
    ]


def test_graceful_restart_shuts_the_guest_down(place):
    shutdown, boot = place.draws(*GUEST_SHUTDOWN), place.draws(*GUEST_BOOT)
    place.watch("phase", "power", "op")
    place.operate("Restart")
    place.live(120)
    off, runs = round(shutdown, 3), round(shutdown + RUNS, 3)
    assert place.times_of("power") == {False: off, True: round(shutdown + RUNS + boot, 3)}
    assert place.times_of("phase") == {
        "Stopping": 0,
        "Starting": round(shutdown + GONE, 3),
        "Running": runs,
    }
    assert place.times_of("op") == {"InProgress": 0, "Completed": runs}


def test_slow_guest_is_powered_off(place):
    place.watch("power")
    place.call(place.api.delete(PODS, place.pod()["metadata"]["name"], "vms", grace_period=3))
    place.live(10)
    assert place.times_of("power") == {False: 3}


def test_machine_is_stopped_and_started(place):
    boot = place.draws(*GUEST_BOOT)
    place.watch("phase", "power", "op", "again")
    place.operate("Stop", force=True)
    place.live(60)
    assert place.pods() == []
    assert place.story == [
        (0, "phase", "Stopping"),
        (0, "power", False),
        (0, "op", "InProgress"),
        (GONE, "phase", "Stopped"),
        (GONE, "op", "Completed"),
    ]
    place.story.clear()
    place.operate("Start", name="again")
    place.live(120)
    assert place.times_of("phase") == {"Starting": 60, "Running": 60 + START}
    assert place.times_of("again") == {"InProgress": 60, "Completed": 60 + START}
    assert place.times_of("power") == {True: round(60 + START + boot, 3)}


@pytest.mark.parametrize("grace", [None, 0])
def test_destroyed_launcher_takes_its_guest_and_the_next_starts_it(place, grace):
    old, boot = place.pod()["metadata"]["name"], place.boot_id()
    place.watch("phase", "power")
    place.call(place.api.delete(PODS, old, "vms", grace_period=grace))
    place.live(150)
    assert place.times_of("power")[False] == (
        0 if grace == 0 else round(place.draws(*GUEST_SHUTDOWN), 3)
    )
    assert place.times_of("power")[True] > 70
    assert place.pod()["metadata"]["name"] != old
    assert place.phase() == "Running"
    assert place.boot_id() != boot


def test_killed_container_takes_its_guest(place):
    place.watch("power")
    place.cluster._host.site.kubelets.kill("vms", place.pod()["metadata"]["name"], "compute")
    place.live(1)
    assert place.story == [(0, "power", False)]
    place.live(100)
    assert place.phase() == "Running"
    assert place.machines["node-1"].powered


def test_node_is_unready_from_fifty_seconds_after_its_last_heartbeat_until_booted(
    place,
):
    boot_id, began = place.boot_id(), 1767225600
    place.advance(
        began + 63.5 - place.cluster.now
    )  # the node has beaten at 60 s, and is looked at every five
    boot = place.draws(*GUEST_BOOT)
    place.watch("node", "power")
    place.operate("Restart", force=True)
    place.live(120)
    up = round(RUNS + boot, 3)
    assert place.story == [
        (0, "power", False),
        (115 - 63.5, "node", "Unknown"),
        (up, "node", "True"),
        (up, "power", True),
    ]
    assert place.boot_id() != boot_id
    events = place.call(place.cluster.api("test").list(EVENTS)).items
    told = [
        event["reason"]
        for event in events
        if event["involvedObject"]["name"] == "node-1" and event["type"] == "Warning"
    ]
    assert told == ["Rebooted"]


def test_machine_losing_power_during_boot_restarts(place):
    place.operate("Stop", force=True)
    place.advance(20)
    place.operate("Start", name="start")
    place.advance(30)
    assert not place.machines["node-1"].powered
    place.operate("Restart", name="again", force=True)
    place.advance(60)
    assert not place.machines["node-1"].powered
    place.advance(40)
    assert place.machines["node-1"].powered


def test_internal_error_in_the_launcher_is_not_a_container_crash(place, monkeypatch):
    def mistaken(*_):
        raise KeyError("lost")

    monkeypatch.setattr(Launcher, "_start", mistaken)
    place.cluster._host.site.kubelets.kill("vms", place.pod()["metadata"]["name"], "compute")
    with pytest.raises(
        ActorCrashedError,
        match=r"the simulated compute in virt-launcher-\S+ failed: KeyError\('lost'\)",
    ):
        place.cluster.runner.advance(100)
