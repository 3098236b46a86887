"""Restarts and stops of machines: operations, limits of the reboter, and recovery."""

from __future__ import annotations

import pytest
from chaos_cluster import VMS, chaos_cluster
from test_observer import Storage

from pytest_kscen.chaos import manual_faults
from pytest_kscen.chaos.clients import FaultImpossible
from pytest_kscen.chaos.incidents import cause_incident
from pytest_kscen.chaos.profiles import VmReboot
from pytest_kscen.chaos.vm_operations import OperationFailed
from pytest_kscen.clock import Signal
from pytest_kscen.judge.incidents import judge, update_incidents
from pytest_kscen.objects.virtualization import VIRTUAL_MACHINE_OPERATIONS, VIRTUAL_MACHINES


class Hypervisor:
    """Executes operations at once with the configured result; a started machine boots for a minute."""

    def __init__(self, world, *, ends="Completed", takes=5.0, boots=60.0) -> None:
        self.world = world
        self.ends = ends
        self.takes = takes
        self.boots = boots
        self.made = []
        world.runner.start(self._live(), "hypervisor")

    async def _live(self):
        api, clock = self.world.api, self.world.runner.clock
        while True:
            for operation in (await api.list(VIRTUAL_MACHINE_OPERATIONS, VMS)).items:
                if not operation.get("status"):
                    self.made.append(operation)
                    await clock.sleep(self.takes)
                    await self._do(api, clock, operation["spec"])
                    await self._say(api, operation["metadata"]["name"])
            await clock.sleep(1, background=True)

    async def _do(self, api, clock, spec):
        if self.ends != "Completed":
            return
        machines, vm = self.world.cluster.site.machines, spec["virtualMachineName"]
        if spec["type"] in {"Stop", "Restart"}:
            machines.power_off(vm)
            await self._phase(api, vm, "Stopped")
        if spec["type"] in {"Start", "Restart"}:
            await self._phase(api, vm, "Running")
            self.world.runner.start(self._boot(clock, vm), f"boot of {vm}")

    async def _boot(self, clock, vm):
        await clock.sleep(self.boots)
        self.world.cluster.site.machines.power_on(vm)

    async def _phase(self, api, vm, phase):
        await api.patch(VIRTUAL_MACHINES, vm, {"status": {"phase": phase}}, VMS)

    async def _say(self, api, name):
        status = {
            "phase": self.ends,
            "conditions": [{"type": "Completed", "status": "False", "message": "no such luck"}],
        }
        await api.patch(VIRTUAL_MACHINE_OPERATIONS, name, {"status": status}, VMS)


def spec(kind, **more):
    return {"type": kind, "virtualMachineName": "node-1", **more}


def test_restart_lasts_until_the_node_is_ready_in_another_boot():
    with chaos_cluster(nodes=2) as world:
        hypervisor = Hypervisor(world)
        incident = world.call(cause_incident(world.context, manual_faults.vm_reboot("node-1")))
        (operation,) = world.call(world.api.list(VIRTUAL_MACHINE_OPERATIONS, VMS)).items
        assert operation["metadata"]["name"] == f"chaos-restart-{incident.id}"
        assert operation["metadata"]["labels"] == {
            "chaos.megatest/type": "vm-reboot",
            "kscen.io/incident": incident.id,
            "kscen.io/run": "run-1",
        }
        assert operation["spec"] == spec("Restart", force=True)
        world.runner.advance(60)
        assert incident.is_on
        world.runner.advance(30)

        assert 65 <= incident.removed_at - incident.started_at < 75
        assert "node-1 was restarted" in incident.effects
        assert world.names(VIRTUAL_MACHINE_OPERATIONS, VMS) == []
        assert len(hypervisor.made) == 1


def test_failed_restart_ends_without_an_effect():
    with chaos_cluster(nodes=2) as world:
        Hypervisor(world, ends="Failed")
        incident = world.call(cause_incident(world.context, manual_faults.vm_reboot("node-1")))
        world.runner.advance(10)

        assert (incident.is_on, incident.had_effect) == (False, False)
        assert [data["error"] for _, _, data in world.journal_records("incident-failed")] == [
            "the operation Restart of node-1 is Failed: no such luck"
        ]
        assert [data["nodes"] for _, _, data in world.journal_records("incident-refused")] == [
            ["node-1"]
        ]


def test_failed_restart_awaits_no_boot_despite_other_effects_on_its_links():
    with chaos_cluster(nodes=2) as world:
        storage = Storage(world)
        storage.volume("v", "node-1", "node-2")
        Hypervisor(world, ends="Failed", takes=20)
        cut = storage.cause(manual_faults.network_block("node-1", "node-2"), 0)
        reboot = storage.cause(manual_faults.vm_reboot("node-1"), 8)
        storage.link("v-0", "v-1", "Connecting")
        world.runner.advance(20)

        assert (cut.had_effect, reboot.had_effect, reboot.is_on) == (True, False, False)
        assert reboot.removed_at - reboot.started_at < 25
        seen = {}
        for entry in world.journal:
            update_incidents(seen, entry)
        (finding,) = judge(["vm-reboot"], list(seen.values()))
        assert finding.verdict == "unknown"
        assert (
            "1 could not be caused: the operation Restart of node-1 is Failed: no such luck"
            in finding.why
        )


def test_machine_down_before_its_restart_failed_is_recovered():
    with chaos_cluster(nodes=2) as world:
        storage = Storage(world)
        hypervisor = Hypervisor(world, ends="Failed", takes=20)
        reboot = storage.cause(manual_faults.vm_reboot("node-1"), 10)
        storage.machine("node-1", "Stopped")
        world.runner.advance(12)
        hypervisor.ends = "Completed"
        world.runner.advance(90)

        assert reboot.effects == ["the machine node-1 is Stopped"]
        assert world.journal_records("incident-refused") == []
        assert [operation["spec"]["type"] for operation in hypervisor.made] == ["Restart", "Start"]
        assert not reboot.is_on


def test_stop_lasts_until_it_is_undone_by_a_start():
    with chaos_cluster(nodes=2) as world:
        hypervisor = Hypervisor(world)
        incident = world.call(cause_incident(world.context, manual_faults.vm_stop("node-1")))
        world.runner.advance(600)
        assert incident.is_on
        world.call(incident.end())

        assert [operation["spec"] for operation in hypervisor.made] == [
            spec("Stop", force=True),
            spec("Start"),
        ]
        assert incident.removed_at - incident.started_at >= 600 + 60
        assert world.names(VIRTUAL_MACHINE_OPERATIONS, VMS) == []


def test_stopped_machine_is_not_restarted():
    with chaos_cluster(nodes=2) as world:
        Hypervisor(world)
        world.call(cause_incident(world.context, manual_faults.vm_stop("node-1")))
        with pytest.raises(FaultImpossible, match="node-1 is off"):
            world.call(cause_incident(world.context, manual_faults.vm_reboot("node-1")))


def test_stop_that_is_never_executed_is_withdrawn():
    with chaos_cluster(nodes=2) as world:
        with pytest.raises(TimeoutError):
            world.call(cause_incident(world.context, manual_faults.vm_stop("node-1")))

        assert world.names(VIRTUAL_MACHINE_OPERATIONS, VMS) == []
        assert len(world.journal_records("incident-ended")) == 1


def test_stop_refused_by_the_hypervisor_fails():
    with chaos_cluster(nodes=2) as world:
        Hypervisor(world, ends="Failed")
        with pytest.raises(OperationFailed, match="Stop of node-1 is Failed: no such luck"):
            world.call(cause_incident(world.context, manual_faults.vm_stop("node-1")))
        assert world.names(VIRTUAL_MACHINE_OPERATIONS, VMS) == []


def run(world, profile, seconds):
    stop = Signal()

    async def play():
        task = world.runner.loop.create_task(profile.run(world.context, stop))
        await world.runner.clock.sleep(seconds)
        stop.give()
        await task

    world.call(play())


def test_next_restart_does_not_wait_for_the_previous_one():
    with chaos_cluster(nodes=4) as world:
        hypervisor = Hypervisor(world, takes=0, boots=200)
        run(world, VmReboot(period=(50, 50)), 180)

        started = [at for at, _, _ in world.journal_records("incident-started")]
        assert len(started) + len(world.journal_records("incident-skipped")) == 3
        assert len(hypervisor.made) == len(started) >= 2
        assert len(world.journal_records("incident-ended")) == len(started)
        assert world.names(VIRTUAL_MACHINE_OPERATIONS, VMS) == []


@pytest.mark.parametrize("phase", [None, "Pending", "InProgress", "Terminating"])
def test_machine_with_unfinished_operations_is_skipped(phase):
    with chaos_cluster(1) as world:
        status = {"status": {"phase": phase}} if phase else {}
        world.make(VIRTUAL_MACHINE_OPERATIONS, "theirs", VMS, spec=spec("Restart"), **status)
        run(world, VmReboot(period=(30, 30)), 40)

        assert world.names(VIRTUAL_MACHINE_OPERATIONS, VMS) == ["theirs"]
        assert [data["why"] for _, _, data in world.journal_records("incident-skipped")] == [
            "node-1 has operations that are not finished: theirs"
        ]


def test_unfinished_operations_of_another_machine_do_not_interfere():
    with chaos_cluster(nodes=2, machines=2) as world:
        world.make(
            VIRTUAL_MACHINE_OPERATIONS,
            "theirs",
            VMS,
            spec=spec("Restart"),
            status={"phase": "InProgress"},
        )
        Hypervisor(world)
        run(world, VmReboot(period=(30, 30)), 400)

        assert {
            data["targets"]["vms"][0] for _, _, data in world.journal_records("incident-started")
        } == {"node-2"}
        assert {data["why"] for _, _, data in world.journal_records("incident-skipped")} <= {
            "node-1 has operations that are not finished: theirs"
        }


@pytest.mark.parametrize("phase", ["Completed", "Failed", "Superseded"])
def test_finished_operations_do_not_interfere(phase):
    with chaos_cluster(nodes=1, machines=1) as world:
        world.make(
            VIRTUAL_MACHINE_OPERATIONS, "theirs", VMS, spec=spec("Restart"), status={"phase": phase}
        )
        Hypervisor(world)
        run(world, VmReboot(period=(30, 30)), 40)

        assert len(world.journal_records("incident-started")) == 1
        assert world.names(VIRTUAL_MACHINE_OPERATIONS, VMS) == ["theirs"]


def test_minimum_applies_to_the_default_only(caplog):
    with chaos_cluster(1) as world:
        chance = world.cluster.chance.stream("test")
        pauses = [VmReboot().pause(chance) for _ in range(200)]
        assert all(300 <= pause <= 360 for pause in pauses)
        assert all(30 <= VmReboot(period=(30, 60)).pause(chance) <= 60 for _ in range(200))
        caplog.set_level("WARNING")
        run(world, VmReboot(period=(30, 60)), 1)
        assert "more often than every five minutes" in caplog.text
