"""Losses and latency on simulated nodes: Jobs run, links are affected, logs report it."""

from __future__ import annotations

import pytest
from test_simulated_parent import world

from pytest_kscen.chaos.network_degradation import LinkLoad, PacketLoss
from pytest_kscen.embedded.kubelet.network import Flow
from pytest_kscen.objects.resources import JOBS, NODES

PAIR = ("node-1", "node-2")


@pytest.fixture
def w():
    with world() as one:
        yield one


def impairment(w, source, target):
    return w.cluster.site.network.impairment(Flow(source, target))


def jobs(w):
    return w.runner.call(w.cluster.api("test").list(JOBS, "default")).items


def effects(w):
    return [data["effect"] for _, _, data in w.journal_records("incident-effect")]


@pytest.mark.parametrize("seconds", [30.0, None], ids=["for a time", "until it is told to end"])
def test_packet_loss(w, seconds):
    incident = w.cause(PacketLoss(PAIR, 0.05, seconds))
    w.runner.advance(20)
    assert [
        round(impairment(w, *pair).loss, 6) for pair in (PAIR, PAIR[::-1], ("node-1", "node-3"))
    ] == [0.05, 0.05, 0]
    w.runner.advance(15)
    w.end(incident)
    assert impairment(w, *PAIR).loss == impairment(w, *PAIR[::-1]).loss == 0
    assert [(text.split()[0], text.split()[-1]) for text in effects(w)] == [PAIR, PAIR[::-1]]
    assert all(150 < int(text.split()[2]) < 350 for text in effects(w))
    w.runner.advance(60)
    assert jobs(w) == []


def test_taint_does_not_keep_jobs_away(w):
    taint = {"spec": {"taints": [{"key": "for/others", "effect": "NoExecute"}]}}
    w.runner.call(w.cluster.api("test").patch(NODES, "node-1", taint))
    w.cause(PacketLoss(PAIR, 0.05, 30.0))
    assert [round(impairment(w, *pair).loss, 6) for pair in (PAIR, PAIR[::-1])] == [0.05, 0.05]


def test_zero_loss_rule_has_no_effect(w):
    incident = w.cause(PacketLoss(PAIR, 0, 30.0))
    w.runner.advance(35)
    w.end(incident)
    assert (
        w.journal_records("incident-failed")
        == w.journal_records("incident-not-undone")
        == effects(w)
        == []
    )


def test_rebooted_machine_has_no_rule_left(w):
    incident = w.cause(PacketLoss(PAIR, 0.05, 60.0))
    w.runner.advance(10)
    w.cluster.site.machines.power_off("node-1")
    w.runner.advance(5)
    w.cluster.site.machines.power_on("node-1")
    w.runner.advance(60)
    w.end(incident)
    assert impairment(w, *PAIR).loss == impairment(w, *PAIR[::-1]).loss == 0


def test_latency(w):
    incident = w.cause(LinkLoad(PAIR, 30.0))
    w.runner.advance(15)
    assert [impairment(w, *pair).load for pair in (PAIR, PAIR[::-1], ("node-3", "node-4"))] == [
        0.9,
        0.9,
        0,
    ]
    assert impairment(w, *PAIR).delay > 0.01
    w.runner.advance(20)
    w.end(incident)
    assert impairment(w, *PAIR).load == 0
    assert [text.split()[0] for text in effects(w)] == list(PAIR)
