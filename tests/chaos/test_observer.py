"""Effects attributed to an incident, and detection of its recovery."""

from __future__ import annotations

import pytest
from chaos_cluster import Storage, chaos_cluster, possible_effect_records, status

from pytest_kscen.chaos import manual_faults, troubles
from pytest_kscen.chaos.observer import Observer
from pytest_kscen.objects.storage import REPLICATED_VOLUME_REPLICAS, REPLICATED_VOLUMES


def test_cut_link_is_an_effect_and_its_return_the_recovery():
    with chaos_cluster() as world:
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
        assert [data["took"] for _, _, data in world.journal_records("incident-recovered")] == [43]


def test_flapping_is_no_recovery():
    with chaos_cluster() as world:
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


def test_incident_without_effect_is_recovered_at_its_end():
    with chaos_cluster() as world:
        incident = Storage(world).cause(manual_faults.network_block("node-1", "node-2"))
        world.call(incident.end())
        world.runner.advance(6)

        assert (incident.had_effect, incident.recovered_at) == (False, incident.removed_at)


def test_overlapping_incidents_have_separate_effects():
    with chaos_cluster() as world:
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


def test_link_loss_is_attributed_to_a_stopped_machine_then_to_degradation():
    with chaos_cluster() as world:
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
        assert possible_effect_records(world) == [
            (worse.id, "the link of w from node-1 to node-2 is Connecting")
        ]


def test_machine_ordered_to_stop_but_running_explains_nothing():
    with chaos_cluster() as world:
        storage = Storage(world)
        storage.volume("v", "node-1", "node-2")
        ordered = storage.cause(manual_faults.vm_reboot("node-1"))
        storage.link("v-0", "v-1", "Connecting")

        assert ordered.effects == []
        assert possible_effect_records(world) == [
            (ordered.id, "the link of v from node-1 to node-2 is Connecting")
        ]


def test_undetectable_change_is_no_effect_of_a_block():
    with chaos_cluster() as world:
        storage = Storage(world)
        storage.volume("v", "node-1", "node-2")
        cut = storage.cause(manual_faults.network_block("node-1", "node-2"), 5)
        storage.link("v-0", "v-1", "Connecting")
        world.call(cut.end())
        storage.link("v-1", "v-0", "Connecting")

        assert cut.effects == []
        assert possible_effect_records(world) == [
            (cut.id, "the link of v from node-1 to node-2 is Connecting")
        ]


def test_change_after_the_end_is_attributed_to_the_active_incident():
    with chaos_cluster() as world:
        storage = Storage(world)
        storage.volume("v", "node-1", "node-2")
        over = storage.cause(manual_faults.network_block("node-1", "node-2"))
        world.call(over.end())
        on = storage.cause(manual_faults.split_brain(["node-1"], ["node-2", "node-3"]))
        storage.link("v-0", "v-1", "Connecting")
        world.runner.advance(6)

        assert (over.had_effect, on.had_effect) == (False, True)
        assert over.recovered_at == over.removed_at


def test_block_of_one_link_affects_only_its_volume():
    with chaos_cluster() as world:
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


def test_volume_never_ready_or_being_deleted_is_no_effect():
    with chaos_cluster() as world:
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


def test_crashed_observer_reports_it_and_observes_again(monkeypatch):
    with chaos_cluster() as world:
        storage = Storage(world)
        storage.volume("v", "node-1", "node-2")
        first = storage.cause(manual_faults.network_block("node-1", "node-2"))
        with monkeypatch.context() as broken:
            broken.setattr(troubles, "of_volume", lambda *_: 1 / 0)
            storage.health("v", IOReady="False")
        assert len(world.journal_records("observer-crashed")) == 1
        world.call(first.end())
        second = storage.cause(manual_faults.network_block("node-1", "node-2"))
        storage.link("v-0", "v-1", "Connecting")

        assert (first.had_effect, second.had_effect) == (False, True)


def test_fault_that_cannot_be_undone_never_recovers(monkeypatch):
    with chaos_cluster() as world:
        incident = Storage(world).cause(manual_faults.network_block("node-1", "node-2"))

        async def heal(*_):
            raise TimeoutError("it is stuck")

        monkeypatch.setattr(type(incident.fault), "heal", heal)
        with pytest.raises(TimeoutError, match="it is stuck"):
            world.call(incident.end())
        world.call(Observer.of(world.context).settle())

        assert (incident.is_on, incident.recovered_at) == (True, None)
        ((at, _, data),) = world.journal_records("incident-not-undone")
        assert (900 <= at - incident.started_at < 1000, data["error"]) == (
            True,
            "TimeoutError('it is stuck')",
        )


def test_resource_that_does_not_recover_is_named():
    with chaos_cluster() as world:
        storage = Storage(world)
        storage.volume("v", "node-1", "node-2")
        incident = storage.cause(manual_faults.network_block("node-1", "node-2"))
        storage.link("v-1", "v-0", "StandAlone")
        world.call(incident.end())
        world.call(Observer.of(world.context).settle())

        ((at, _, data),) = world.journal_records("incident-unrecovered")
        assert at == incident.removed_at + 300
        assert data == {
            "incident": incident.id,
            "waited": 300,
            "left": ["the link of v from node-2 to node-1 is StandAlone"],
        }
        assert incident.recovered_at is None


def test_older_generation_identifies_peers_by_node():
    with chaos_cluster() as world:
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


def test_first_of_many_similar_effects_on_a_volume_are_listed():
    with chaos_cluster() as world:
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
        noted = [data for _, _, data in world.journal_records("incident-effect")]
        assert noted == [
            {"incident": incident.id, "effect": words, "volume": name}
            for name in "ab"
            for words in (*links[name], f"Quorum of the volume {name} is False (IsFalse)")
        ]


def peers(*states):
    return {"peers": [{"name": peer, "connectionState": state} for peer, state in states]}


def test_block_affects_volumes_only_through_their_links():
    with chaos_cluster() as world:
        storage = Storage(world)
        storage.volume("v", "node-1", "node-2")
        incident = storage.cause(manual_faults.network_block("node-1", "node-2"))
        storage.health("v", IOReady="False", Quorum="True")

        assert incident.effects == []


@pytest.mark.parametrize("peer", ["v-1", "node-2"])
def test_link_to_a_replica_being_deleted_is_no_effect(peer):
    with chaos_cluster() as world:
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


def test_machine_and_its_node_are_effects_of_a_stop():
    with chaos_cluster(nodes=2) as world:
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


def test_unexplained_unready_node_may_be_cut_off_from_its_watchers():
    with chaos_cluster(nodes=2) as world:
        storage = Storage(world)
        cut = storage.cause(manual_faults.network_block("node-1", "node-2"))
        world.cluster.site.machines.power_off("node-2")
        world.runner.advance(60)

        assert cut.effects == []
        assert possible_effect_records(world) == [
            (cut.id, "the node node-2 is not ready (NodeStatusUnknown)")
        ]
