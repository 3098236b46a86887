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


def test_forced_restart_cuts_the_power(machine_cluster):
    boot = machine_cluster.draws(*GUEST_BOOT)
    machine_cluster.watch("phase", "power", "agent", "op")
    machine_cluster.operate("Restart", force=True)
    machine_cluster.run_recording(120)
    up = round(RUNS + boot, 3)
    assert machine_cluster.story == [
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


def test_graceful_restart_shuts_the_guest_down(machine_cluster):
    shutdown, boot = machine_cluster.draws(*GUEST_SHUTDOWN), machine_cluster.draws(*GUEST_BOOT)
    machine_cluster.watch("phase", "power", "op")
    machine_cluster.operate("Restart")
    machine_cluster.run_recording(120)
    off, runs = round(shutdown, 3), round(shutdown + RUNS, 3)
    assert machine_cluster.times_by_state("power") == {
        False: off,
        True: round(shutdown + RUNS + boot, 3),
    }
    assert machine_cluster.times_by_state("phase") == {
        "Stopping": 0,
        "Starting": round(shutdown + GONE, 3),
        "Running": runs,
    }
    assert machine_cluster.times_by_state("op") == {"InProgress": 0, "Completed": runs}


def test_slow_guest_is_powered_off(machine_cluster):
    machine_cluster.watch("power")
    machine_cluster.call(
        machine_cluster.api.delete(
            PODS, machine_cluster.pod()["metadata"]["name"], "vms", grace_period=3
        )
    )
    machine_cluster.run_recording(10)
    assert machine_cluster.times_by_state("power") == {False: 3}


def test_machine_is_stopped_and_started(machine_cluster):
    boot = machine_cluster.draws(*GUEST_BOOT)
    machine_cluster.watch("phase", "power", "op", "again")
    machine_cluster.operate("Stop", force=True)
    machine_cluster.run_recording(60)
    assert machine_cluster.pods() == []
    assert machine_cluster.story == [
        (0, "phase", "Stopping"),
        (0, "power", False),
        (0, "op", "InProgress"),
        (GONE, "phase", "Stopped"),
        (GONE, "op", "Completed"),
    ]
    machine_cluster.story.clear()
    machine_cluster.operate("Start", name="again")
    machine_cluster.run_recording(120)
    assert machine_cluster.times_by_state("phase") == {"Starting": 60, "Running": 60 + START}
    assert machine_cluster.times_by_state("again") == {"InProgress": 60, "Completed": 60 + START}
    assert machine_cluster.times_by_state("power") == {True: round(60 + START + boot, 3)}


@pytest.mark.parametrize("grace", [None, 0])
def test_destroyed_launcher_takes_its_guest_and_the_next_starts_it(machine_cluster, grace):
    old, boot = machine_cluster.pod()["metadata"]["name"], machine_cluster.boot_id()
    machine_cluster.watch("phase", "power")
    machine_cluster.call(machine_cluster.api.delete(PODS, old, "vms", grace_period=grace))
    machine_cluster.run_recording(150)
    assert machine_cluster.times_by_state("power")[False] == (
        0 if grace == 0 else round(machine_cluster.draws(*GUEST_SHUTDOWN), 3)
    )
    assert machine_cluster.times_by_state("power")[True] > 70
    assert machine_cluster.pod()["metadata"]["name"] != old
    assert machine_cluster.phase() == "Running"
    assert machine_cluster.boot_id() != boot


def test_killed_container_takes_its_guest(machine_cluster):
    machine_cluster.watch("power")
    machine_cluster.cluster._host.site.kubelets.kill(
        "vms", machine_cluster.pod()["metadata"]["name"], "compute"
    )
    machine_cluster.run_recording(1)
    assert machine_cluster.story == [(0, "power", False)]
    machine_cluster.run_recording(100)
    assert machine_cluster.phase() == "Running"
    assert machine_cluster.machines["node-1"].powered


def test_node_is_unready_from_fifty_seconds_after_its_last_heartbeat_until_booted(
    machine_cluster,
):
    boot_id, began = machine_cluster.boot_id(), 1767225600
    machine_cluster.advance(
        began + 63.5 - machine_cluster.cluster.now
    )  # the node has beaten at 60 s, and is looked at every five
    boot = machine_cluster.draws(*GUEST_BOOT)
    machine_cluster.watch("node", "power")
    machine_cluster.operate("Restart", force=True)
    machine_cluster.run_recording(120)
    up = round(RUNS + boot, 3)
    assert machine_cluster.story == [
        (0, "power", False),
        (115 - 63.5, "node", "Unknown"),
        (up, "node", "True"),
        (up, "power", True),
    ]
    assert machine_cluster.boot_id() != boot_id
    events = machine_cluster.call(machine_cluster.cluster.api("test").list(EVENTS)).items
    reported = [
        event["reason"]
        for event in events
        if event["involvedObject"]["name"] == "node-1" and event["type"] == "Warning"
    ]
    assert reported == ["Rebooted"]


def test_machine_losing_power_during_boot_restarts(machine_cluster):
    machine_cluster.operate("Stop", force=True)
    machine_cluster.advance(20)
    machine_cluster.operate("Start", name="start")
    machine_cluster.advance(30)
    assert not machine_cluster.machines["node-1"].powered
    machine_cluster.operate("Restart", name="again", force=True)
    machine_cluster.advance(60)
    assert not machine_cluster.machines["node-1"].powered
    machine_cluster.advance(40)
    assert machine_cluster.machines["node-1"].powered


def test_internal_error_in_the_launcher_is_not_a_container_crash(machine_cluster, monkeypatch):
    def mistaken(*_):
        raise KeyError("lost")

    monkeypatch.setattr(Launcher, "_start", mistaken)
    machine_cluster.cluster._host.site.kubelets.kill(
        "vms", machine_cluster.pod()["metadata"]["name"], "compute"
    )
    with pytest.raises(
        ActorCrashedError,
        match=r"the simulated compute in virt-launcher-\S+ failed: KeyError\('lost'\)",
    ):
        machine_cluster.cluster.runner.advance(100)
