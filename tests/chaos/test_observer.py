"""Which effects an incident is said to have had, and when it is said to be recovered from."""

from __future__ import annotations

import pytest
from stages import Storage, perhaps, staged, status

from pytest_kscen.chaos import manual_faults, troubles
from pytest_kscen.chaos.observer import Observer
from pytest_kscen.objects.storage import REPLICATED_VOLUME_REPLICAS, REPLICATED_VOLUMES


def test_a_cut_link_is_an_effect_and_its_return_the_recovery():
    with staged() as world:
        storage = Storage(world)
        storage.volume("v", "node-1", "node-2")
        incident = storage.cause(manual_faults.network_block("node-1", "node-2"))
        storage.link("v-0", "v-1", "Connecting")
        storage.health("v", IOReady="False", Quorum="True")
        world.runner.advance(22)
        assert incident.effects == [
            "the link of v from node-1 to node-2 is Connecting",
            "IOReady of the volume v is False (IsFalse)",
        ]

        world.call(incident.end())
        world.runner.advance(40)
        storage.link("v-0", "v-1", "Connected")
        world.runner.advance(3)
        storage.health("v", IOReady="True", Quorum="True")
        world.runner.advance(4.5)
        assert incident.recovered_at is None
        world.runner.advance(1)

        assert incident.recovered_at == incident.removed_at + 43
        assert [data["took"] for _, _, data in world.told("incident-recovered")] == [43]


def test_flapping_is_no_recovery():
    with staged() as world:
        storage = Storage(world)
        storage.volume("v", "node-1", "node-2")
        incident = storage.cause(manual_faults.network_block("node-1", "node-2"))
        storage.link("v-0", "v-1", "Connecting")
        world.call(incident.end())
        for state in ("Connected", "Connecting", "Connected"):
            world.runner.advance(4)
            storage.link("v-0", "v-1", state)
        world.runner.advance(6)

        assert incident.recovered_at == incident.removed_at + 12


def test_without_an_effect_it_is_recovered_from_at_its_end():
    with staged() as world:
        incident = Storage(world).cause(manual_faults.network_block("node-1", "node-2"))
        world.call(incident.end())
        world.runner.advance(6)

        assert (incident.had_effect, incident.recovered_at) == (False, incident.removed_at)


def test_overlapping_incidents_have_each_its_own():
    with staged() as world:
        storage = Storage(world)
        storage.volume("v", "node-1", "node-2")
        storage.volume("w", "node-3", "node-4")
        ours = storage.cause(manual_faults.network_block("node-1", "node-2"))
        theirs = storage.cause(manual_faults.split_brain(["node-3"], ["node-4"]))
        storage.link("v-0", "v-1", "Connecting")
        storage.link("w-0", "w-1", "Connecting")
        assert ours.effects == ["the link of v from node-1 to node-2 is Connecting"]
        assert theirs.effects == ["the link of w from node-3 to node-4 is Connecting"]

        world.call(ours.end())
        storage.link("v-0", "v-1", "Connected")
        world.runner.advance(6)
        assert ours.recovered_at == ours.removed_at
        assert theirs.is_on


def test_a_link_is_lost_to_the_machine_that_is_gone_and_before_that_to_the_worse_network():
    with staged() as world:
        storage = Storage(world)
        storage.volume("v", "node-1", "node-2")
        storage.volume("w", "node-1", "node-2")
        worse = storage.cause(manual_faults.latency("node-1", "node-2"))
        storage.link("v-0", "v-1", "Connecting")
        gone = storage.cause(manual_faults.vm_reboot("node-2"))
        storage.machine("node-2", "Stopping")
        storage.link("w-0", "w-1", "Connecting")

        assert worse.effects == ["the link of v from node-1 to node-2 is Connecting"]
        assert gone.effects == [
            "the machine node-2 is Stopping",
            "the link of w from node-1 to node-2 is Connecting",
        ]
        assert perhaps(world) == [(worse.id, "the link of w from node-1 to node-2 is Connecting")]


def test_a_machine_that_was_ordered_to_go_and_is_there_explains_nothing():
    with staged() as world:
        storage = Storage(world)
        storage.volume("v", "node-1", "node-2")
        ordered = storage.cause(manual_faults.vm_reboot("node-1"))
        storage.link("v-0", "v-1", "Connecting")

        assert ordered.effects == []
        assert perhaps(world) == [(ordered.id, "the link of v from node-1 to node-2 is Connecting")]


def test_what_nobody_can_have_noticed_is_no_effect_of_a_cut():
    with staged() as world:
        storage = Storage(world)
        storage.volume("v", "node-1", "node-2")
        cut = storage.cause(manual_faults.network_block("node-1", "node-2"), 5)
        storage.link("v-0", "v-1", "Connecting")
        world.call(cut.end())
        storage.link("v-1", "v-0", "Connecting")

        assert cut.effects == []
        assert perhaps(world) == [(cut.id, "the link of v from node-1 to node-2 is Connecting")]


def test_what_begins_after_the_end_belongs_to_whoever_is_on():
    with staged() as world:
        storage = Storage(world)
        storage.volume("v", "node-1", "node-2")
        over = storage.cause(manual_faults.network_block("node-1", "node-2"))
        world.call(over.end())
        on = storage.cause(manual_faults.split_brain(["node-1"], ["node-2", "node-3"]))
        storage.link("v-0", "v-1", "Connecting")
        world.runner.advance(6)

        assert (over.had_effect, on.had_effect) == (False, True)
        assert over.recovered_at == over.removed_at


def test_one_link_that_was_cut_answers_for_its_volume_alone():
    with staged() as world:
        storage = Storage(world)
        storage.volume("v", "node-1", "node-2")
        storage.volume("w", "node-1", "node-2")
        incident = storage.cause(manual_faults.network_block("node-1", "node-2"))
        one = storage.cause(
            manual_faults.NetworkCut(
                "blocking-drbd", ("node-1",), ("node-2",), (7000,), (7001,), "v"
            )
        )
        storage.link("w-0", "w-1", "Connecting")

        storage.link("v-0", "v-1", "Connecting")

        assert incident.effects == [
            f"the link of {name} from node-1 to node-2 is Connecting" for name in "wv"
        ]
        assert one.effects == [], "its packets were stopped already"


def test_what_was_never_well_or_is_being_deleted_is_no_effect():
    with staged() as world:
        storage = Storage(world)
        storage.volume("old", "node-1", "node-2")
        storage.set(REPLICATED_VOLUMES, "old", {}, "")
        world.call(
            world.api.patch(REPLICATED_VOLUMES, "old", {"metadata": {"finalizers": ["a.b/c"]}})
        )
        world.call(world.api.delete(REPLICATED_VOLUMES, "old"))
        incident = storage.cause(manual_faults.network_block("node-1", "node-2"))
        world.make(REPLICATED_VOLUMES, "new", status=status(IOReady="False"))
        world.replica(
            "new", 0, "node-1", peers=[{"name": "new-1", "connectionState": "Connecting"}]
        )
        world.replica("new", 1, "node-2")
        storage.health("old", IOReady="False", Quorum="False")

        assert incident.effects == []


def test_an_observer_that_crashes_says_so_and_looks_again(monkeypatch):
    with staged() as world:
        storage = Storage(world)
        storage.volume("v", "node-1", "node-2")
        first = storage.cause(manual_faults.network_block("node-1", "node-2"))
        with monkeypatch.context() as broken:
            broken.setattr(troubles, "of_volume", lambda *_: 1 / 0)
            storage.health("v", IOReady="False")
        assert len(world.told("observer-crashed")) == 1
        world.call(first.end())
        second = storage.cause(manual_faults.network_block("node-1", "node-2"))
        storage.link("v-0", "v-1", "Connecting")

        assert (first.had_effect, second.had_effect) == (False, True)


def test_a_fault_that_cannot_be_undone_is_never_recovered_from(monkeypatch):
    with staged() as world:
        incident = Storage(world).cause(manual_faults.network_block("node-1", "node-2"))

        async def heal(*_):
            raise TimeoutError("it is stuck")

        monkeypatch.setattr(type(incident.fault), "heal", heal)
        with pytest.raises(TimeoutError, match="it is stuck"):
            world.call(incident.end())
        world.call(Observer.of(world.stage).settle())

        assert (incident.is_on, incident.recovered_at) == (True, None)
        ((at, _, data),) = world.told("incident-not-undone")
        assert (900 <= at - incident.started_at < 1000, data["error"]) == (
            True,
            "TimeoutError('it is stuck')",
        )


def test_whoever_does_not_come_back_is_named():
    with staged() as world:
        storage = Storage(world)
        storage.volume("v", "node-1", "node-2")
        incident = storage.cause(manual_faults.network_block("node-1", "node-2"))
        storage.link("v-1", "v-0", "StandAlone")
        world.call(incident.end())
        world.call(Observer.of(world.stage).settle())

        ((at, _, data),) = world.told("incident-unrecovered")
        assert at == incident.removed_at + 300
        assert data == {
            "incident": incident.id,
            "waited": 300,
            "left": ["the link of v from node-2 to node-1 is StandAlone"],
        }
        assert incident.recovered_at is None


def test_the_older_generation_names_peers_by_their_nodes():
    with staged() as world:
        storage = Storage(world)

        def drbd(state):
            return {
                "drbd": {"status": {"connections": [{"name": "node-2", "connectionState": state}]}}
            }

        world.replica("v", 1, "node-2")
        world.replica("v", 0, "node-1", **drbd("Connected"))
        incident = storage.cause(manual_faults.split_brain(["node-1"], ["node-2"]))
        storage.set(REPLICATED_VOLUME_REPLICAS, "v-0", drbd("Connecting"))

        assert incident.effects == ["the link of v from node-1 to node-2 is Connecting"]


def test_of_many_effects_of_a_kind_on_one_volume_the_first_are_told():
    with staged() as world:
        storage = Storage(world)
        many = [f"node-{number}" for number in range(1, 5)]
        for name in "ab":
            storage.volume(name, *many)
        incident = storage.cause(manual_faults.split_brain(many[:1], many[1:]))
        for name in "ab":
            storage.set(
                REPLICATED_VOLUME_REPLICAS,
                f"{name}-0",
                peers(*[(f"{name}-{n}", "Connecting") for n in (1, 2, 3)]),
            )
            storage.link(f"{name}-1", f"{name}-0", "Connecting")
            storage.health(name, IOReady="True", Quorum="False")

        links = {
            name: [f"the link of {name} from node-1 to node-{n} is Connecting" for n in (2, 3, 4)]
            for name in "ab"
        }
        noted = [data for _, _, data in world.told("incident-effect")]
        assert noted == [
            {"incident": incident.id, "effect": words, "volume": name}
            for name in "ab"
            for words in (*links[name], f"Quorum of the volume {name} is False (IsFalse)")
        ]


def peers(*states):
    return {"peers": [{"name": peer, "connectionState": state} for peer, state in states]}


def test_a_cut_reaches_a_volume_through_its_links_alone():
    with staged() as world:
        storage = Storage(world)
        storage.volume("v", "node-1", "node-2")
        incident = storage.cause(manual_faults.network_block("node-1", "node-2"))
        storage.health("v", IOReady="False", Quorum="True")

        assert incident.effects == []


@pytest.mark.parametrize("peer", ["v-1", "node-2"])
def test_a_link_to_a_replica_that_goes_is_no_effect(peer):
    with staged() as world:
        storage = Storage(world)
        storage.volume("v", "node-1", "node-2", "node-3")
        storage.link("v-0", peer, "Connected")
        incident = storage.cause(manual_faults.network_block("node-1", "node-2"))
        world.call(
            world.api.patch(
                REPLICATED_VOLUME_REPLICAS, "v-1", {"metadata": {"finalizers": ["a.b/c"]}}
            )
        )
        world.call(world.api.delete(REPLICATED_VOLUME_REPLICAS, "v-1"))
        world.runner.advance(0)
        storage.link("v-0", peer, "Connecting")

        assert incident.effects == []


def test_a_machine_and_its_node_answer_for_a_stop():
    with staged(nodes=2) as world:
        storage = Storage(world)
        cut = storage.cause(manual_faults.network_block("node-1", "node-2"))
        gone = storage.cause(manual_faults.vm_reboot("node-1"))
        storage.machine("node-1", "Stopping")
        world.cluster.site.machines.power_off("node-1")
        world.runner.advance(60)

        assert cut.effects == []
        assert gone.effects == [
            "the machine node-1 is Stopping",
            "the node node-1 is not ready (NodeStatusUnknown)",
        ]


def test_a_node_that_nothing_else_explains_may_have_been_cut_off_from_its_watchers():
    with staged(nodes=2) as world:
        storage = Storage(world)
        cut = storage.cause(manual_faults.network_block("node-1", "node-2"))
        world.cluster.site.machines.power_off("node-2")
        world.runner.advance(60)

        assert cut.effects == []
        assert perhaps(world) == [(cut.id, "the node node-2 is not ready (NodeStatusUnknown)")]
