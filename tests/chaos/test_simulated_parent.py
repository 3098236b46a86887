"""Faults on the virtual machines of the embedded cluster and their effects."""

from __future__ import annotations

import contextlib

import pytest

from pytest_kscen.chaos import manual_faults
from pytest_kscen.chaos.cleanup import clear_after, clear_before
from pytest_kscen.chaos.clients import job, sweep_node
from pytest_kscen.chaos.incidents import cause_incident
from pytest_kscen.chaos.network_blocks import block_of_link
from pytest_kscen.chaos.network_degradation import PacketLoss
from pytest_kscen.chaos.observer import Observer
from pytest_kscen.chaos.profiles import PROFILES
from pytest_kscen.chaos.troubles import ReplicaLink
from pytest_kscen.chaos.vm_operations import operation
from pytest_kscen.clock import Signal
from pytest_kscen.clusters.embedded import EmbeddedCluster
from pytest_kscen.embedded.kubelet.network.flows import Flow
from pytest_kscen.journal import Journal
from pytest_kscen.kube.actor import RunContext
from pytest_kscen.objects.resources import JOBS
from pytest_kscen.objects.virtualization import VIRTUAL_MACHINE_OPERATIONS


class World:
    """Cluster of four nodes with its parent and journal."""

    def __init__(self, seed=0) -> None:
        self.cluster = EmbeddedCluster(seed, nodes=4)
        self.runner = self.cluster.runner
        self.parent = self.cluster.parent()
        self.journal = Journal(self.runner.clock)
        self.context = RunContext(
            self.cluster.api,
            self.runner.clock,
            self.cluster.chance,
            self.journal,
            "run-1",
            owned=True,
            parent=self.parent,
        )

    def cause(self, fault):
        return self.runner.call(cause_incident(self.context, fault))

    def end(self, incident):
        self.runner.call(incident.end())

    def blocked(self, source, target, port=7000, protocol="TCP"):
        return self.cluster.site.network.impairment(Flow(source, target, protocol, port)).blocked

    def journal_records(self, *what):
        return [(entry.at, entry.what, entry.data) for entry in self.journal if entry.what in what]


@contextlib.contextmanager
def world(seed=0):
    one = World(seed)
    try:
        one.runner.advance(5)
        yield one
    finally:
        one.cluster.close()
        one.journal.close()


def test_two_machines_are_cut_off_from_each_other_only():
    with world() as w:
        incident = w.cause(manual_faults.network_block("node-1", "node-2"))
        w.runner.advance(1)
        assert w.blocked("node-1", "node-2")
        assert w.blocked("node-2", "node-1")
        assert not any(
            w.blocked(*pair)
            for pair in (("node-1", "node-3"), ("node-3", "node-2"), ("node-4", "node-3"))
        )
        assert not w.blocked("node-1", "node-2", protocol="UDP")
        w.end(incident)
        w.runner.advance(1)
        assert not w.blocked("node-1", "node-2")


def test_two_groups_are_cut_off_from_each_other():
    with world() as w:
        w.cause(manual_faults.split_brain(["node-1", "node-2"], ["node-3", "node-4"]))
        w.runner.advance(1)
        names = [f"node-{number}" for number in range(1, 5)]
        cut = {(a, b) for a in names for b in names if a != b and w.blocked(a, b)}
        assert cut == {(a, b) for a in names for b in names if (a in names[:2]) != (b in names[:2])}


def test_single_ports_are_blocked():
    with world() as w:
        w.cause(manual_faults.network_block("node-1", "node-2", ports=[7001, 7009]))
        w.runner.advance(1)
        assert [w.blocked("node-1", "node-2", port) for port in (7000, 7001, 7009)] == [
            False,
            True,
            True,
        ]
        assert [w.blocked("node-2", "node-1", port) for port in (7000, 7001, 7009)] == [
            False,
            True,
            True,
        ]


def test_link_is_cut_without_affecting_a_link_with_swapped_ports():
    with world() as w:
        w.cause(block_of_link(ReplicaLink("v", "node-1", "node-2", (7000, 7001))))
        w.runner.advance(1)
        assert [w.blocked("node-1", "node-2", port) for port in (7000, 7001)] == [False, True]
        assert [w.blocked("node-2", "node-1", port) for port in (7000, 7001)] == [True, False]


def test_machine_is_restarted():
    with world() as w:
        incident = w.cause(manual_faults.vm_reboot("node-2"))
        w.runner.advance(200)

        assert 60 < incident.removed_at - incident.started_at < 180
        assert "node-2 was restarted" in incident.effects
        assert any("the node node-2 is not ready" in effect for effect in incident.effects)
        assert incident.recovered_at is not None


def test_machine_is_stopped_and_started_at_the_end():
    with world() as w:
        incident = w.cause(manual_faults.vm_stop("node-2"))
        w.runner.advance(120)
        assert not w.cluster.site.machines["node-2"].powered
        w.end(incident)
        assert w.cluster.site.machines["node-2"].powered
        w.runner.advance(10)
        assert incident.recovered_at is not None


@pytest.mark.parametrize("clear", [clear_before, clear_after])
def test_machine_stopped_by_a_killed_run_is_started(clear):
    with world() as w:
        w.cause(manual_faults.vm_stop("node-2"))
        w.context.shared.clear()
        assert len(operations(w)) == 1
        w.runner.call(clear(w.context))
        assert operations(w) == []
        w.runner.advance(120)
        assert w.cluster.site.machines["node-2"].powered


def operations(w):
    listing = w.runner.call(w.parent.api_for("test").list(VIRTUAL_MACHINE_OPERATIONS))
    return [one["metadata"]["name"] for one in listing.items]


def test_machine_stopped_by_others_stays_stopped():
    with world() as w:
        theirs = operation(
            "their-stop-1", w.parent.namespace, "Stop", "node-2", {"chaos.megatest/type": "vm-stop"}
        )
        w.runner.call(w.parent.api_for("test").create(VIRTUAL_MACHINE_OPERATIONS, theirs))
        w.runner.advance(60)
        w.runner.call(clear_before(w.context))
        assert not w.cluster.site.machines["node-2"].powered


def test_losses_and_latency():
    with world() as w:
        for fault in (
            manual_faults.losses("node-1", "node-2", 0.1),
            manual_faults.latency("node-1", "node-3"),
        ):
            incident = w.cause(fault)
            w.runner.advance(30)
            w.end(incident)
            assert incident.effects != []


def rules(w, node):
    """Return the number of our rules that a Job finds on the node."""
    actor = w.context.actor("test")
    return w.runner.call(sweep_node(actor, f"look-at-{node}", node, "kscen/", actor.labels))


def test_leftover_rule_is_swept():
    with world() as w:
        incident = w.cause(PacketLoss(("node-1", "node-2"), 0.1, 30))
        w.runner.call(
            w.cluster.api("somebody").delete(
                JOBS, f"chaos-{incident.id}-del-a", "default", propagation="Background"
            )
        )
        w.runner.advance(30)
        w.end(incident)

        assert [
            (data["node"], data["rules"]) for _, _, data in w.journal_records("rules-swept")
        ] == [("node-1", 1)]
        assert (rules(w, "node-1"), rules(w, "node-2")) == (0, 0)


def test_rules_of_a_killed_run_are_swept_before_the_next_run():
    with world() as w:
        w.cause(manual_faults.losses("node-1", "node-2", 0.1))
        w.context.shared.clear()
        w.runner.call(clear_before(w.context))

        assert [
            (data["node"], data["rules"]) for _, _, data in w.journal_records("rules-swept")
        ] == [
            ("node-1", 1),
            ("node-2", 1),
        ]
        assert (rules(w, "node-1"), rules(w, "node-2")) == (0, 0)


@pytest.mark.parametrize(
    ("comment", "left"), [("node-1-add-iptables", 0), ("node-1-add-iptables-too", 1)]
)
def test_rule_of_the_go_megatest_is_swept_and_similar_rules_are_kept(comment, left):
    rule = "-s 10.0.0.1 -m statistic --mode random --probability 0.5 -m comment --comment"
    text = f'set -e\niptables -A INPUT {rule} "node-1-add-iptables" -j DROP\n'
    with world() as w:
        api = w.cluster.api("somebody")
        w.runner.call(
            api.create(
                JOBS, job("go", "node-1", text.replace("node-1-add-iptables", comment), 300, {})
            )
        )
        w.runner.advance(20)
        actor = w.context.actor("test")
        swept = w.runner.call(
            sweep_node(actor, "sweep", "node-1", "node-1-add-iptables", actor.labels)
        )
        assert swept == 1 - left
        assert (
            w.runner.call(sweep_node(actor, "sweep-again", "node-1", comment, actor.labels)) == left
        )


def test_losses_do_not_survive_a_reboot():
    with world() as w:
        losses = w.cause(PacketLoss(("node-1", "node-2"), 0.1, 60))
        w.cause(manual_faults.vm_reboot("node-2"))
        w.runner.advance(60)
        w.end(losses)

        assert (rules(w, "node-1"), rules(w, "node-2")) == (0, 0)
        assert w.runner.call(w.cluster.api("test").list(JOBS, "default")).items == []


@pytest.mark.parametrize("name", [name for name in PROFILES if name != "pod-destroy"])
def test_one_hour_of_each_profile_leaves_nothing(name):
    with world() as w:
        stop = Signal()

        async def play():
            await clear_before(w.context)
            task = w.runner.loop.create_task(PROFILES[name]().run(w.context, stop))
            await w.runner.clock.sleep(3600)
            stop.give()
            await task
            await Observer.of(w.context).settle()
            await clear_after(w.context)

        w.runner.call(play())
        started = [data["incident"] for _, _, data in w.journal_records("incident-started")]
        ended = [data["incident"] for _, _, data in w.journal_records("incident-ended")]
        recovered = [data["incident"] for _, _, data in w.journal_records("incident-recovered")]
        assert len(started) >= 8
        assert sorted(started) == sorted(ended) == sorted(recovered)
        assert w.journal_records("incident-failed", "incident-not-undone") == []


def test_same_seed_gives_the_same_story():
    def journal_records():
        with world(7) as w:
            stop = Signal()

            async def play():
                profiles = [
                    PROFILES[name](period=(20.0, 60.0)) for name in ("network-block", "vm-reboot")
                ]
                tasks = [
                    w.runner.loop.create_task(profile.run(w.context, stop)) for profile in profiles
                ]
                await w.runner.clock.sleep(600)
                stop.give()
                for task in tasks:
                    await task
                await Observer.of(w.context).settle()
                await clear_after(w.context)

            w.runner.call(play())
            return list(w.journal)

    first, second = journal_records(), journal_records()
    assert len(first) > 50
    assert first == second
