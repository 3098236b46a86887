"""volume-attacher: each cycle by its initial and final attachments, to the second."""

from __future__ import annotations

from collections import Counter

import pytest
from tiny_storage import conditions

from pytest_kscen.chance import Chance
from pytest_kscen.clock import Signal
from pytest_kscen.megatest.actors import Cycle, attach_and_detach, cycle_for
from pytest_kscen.megatest.subject import attachment_name, request_attachment
from pytest_kscen.objects.resources import NODES
from pytest_kscen.objects.storage import REPLICATED_VOLUME_ATTACHMENTS, REPLICATED_VOLUMES

PERIOD = (40.0, 40.0)


@pytest.mark.parametrize(
    ("attached", "wanted", "number", "cycle"),
    [
        ([], "a", 0, Cycle.ATTACH),
        ([], "a", 9, Cycle.ATTACH),
        ([], "a", 10, Cycle.NORMAL),
        ([], "a", 99, Cycle.NORMAL),
        (["a"], "a", 0, Cycle.DETACH),
        (["a"], "a", 99, Cycle.DETACH),
        (["a"], "b", 0, Cycle.MIGRATION),
        (["a", "b"], "a", 0, Cycle.DETACH),
        (["a", "b"], "c", 99, Cycle.DETACH),
        (["a", "b", "c"], "d", 5, Cycle.DETACH),
    ],
)
def test_cycle_depends_on_current_attachments(attached, wanted, number, cycle):
    assert cycle_for(attached, wanted, number) is cycle


def test_one_cycle_in_ten_only_attaches():
    chance = Chance("cycles").stream("volume-attacher")
    drawn = Counter(cycle_for([], "a", chance.below(100)) for _ in range(1000))
    assert drawn == {Cycle.NORMAL: 896, Cycle.ATTACH: 104}


class Scripted:
    """Chance that returns the scripted values, and then the first choice."""

    def __init__(self, *, wanted, number=50, picked=0):
        self.wanted, self.number, self.picked, self.asked = wanted, number, picked, 0

    def between(self, low, high):
        return low

    def below(self, bound):
        return self.number

    def choice(self, items):
        self.asked += 1
        return self.wanted if self.asked == 1 else items[self.picked]


@pytest.fixture
def attacher(world):
    """Create the volume with these attachments; the attacher's first cycle starts in 40 s."""

    def attacher(*nodes, **chance):
        world.volume()
        rv = world.subject()
        world.advance(10)
        for node in nodes:
            world.ask(request_attachment(rv, rv.actor("somebody"), node))
        world.advance(10)
        make = type(rv).actor

        def actor(self, role):
            from dataclasses import replace

            return replace(make(self, role), chance=Scripted(**chance))

        world.patch.setattr(type(rv), "actor", actor)
        world.stop = Signal()
        world.start(attach_and_detach(rv, PERIOD, world.stop), "volume-attacher")
        return rv

    return attacher


@pytest.fixture
def world(world, monkeypatch):
    world.patch = monkeypatch
    return world


def attached(world):
    return (
        world.ask(world.api.get(REPLICATED_VOLUMES, "v"))
        .get("status", {})
        .get("actuallyAttachedTo", [])
    )


def acts(world):
    return [
        (at, data["action"], data["node"]) for at, _, data in world.notes("ended") if "node" in data
    ]


def cycles(world):
    return [
        (at, data["cycle"], data["wanted"], data["attached"])
        for at, _, data in world.notes("cycle")
    ]


def test_normal_cycle(world, attacher):
    attacher(wanted="node-2")
    world.advance(110)
    assert cycles(world) == [(60, "normal", "node-2", [])]
    assert acts(world) == [(62, "attach", "node-2"), (103, "detach", "node-2")]
    assert attached(world) == world.names(REPLICATED_VOLUME_ATTACHMENTS) == []


def test_attach_cycle(world, attacher):
    attacher(wanted="node-2", number=9)
    world.advance(60)
    assert cycles(world) == [(60, "attach", "node-2", [])]
    assert acts(world) == [(62, "attach", "node-2")]
    assert attached(world) == ["node-2"]


def test_detach_cycle(world, attacher):
    attacher("node-2", wanted="node-2")
    world.advance(60)
    assert cycles(world) == [(60, "detach", "node-2", ["node-2"])]
    assert acts(world) == [(61, "detach", "node-2")]
    assert attached(world) == []


def test_migration_cycle(world, attacher):
    attacher("node-1", wanted="node-2")
    world.advance(43)
    assert attached(world) == ["node-2"]
    world.advance(45)
    assert cycles(world) == [(60, "migration", "node-2", ["node-1"])]
    assert acts(world) == [
        (62, "attach", "node-2"),
        (63, "detach", "node-1"),
        (104, "detach", "node-2"),
    ]
    assert attached(world) == []


@pytest.mark.parametrize("wanted", ["node-1", "node-3"])
def test_two_existing_attachments_become_one(world, attacher, wanted):
    attacher("node-1", "node-2", wanted=wanted, picked=1)
    world.advance(60)
    assert cycles(world) == [(60, "detach", wanted, ["node-1", "node-2"])]
    assert acts(world) == [(61, "detach", "node-2")]
    assert attached(world) == ["node-1"]


def test_attacher_detaches_everywhere_at_the_end(world, attacher):
    attacher("node-1", "node-2", wanted="node-3")
    world.advance(10)
    world.stop.give()
    world.advance(5)
    assert world.requested_actions() == [(31, "detach everywhere", "done", 1)]
    assert attached(world) == world.names(REPLICATED_VOLUME_ATTACHMENTS) == []


def test_stop_during_an_attachment_leaves_nothing(world, attacher):
    attacher(wanted="node-3")
    world.advance(41)
    world.stop.give()
    world.advance(60)
    assert [(action, result) for _, action, result, _ in world.requested_actions()] == [
        ("attach", "stopped"),
        ("detach everywhere", "done"),
    ]
    assert attached(world) == world.names(REPLICATED_VOLUME_ATTACHMENTS) == []


def test_attachment_that_never_becomes_ready_ends_only_the_cycle(world, attacher):
    world.storage.attaches = False
    attacher(wanted="node-1")
    world.advance(40 + 300 + 40 + 5)
    (at, action, result, took), *then = world.requested_actions()
    assert (at, action, result, took) == (360, "attach", "failed", 300)
    assert then == [(401, "detach", "done", 1)]
    assert cycles(world)[1] == (400, "detach", "node-1", ["node-1"])


def test_terminating_attachment_is_refused_and_the_next_cycle_starts(world, attacher):
    attacher(wanted="node-1")
    world.advance(39)
    name = attachment_name("v", "node-1")
    obj = {
        "metadata": {"name": name, "finalizers": ["somebody/else"]},
        "spec": {"replicatedVolumeName": "v", "nodeName": "node-1"},
    }
    world.storage.attaches = False
    world.ask(world.api.create(REPLICATED_VOLUME_ATTACHMENTS, obj))
    world.ask(world.api.delete(REPLICATED_VOLUME_ATTACHMENTS, name))
    world.advance(2)
    assert [deed[:3] for deed in world.requested_actions()] == [(60, "attach", "failed")]
    world.advance(100)
    assert len(cycles(world)) >= 2


def test_readiness_is_the_attachments_own_condition(world, attacher):
    world.storage.attaches = False
    attacher(wanted="node-1")
    world.advance(50)
    assert world.requested_actions() == []
    status = {"conditions": conditions(Attached="True", ReplicaReady="True")}
    world.ask(world.storage.status(REPLICATED_VOLUME_ATTACHMENTS, "rva-v-node-1", status))
    world.advance(1)
    assert world.requested_actions() == []
    world.ask(
        world.storage.status(
            REPLICATED_VOLUME_ATTACHMENTS, "rva-v-node-1", {"conditions": conditions(Ready="True")}
        )
    )
    world.advance(0)
    assert world.requested_actions() == [(71, "attach", "done", 11)]


def test_nodes_without_the_storage_label_are_not_chosen(world, attacher):
    for number in (1, 2, 3, 4):
        world.ask(world.api.patch(NODES, f"node-{number}", {"metadata": {"labels": None}}))
    attacher(wanted="node-1")
    world.advance(100)
    assert cycles(world) == []


def test_long_names_are_truncated_and_stay_unique():
    assert attachment_name("v", "n") == "rva-v-n"
    assert len(attachment_name("v" * 120, "n" * 128)) == 253
    names = [attachment_name("v" * 120, f"{'n' * 200}.{number}") for number in range(2)]
    assert [len(name) for name in names] == [253, 253]
    assert names[0] != names[1]
    assert not attachment_name("v" * 237, "-" * 100 + "n")[:-11].endswith("-")
