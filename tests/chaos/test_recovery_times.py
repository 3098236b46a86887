"""Recovery of incidents whose effects are deleted, shared with others, or only possible."""

from __future__ import annotations

import pytest
from chaos_cluster import Storage, chaos_cluster, possible_effect_records

from pytest_kscen.chaos import manual_faults
from pytest_kscen.chaos.observer import Observer
from pytest_kscen.objects.storage import REPLICATED_VOLUME_REPLICAS, REPLICATED_VOLUMES

LINK, QUORUM = (
    "the link of v from node-1 to node-2 is Connecting",
    "Quorum of the volume v is False (IsFalse)",
)


def affected_volume(world):
    """A block has affected a link and the quorum of the volume."""
    storage = Storage(world)
    storage.volume("v", "node-1", "node-2")
    incident = storage.cause(manual_faults.network_block("node-1", "node-2"))
    storage.link("v-0", "v-1", "Connecting")
    storage.health("v", IOReady="True", Quorum="False")
    return storage, incident


def possibly_affected_volume(world):
    """A block is active and I/O has stopped, while every link is connected."""
    storage = Storage(world)
    storage.volume("v", "node-1", "node-2")
    cut = storage.cause(manual_faults.network_block("node-1", "node-2"))
    storage.health("v", IOReady="False", Quorum="True")
    return storage, cut


@pytest.mark.parametrize(
    ("volume", "is_well"), [("stays", True), ("goes", False), ("is gone", False)]
)
def test_link_being_deleted_is_recovered_unless_its_volume_goes(volume, is_well):
    with chaos_cluster() as world:
        storage, incident = affected_volume(world)
        storage.health("v", IOReady="True", Quorum="True")
        world.call(incident.end())
        world.runner.advance(20)
        if volume == "goes":
            world.call(
                world.api.patch(REPLICATED_VOLUMES, "v", {"metadata": {"finalizers": ["a.b/c"]}})
            )
        if volume != "stays":
            world.delete(REPLICATED_VOLUMES, "v")
        world.delete(REPLICATED_VOLUME_REPLICAS, "v-0")
        world.runner.advance(6)

        assert incident.recovered_at == (incident.removed_at + 20 if is_well else None)
        assert [
            data["left"] for _, _, data in world.journal_records("incident-target-deleted")
        ] == ([] if is_well else [[LINK]])


@pytest.mark.parametrize("within", [0, 20])
def test_volume_deleted_before_recovery_was_not_seen_to_recover(within):
    with chaos_cluster() as world:
        storage, incident = affected_volume(world)
        storage.link("v-0", "v-1", "Connected")
        if within:
            world.call(incident.end())
            world.runner.advance(within)
        world.delete(REPLICATED_VOLUMES, "v")
        world.call(incident.end())
        world.runner.advance(6)

        assert [
            (at, data["left"]) for at, _, data in world.journal_records("incident-target-deleted")
        ] == [(incident.removed_at + within + 5, [QUORUM])]
        assert (incident.recovered_at, world.journal_records("incident-recovered")) == (None, [])


def test_volume_deleted_during_incident_needs_no_recovery_if_others_recover():
    with chaos_cluster() as world:
        storage, incident = affected_volume(world)
        storage.volume("w", "node-1", "node-2")
        storage.link("w-0", "w-1", "Connecting")
        world.delete(REPLICATED_VOLUMES, "v")
        storage.link("v-0", "v-1", "Connected")
        world.call(incident.end())
        world.runner.advance(20)
        storage.link("w-0", "w-1", "Connected")
        world.runner.advance(6)

        assert incident.recovered_at == incident.removed_at + 20


def test_overtaken_incident_has_no_recovery_time():
    with chaos_cluster() as world:
        storage = Storage(world)
        storage.volume("v", "node-1", "node-2")
        first = storage.cause(manual_faults.network_block("node-1", "node-2"))
        storage.link("v-0", "v-1", "Connecting")
        world.call(first.end())
        elsewhere = storage.cause(manual_faults.network_block("node-3", "node-4"))
        assert world.journal_records("incident-overtaken") == []
        second = storage.cause(manual_faults.split_brain(["node-1"], ["node-2", "node-3"]))
        storage.link("v-0", "v-1", "Connected")
        for incident in (second, elsewhere):
            world.call(incident.end())
        world.call(Observer.of(world.context).settle())

        ((_, _, data),) = world.journal_records("incident-overtaken")
        left = ["the link of v from node-1 to node-2 is Connecting"]
        assert data == {"incident": first.id, "by": [second.id], "left": left}
        assert [incident.recovered_at for incident in (first, second)] == [None, second.removed_at]


def test_inherited_effect_is_awaited_by_the_overtaking_incident():
    with chaos_cluster() as world:
        storage, first = affected_volume(world)
        second = storage.cause(manual_faults.split_brain(["node-1"], ["node-2", "node-3"]))
        world.call(first.end())
        world.call(second.end())
        world.runner.advance(20)
        storage.link("v-0", "v-1", "Connected")
        world.runner.advance(20)
        assert [data["by"] for _, _, data in world.journal_records("incident-overtaken")] == [
            [second.id]
        ]
        assert (
            second.effects,
            possible_effect_records(world),
            world.journal_records("incident-overlapping"),
        ) == ([], [], [])

        storage.health("v", IOReady="True", Quorum="True")
        world.runner.advance(6)
        ((at, _, data),) = world.journal_records("incident-overlapping")
        assert (at, data) == (second.removed_at + 45, {"incident": second.id, "others": [first.id]})
        assert world.journal_records("incident-recovered") == []


def test_inherited_effect_is_awaited_by_all_overtaking_incidents():
    with chaos_cluster() as world:
        storage, first = affected_volume(world)
        others = [
            storage.cause(manual_faults.split_brain(["node-1"], ["node-2", far]))
            for far in ("node-3", "node-4")
        ]
        world.call(first.end())
        for other in others:
            world.call(other.end())
        world.runner.advance(20)
        storage.link("v-0", "v-1", "Connected")
        storage.health("v", IOReady="True", Quorum="True")
        world.runner.advance(6)

        assert [data["by"] for _, _, data in world.journal_records("incident-overtaken")] == [
            [other.id for other in others],
            [others[1].id],
        ]
        journal_records = [
            (data["incident"], data["others"])
            for _, _, data in world.journal_records("incident-overlapping")
        ]
        assert journal_records == [(others[1].id, [first.id])]


def test_inherited_effect_recovered_before_the_end_is_not_overlapping():
    with chaos_cluster() as world:
        storage, first = affected_volume(world)
        second = storage.cause(manual_faults.split_brain(["node-1"], ["node-2", "node-3"]))
        world.call(first.end())
        world.runner.advance(1)
        storage.link("v-0", "v-1", "Connected")
        world.delete(REPLICATED_VOLUMES, "v")
        world.call(second.end())
        world.runner.advance(6)

        assert world.journal_records("incident-overlapping", "incident-target-deleted") == []
        assert second.recovered_at == second.removed_at


def test_effect_out_of_reach_is_not_inherited():
    with chaos_cluster() as world:
        storage = Storage(world)
        first = storage.cause(manual_faults.split_brain(["node-1"], ["node-2", "node-3"]))
        for volume, other in (("v", "node-2"), ("w", "node-3")):
            storage.volume(volume, "node-1", other)
            storage.link(f"{volume}-0", f"{volume}-1", "Connecting")
        second = storage.cause(manual_faults.network_block("node-1", "node-2"))
        world.call(first.end())
        world.runner.advance(1)
        storage.link("v-0", "v-1", "Connected")
        world.call(second.end())
        world.runner.advance(6)

        assert second.recovered_at == second.removed_at


def test_each_overtaking_incident_awaits_only_its_possible_effects():
    with chaos_cluster() as world:
        storage, first = affected_volume(world)
        elsewhere = storage.cause(manual_faults.network_block("node-1", "node-3"))
        again = storage.cause(manual_faults.split_brain(["node-1"], ["node-2"]))
        for incident in (first, elsewhere, again):
            world.call(incident.end())
        world.runner.advance(20)

        assert [incident.recovered_at for incident in (first, elsewhere, again)] == [
            None,
            elsewhere.removed_at,
            None,
        ]


def test_incident_ending_within_another_has_no_recovery_time():
    with chaos_cluster() as world:
        storage = Storage(world)
        storage.volume("v", "node-1", "node-2")
        inner = storage.cause(manual_faults.network_block("node-1", "node-2"))
        outer = storage.cause(manual_faults.split_brain(["node-1"], ["node-2"]))
        storage.link("v-0", "v-1", "Connecting")
        world.call(inner.end())
        world.runner.advance(0)

        assert [data["by"] for _, _, data in world.journal_records("incident-overtaken")] == [
            [outer.id]
        ]


def test_possible_effect_is_awaited():
    with chaos_cluster() as world:
        storage, cut = possibly_affected_volume(world)
        world.call(cut.end())
        world.runner.advance(30)
        assert (cut.effects, cut.recovered_at) == ([], None)
        assert possible_effect_records(world) == [
            (cut.id, "IOReady of the volume v is False (IsFalse)")
        ]

        storage.health("v", IOReady="True", Quorum="True")
        world.runner.advance(6)
        assert cut.recovered_at == cut.removed_at + 30


def test_possible_effect_deleted_before_recovery_was_not_seen_to_recover():
    with chaos_cluster() as world:
        _, cut = possibly_affected_volume(world)
        world.call(cut.end())
        world.delete(REPLICATED_VOLUMES, "v")
        world.runner.advance(6)

        assert [
            data["left"] for _, _, data in world.journal_records("incident-target-deleted")
        ] == [["IOReady of the volume v is False (IsFalse)"]]


def test_incident_answers_for_nothing_new_after_its_certain_effects_recovered():
    with chaos_cluster() as world:
        storage = Storage(world)
        for volume in "vw":
            storage.volume(volume, "node-1", "node-2")
        cut = storage.cause(manual_faults.network_block("node-1", "node-2"))
        storage.link("v-0", "v-1", "Connecting")
        storage.health("w", IOReady="False", Quorum="True")
        world.call(cut.end())
        storage.link("v-0", "v-1", "Connected")
        world.runner.advance(20)
        storage.health("v", IOReady="False", Quorum="True")

        assert cut.effects == ["the link of v from node-1 to node-2 is Connecting"]


def test_possible_effect_owned_by_another_incident_is_not_awaited():
    with chaos_cluster() as world:
        storage = Storage(world)
        storage.volume("v", "node-1", "node-2")
        worse = storage.cause(manual_faults.latency("node-1", "node-2"))
        cut = storage.cause(manual_faults.network_block("node-1", "node-2"))
        storage.link("v-0", "v-1", "Connecting")
        world.call(worse.end())
        world.runner.advance(0)

        lost = "the link of v from node-1 to node-2 is Connecting"
        assert possible_effect_records(world) == [(worse.id, lost)]
        assert [data for _, _, data in world.journal_records("incident-overtaken")] == [
            {"incident": worse.id, "by": [cut.id], "left": [lost]}
        ]

        world.call(cut.end())
        world.runner.advance(20)
        storage.link("v-0", "v-1", "Connected")
        world.runner.advance(6)
        assert cut.recovered_at == cut.removed_at + 20


def test_deleted_volume_is_ignored_once_another_recovery_was_seen():
    with chaos_cluster() as world:
        storage, cut = affected_volume(world)
        storage.volume("w", "node-1", "node-2")
        world.delete(REPLICATED_VOLUMES, "v")
        storage.link("w-0", "w-1", "Connecting")
        storage.link("w-0", "w-1", "Connected")
        storage.link("v-0", "v-1", "Connected")
        world.call(cut.end())
        world.runner.advance(6)

        assert world.journal_records("incident-target-deleted") == []
        assert cut.recovered_at == cut.removed_at


def test_first_of_many_deleted_volumes_is_named_with_the_remaining_count():
    with chaos_cluster() as world:
        storage = Storage(world)
        names = [f"v{number:02}" for number in range(12)]
        for name in names:
            storage.volume(name, "node-1", "node-2")
        cut = storage.cause(manual_faults.network_block("node-1", "node-2"))
        for name in names:
            storage.health(name, IOReady="False", Quorum="True")
        world.call(cut.end())
        for name in names:
            world.delete(REPLICATED_VOLUMES, name)
        world.runner.advance(6)

        ((_, _, data),) = world.journal_records("incident-target-deleted")
        assert (data["volumes"], len(data["left"]), data["left"][-1]) == (names, 11, "2 more")
