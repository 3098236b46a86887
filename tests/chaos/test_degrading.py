"""Packet loss and load on links, and removal of their rules."""

from __future__ import annotations

import asyncio

import pytest
from chaos_cluster import VMS, chaos_cluster

from pytest_kscen.chaos import manual_faults, network_degradation
from pytest_kscen.chaos.clients import FaultImpossible, add_rule, load_link, remove_rule
from pytest_kscen.chaos.incidents import cause_incident
from pytest_kscen.chaos.network_degradation import LinkLoad, PacketLoss
from pytest_kscen.objects.resources import JOBS
from pytest_kscen.objects.virtualization import VIRTUAL_MACHINES


class Nodes:
    """Nodes that run Jobs as a test configures: incomplete steps, and contents of logs."""

    def __init__(self, monkeypatch) -> None:
        self.stuck: tuple[str, ...] = ()
        self.down = ""
        self.slow = ""
        self.logs = {"del": "dropped 7 packets\n", "end": "dropped 3 packets\n", "load": ""}
        self.awaited: list[tuple[str, float]] = []
        self.swept: list[tuple[str, str]] = []
        self.jobs: dict[str, dict] = {}
        for module in (network_degradation, network_degradation):
            monkeypatch.setattr(module, "wait_for_job", self.completes)
            monkeypatch.setattr(module, "log_of", self.log_of)
        monkeypatch.setattr(network_degradation, "sweep_node", self.sweep)

    def step(self, name):
        return name.split("-")[-2]

    async def completes(self, actor, name, timeout):  # noqa: ASYNC109  # as it is called
        found = (await actor.api.list(JOBS, "default", fields=f"metadata.name={name}")).items
        if not found:
            return False
        self.jobs[name] = found[0]
        self.awaited.append((self.step(name), timeout))
        if self.step(name) == self.slow:
            await actor.clock.sleep(1000)
        return self.step(name) not in self.stuck

    async def log_of(self, actor, name):
        return self.logs[self.step(name)]

    async def sweep(self, actor, name, node, mark, labels):
        if node == self.down:
            self.down = ""
            raise TimeoutError("nobody can tell")
        self.swept.append((node, mark))
        return 1


@pytest.fixture
def nodes(monkeypatch):
    return Nodes(monkeypatch)


def cause_of(world, fault):
    incident = world.call(cause_incident(world.context, fault))
    jobs = world.call(world.api.list(JOBS, "default")).items
    return incident, {
        job["metadata"]["name"].removeprefix(f"chaos-{incident.id}-"): job for job in jobs
    }


def test_rule_is_added_and_removed_on_each_side(nodes):
    with chaos_cluster() as world:
        incident, jobs = cause_of(world, PacketLoss(("node-1", "node-2"), 0.001, 30.5))

        assert list(jobs) == ["add-a", "add-b", "del-a", "del-b"]
        labels = {
            "chaos.megatest/type": "losses",
            "chaos.megatest/node-a": "node-1",
            "chaos.megatest/node-b": "node-2",
            "kscen.io/incident": incident.id,
            "kscen.io/run": "run-1",
        }
        rule = f"chaos-{incident.id}-add-b"
        deleting = jobs["del-b"]
        assert deleting["metadata"]["labels"].items() >= labels.items()
        spec = deleting["spec"]
        assert (
            spec["activeDeadlineSeconds"],
            spec["ttlSecondsAfterFinished"],
            spec["backoffLimit"],
        ) == (41, 43, 0)
        pod = spec["template"]["spec"]
        assert spec["template"]["metadata"]["labels"].items() >= labels.items()
        assert (pod["hostNetwork"], pod["nodeName"], pod["restartPolicy"]) == (
            True,
            "node-2",
            "Never",
        )
        (container,) = pod["containers"]
        assert (container["image"], container["securityContext"]) == (
            "krpsh/iperf3:0.1.0",
            {"privileged": True},
        )
        assert (container["command"], container["args"]) == (
            ["/bin/sh", "-c"],
            [remove_rule(rule, "10.0.0.1", 0.001, 30.5)],
        )
        assert jobs["add-b"]["spec"]["template"]["spec"]["containers"][0]["args"] == [
            add_rule(rule, "10.0.0.1", 0.001)
        ]
        assert jobs["add-a"]["spec"]["template"]["spec"]["nodeName"] == "node-1"


def test_dropped_packets_are_the_effect(nodes):
    with chaos_cluster() as world:
        incident, _ = cause_of(world, PacketLoss(("node-1", "node-2"), 0.01, 30))
        world.runner.advance(30)
        world.call(incident.end())

        assert incident.effects == [
            "node-1 lost 7 packets from node-2",
            "node-2 lost 7 packets from node-1",
        ]
        assert world.names(JOBS, "default") == []
        assert nodes.swept == []


def test_early_end_removes_the_rule_at_once(nodes):
    with chaos_cluster() as world:
        incident, _ = cause_of(world, PacketLoss(("node-1", "node-2"), 0.01, 60))
        world.runner.advance(5)
        world.call(incident.end())

        assert incident.effects[0] == "node-1 lost 3 packets from node-2"
        (script,) = nodes.jobs[f"chaos-{incident.id}-end-a"]["spec"]["template"]["spec"][
            "containers"
        ][0]["args"]
        assert script == remove_rule(f"chaos-{incident.id}-add-a", "10.0.0.2", 0.01, 0)
        assert world.names(JOBS, "default") == []


def test_degradation_by_hand_lasts_as_long_as_its_context(nodes):
    with chaos_cluster() as world:
        incident, jobs = cause_of(world, manual_faults.losses("node-1", "node-2", 0.5))
        assert list(jobs) == ["add-a", "add-b"]
        world.runner.advance(4000)
        world.call(incident.end())

        assert incident.removed_at - incident.started_at == 4000
        assert world.names(JOBS, "default") == []


@pytest.mark.parametrize("trouble", ["stuck", "nothing found"])
def test_rule_that_may_remain_is_swept(nodes, trouble):
    with chaos_cluster() as world:
        incident, _ = cause_of(world, PacketLoss(("node-1", "node-2"), 0.01, 30))
        nodes.stuck = ("del",) if trouble == "stuck" else ()
        nodes.logs["del"] = "" if trouble == "nothing found" else nodes.logs["del"]
        world.runner.advance(30)
        world.call(incident.end())

        assert nodes.swept == [
            (node, f"kscen/chaos-{incident.id}-add-{side}")
            for node, side in (("node-1", "a"), ("node-2", "b"))
        ]
        assert world.names(JOBS, "default") == []


def test_failed_sweep_is_retried_without_repeating_the_rest(nodes):
    with chaos_cluster() as world:
        incident, _ = cause_of(world, PacketLoss(("node-1", "node-2"), 0.01, 30))
        nodes.stuck, nodes.down = ("del",), "node-2"
        world.runner.advance(30)
        world.call(incident.end())

        assert [node for node, _ in nodes.swept] == ["node-1", "node-2"]
        assert incident.removed_at - incident.started_at == 40


def test_stopped_machine_has_lost_its_rules(nodes):
    with chaos_cluster() as world:
        incident, _ = cause_of(world, PacketLoss(("node-1", "node-2"), 0.01, 30))
        world.call(
            world.api.patch(VIRTUAL_MACHINES, "node-1", {"status": {"phase": "Stopped"}}, VMS)
        )
        world.runner.advance(30)
        nodes.awaited.clear()
        world.call(incident.end())

        assert [
            data["node"] for _, _, data in world.journal_records("rule-gone-with-its-machine")
        ] == ["node-1"]
        assert [step for step, _ in nodes.awaited] == ["del"]


def test_rule_that_is_not_added_fails_the_incident_and_is_undone(nodes):
    nodes.stuck = ("add",)
    with chaos_cluster() as world:
        with pytest.raises(TimeoutError, match="not installed on node-1"):
            world.call(cause_incident(world.context, PacketLoss(("node-1", "node-2"), 0.01, 30)))

        assert [
            what
            for _, what, _ in world.journal_records(
                "incident-started", "incident-failed", "incident-ended"
            )
        ] == [
            "incident-started",
            "incident-failed",
            "incident-ended",
        ]
        assert world.names(JOBS, "default") == []


def test_cancellation_during_start_leaves_nothing(nodes):
    nodes.slow = "add"
    with chaos_cluster() as world:

        async def play():
            task = world.runner.loop.create_task(
                cause_incident(world.context, PacketLoss(("node-1", "node-2"), 0.01, 30))
            )
            await world.runner.clock.sleep(5)
            task.cancel()
            await asyncio.wait([task])
            assert task.cancelled()

        world.call(play())
        assert world.names(JOBS, "default") == []
        assert len(world.journal_records("incident-ended")) == 1


def test_link_is_loaded_from_both_sides(nodes):
    nodes.logs["load"] = "[  5]   0.00-1.00   sec  2.50 GBytes  21.5 Gbits/sec\n"
    with chaos_cluster() as world:
        incident, jobs = cause_of(world, LinkLoad(("node-1", "node-2"), 30))
        assert list(jobs) == ["load-a", "load-b"]
        assert jobs["load-a"]["spec"]["template"]["spec"]["containers"][0]["args"] == [
            load_link("10.0.0.2", 30)
        ]
        assert jobs["load-a"]["spec"]["activeDeadlineSeconds"] == 40
        world.runner.advance(30)
        world.call(incident.end())

        assert incident.effects == [
            "node-1 pushed 716 Mbit/s to node-2",
            "node-2 pushed 716 Mbit/s to node-1",
        ]
        assert world.names(JOBS, "default") == []


@pytest.mark.parametrize(
    ("log", "bits"),
    [
        ("[  5]   0.00-1.00   sec   357 MBytes  2.99 Gbits/sec\n", 99824435),
        ("[  5]   0.00-1.00   sec  0.00 Bytes  0.00 bits/sec\n", 0),
        ("iperf3: error - unable to connect to server: Connection refused\n", 0),
    ],
    ids=[
        "less than a tenth of a gigabit over all its time",
        "nothing came through",
        "nobody answered",
    ],
)
def test_link_without_load_is_no_effect(nodes, log, bits):
    nodes.logs["load"] = log
    with chaos_cluster() as world:
        incident, _ = cause_of(world, LinkLoad(("node-1", "node-2"), 30))
        world.runner.advance(30)
        world.call(incident.end())

        assert incident.effects == []
        journal_records = [
            (data["node"], data["peer"], data["bits_per_second"])
            for _, _, data in world.journal_records("not-loaded")
        ]
        assert journal_records == [("node-1", "node-2", bits), ("node-2", "node-1", bits)]


def test_machine_without_address_cannot_be_degraded():
    with chaos_cluster() as world:
        world.machine("node-9", "")
        with pytest.raises(FaultImpossible, match="node-9 has no address yet"):
            world.call(cause_incident(world.context, manual_faults.latency("node-1", "node-9")))


@pytest.mark.parametrize("loss", [5, -0.1, True, "0.1"])
def test_loss_is_a_fraction(loss):
    with pytest.raises(ValueError, match=r"from 0 to 1: 0\.05 is 5 %"):
        manual_faults.losses("a", "b", loss)
