"""Links not established during a fault: attribution and consequences for their volume."""

from __future__ import annotations

import contextlib

import pytest
from chaos_cluster import Storage, chaos_cluster, possible_effect_records

from pytest_kscen.chaos import manual_faults
from pytest_kscen.clusters.embedded import EmbeddedCluster
from pytest_kscen.objects.storage import (
    HEALTH_SOURCES,
    REPLICATED_VOLUME_ATTACHMENTS,
    REPLICATED_VOLUME_REPLICAS,
)
from pytest_kscen.run.plan import Plan
from pytest_kscen.run.runner import ScenarioRunner

FROM_1 = "the link of v from node-1 to node-2 is not made (Connecting)"
FROM_2 = "the link of v from node-2 to node-1 is not made (Connecting)"
NOT_READY = "IOReady of the volume v is False (IsFalse)"


@contextlib.contextmanager
def one_replica():
    """Create a volume with one replica, on node-1."""
    with chaos_cluster() as world:
        storage = Storage(world)
        storage.volume("v", "node-1")
        yield world, storage


def comes(storage, *, state="Connecting"):
    """Add a replica on node-2, which reports the link first."""
    storage.world.replica("v", 1, "node-2", peers=[{"name": "v-0", "connectionState": state}])
    storage.world.runner.advance(0)


def test_end_whose_peer_is_deleted_is_forgotten():
    """A later peer on the same node has another name and is not mistaken for it."""
    with one_replica() as (world, storage):
        storage.cause(
            manual_faults.network_block("node-3", "node-4"), 1
        )  # as long as any is on, the observer looks
        first = storage.cause(manual_faults.network_block("node-1", "node-2"), 2)
        comes(storage)
        world.call(
            world.api.patch(
                REPLICATED_VOLUME_REPLICAS, "v-1", {"metadata": {"finalizers": ["a/b"]}}
            )
        )
        storage.link("v-0", "v-1", "Connecting")
        world.runner.advance(1)
        world.call(world.api.delete(REPLICATED_VOLUME_REPLICAS, "v-1"))
        world.runner.advance(1)
        storage.link("v-0", "v-1", "Unconnected")
        storage.set(REPLICATED_VOLUME_REPLICAS, "v-0", {"peers": []})
        world.call(
            world.api.patch(REPLICATED_VOLUME_REPLICAS, "v-1", {"metadata": {"finalizers": None}})
        )
        world.runner.advance(10)
        world.call(first.end())
        world.runner.advance(20)
        second = storage.cause(manual_faults.network_block("node-1", "node-2"), 2)
        world.replica("v", 2, "node-2", peers=[{"name": "v-0", "connectionState": "Connecting"}])
        world.runner.advance(8)
        assert second.effects == [], "node-1 has told nothing of it"


def is_due(storage):
    comes(storage)
    storage.link("v-0", "v-1", "Connecting")


def test_link_prevented_by_block_is_its_effect_and_connecting_is_the_recovery():
    with one_replica() as (world, storage):
        block = storage.cause(manual_faults.network_block("node-1", "node-2"), 2)
        is_due(storage)
        world.runner.advance(5.9)
        assert block.effects == []
        world.runner.advance(0.1)
        assert block.effects == [FROM_2, FROM_1]

        world.call(block.end())
        world.runner.advance(40)
        assert block.recovered_at is None
        for ends in (("v-0", "v-1"), ("v-1", "v-0")):
            storage.link(*ends, "Connected")
        world.runner.advance(6.1)
        assert block.recovered_at == block.removed_at + 40


def test_volume_is_explained_by_the_block_once_it_is_proved():
    with one_replica() as (world, storage):
        block = storage.cause(manual_faults.network_block("node-1", "node-2"), 2)
        is_due(storage)
        storage.health("v", IOReady="False", Quorum="True")
        assert (block.effects, possible_effect_records(world)) == ([], [(block.id, NOT_READY)])
        world.runner.advance(6.1)
        assert block.effects == [FROM_2, FROM_1, NOT_READY]
        storage.health("v", IOReady="False", Quorum="False")
        assert block.effects[3:] == ["Quorum of the volume v is False (IsFalse)"]


def test_condition_lost_before_the_link_was_due_is_not_explained():
    with one_replica() as (world, storage):
        block = storage.cause(manual_faults.network_block("node-1", "node-2"), 2)
        storage.health("v", IOReady="False", Quorum="True")
        world.runner.advance(1)
        is_due(storage)
        world.runner.advance(6.1)

        assert block.effects == [FROM_2, FROM_1]


def test_condition_lost_when_the_link_was_due_is_not_explained():
    with one_replica() as (world, storage):
        block = storage.cause(manual_faults.network_block("node-1", "node-2"), 2)
        is_due(storage)
        world.runner.advance(1)
        second = storage.cause(manual_faults.split_brain(["node-1"], ["node-2"]), 0)
        storage.health("v", IOReady="False", Quorum="True")
        world.runner.advance(6)

        assert (block.effects, second.effects) == ([FROM_2, FROM_1, NOT_READY], []), (
            "the second has cut no link of it"
        )


def add_third_replica(storage):
    """Add a replica on node-2 beside node-1 and node-3; its link with node-1 is due."""
    storage.world.replica(
        "v", 2, "node-2", peers=[{"name": "v-0", "connectionState": "Connecting"}]
    )
    peers = [
        {"name": "v-1", "connectionState": "Connected"},
        {"name": "v-2", "connectionState": "Connecting"},
    ]
    storage.set(REPLICATED_VOLUME_REPLICAS, "v-0", {"peers": peers})


def test_condition_lost_before_another_incident_took_a_link_is_not_attributed_to_it():
    with chaos_cluster() as world:
        storage = Storage(world)
        storage.volume("v", "node-1", "node-3")
        other = storage.cause(manual_faults.network_block("node-1", "node-3"), 2)
        brief = storage.cause(manual_faults.network_block("node-1", "node-2"), 1)
        add_third_replica(storage)
        storage.health("v", IOReady="False", Quorum="True")
        world.runner.advance(2)
        world.call(brief.end())
        world.runner.advance(3)
        storage.link("v-1", "v-0", "Connecting")
        world.runner.advance(2)

        assert other.effects == ["the link of v from node-3 to node-1 is Connecting"]


def test_machine_lost_after_the_volume_suffered_is_not_the_cause():
    with chaos_cluster() as world:
        storage = Storage(world)
        storage.volume("v", "node-1", "node-3")
        block = storage.cause(manual_faults.network_block("node-1", "node-2"), 2)
        add_third_replica(storage)
        storage.health("v", IOReady="False", Quorum="True")
        world.runner.advance(1)
        reboot = storage.cause(manual_faults.vm_reboot("node-3"), 1)
        storage.machine("node-3", "Stopping")
        world.runner.advance(5)

        assert NOT_READY in block.effects
        assert NOT_READY not in reboot.effects


def test_link_established_in_time_is_no_effect():
    with one_replica() as (world, storage):
        block = storage.cause(manual_faults.network_block("node-1", "node-2"))
        is_due(storage)
        world.runner.advance(5)
        storage.link("v-1", "v-0", "Connected")
        world.runner.advance(20)

        assert (block.effects, possible_effect_records(world)) == ([], [])


def test_flapping_link_gets_a_new_due_time():
    with one_replica() as (world, storage):
        block = storage.cause(manual_faults.network_block("node-1", "node-2"))
        is_due(storage)
        world.runner.advance(4)
        storage.set(REPLICATED_VOLUME_REPLICAS, "v-1", {"peers": []})
        storage.link("v-1", "v-0", "Connecting")
        world.runner.advance(5)
        assert block.effects == []
        world.runner.advance(1)
        assert block.effects == [FROM_1, FROM_2]


@pytest.mark.parametrize("elsewhere", [("node-1", "node-3"), ("node-3", "node-4")])
def test_block_between_other_nodes_is_not_the_cause(elsewhere):
    with one_replica() as (world, storage):
        block = storage.cause(manual_faults.network_block(*elsewhere))
        is_due(storage)
        world.runner.advance(20)

        assert (block.effects, possible_effect_records(world)) == ([], [])


def test_link_due_before_the_block_is_not_its_effect():
    with one_replica() as (world, storage):
        early = storage.cause(manual_faults.network_block("node-3", "node-4"), 0)
        is_due(storage)
        world.runner.advance(1)
        block = storage.cause(manual_faults.network_block("node-1", "node-2"), 20)

        assert (early.effects, block.effects) == ([], [])


def test_state_at_the_first_observation_has_unknown_age():
    with one_replica() as (_, storage):
        is_due(storage)
        block = storage.cause(manual_faults.network_block("node-1", "node-2"), 20)

        assert block.effects == []


def test_incident_active_for_a_moment_is_only_a_possible_cause():
    with one_replica() as (world, storage):
        block = storage.cause(manual_faults.network_block("node-1", "node-2"))
        is_due(storage)
        world.runner.advance(3)
        world.call(block.end())
        world.runner.advance(20)
        assert (block.effects, block.recovered_at) == ([], None)
        assert possible_effect_records(world) == [(block.id, FROM_2), (block.id, FROM_1)]

        for ends in (("v-0", "v-1"), ("v-1", "v-0")):
            storage.link(*ends, "Connected")
        world.runner.advance(6.1)
        assert block.recovered_at == block.removed_at + 20


def test_first_of_two_blocks_is_the_cause():
    with one_replica() as (world, storage):
        first = storage.cause(manual_faults.network_block("node-1", "node-2"), 1)
        second = storage.cause(manual_faults.split_brain(["node-1"], ["node-2"]), 1)
        is_due(storage)
        world.runner.advance(6.1)

        assert (first.effects, second.effects) == ([FROM_2, FROM_1], [])


def test_end_whose_machine_stops_meanwhile_proves_nothing():
    with one_replica() as (world, storage):
        block = storage.cause(manual_faults.network_block("node-1", "node-2"))
        is_due(storage)
        world.runner.advance(2)
        storage.machine("node-2", "Stopping")
        world.runner.advance(20)

        assert block.effects == []
        assert possible_effect_records(world) == [(block.id, FROM_2), (block.id, FROM_1)]


@pytest.mark.parametrize("state", ["StandAlone", "Disconnecting"])
def test_end_that_does_not_connect_has_another_cause(state):
    with one_replica() as (world, storage):
        block = storage.cause(manual_faults.network_block("node-1", "node-2"))
        comes(storage, state=state)
        storage.link("v-0", "v-1", "Connecting")
        world.runner.advance(20)

        assert (block.effects, possible_effect_records(world)) == ([], [])


def test_end_that_does_not_report_is_not_running():
    with one_replica() as (world, storage):
        block = storage.cause(manual_faults.network_block("node-1", "node-2"))
        world.replica("v", 1, "node-2")
        storage.link("v-0", "v-1", "Connecting")
        world.runner.advance(20)

        assert (block.effects, possible_effect_records(world)) == ([], [])


def test_deleted_replica_needs_no_link():
    with one_replica() as (world, storage):
        block = storage.cause(manual_faults.network_block("node-1", "node-2"))
        is_due(storage)
        world.call(
            world.api.patch(
                REPLICATED_VOLUME_REPLICAS, "v-1", {"metadata": {"finalizers": ["a.b/c"]}}
            )
        )
        world.call(world.api.delete(REPLICATED_VOLUME_REPLICAS, "v-1"))
        world.runner.advance(20)

        assert (block.effects, possible_effect_records(world)) == ([], [])


def test_deletion_of_the_replica_is_recovery_of_its_link():
    with one_replica() as (world, storage):
        block = storage.cause(manual_faults.network_block("node-1", "node-2"))
        is_due(storage)
        world.runner.advance(6.1)
        world.call(block.end())
        world.runner.advance(9)
        world.call(world.api.delete(REPLICATED_VOLUME_REPLICAS, "v-1"))
        storage.set(REPLICATED_VOLUME_REPLICAS, "v-0", {"peers": []})
        world.runner.advance(6.1)

        assert block.recovered_at == block.removed_at + 9


# --- on the simulated storage ---


@contextlib.contextmanager
def playing(generation, seed="links to be made"):
    """A volume on three nodes, and a fourth node without a replica."""
    cluster = EmbeddedCluster(seed, nodes=6)
    runner = ScenarioRunner(cluster, Plan(health=generation), parent=cluster.parent)
    try:
        with runner as run:
            volume = run.volumes.create("consistency-and-availability")
            run.until(volume.ready)
            run.advance("10s")
            away = next(
                name
                for name in (f"node-{number}" for number in range(1, 7))
                if name not in volume.nodes
            )
            yield cluster, run, volume, away
    finally:
        runner.close()
        cluster.close()


def attach(cluster, volume, node):
    attachment = {
        "apiVersion": REPLICATED_VOLUME_ATTACHMENTS.api_version,
        "kind": REPLICATED_VOLUME_ATTACHMENTS.kind,
        "metadata": {"name": "mine"},
        "spec": {"replicatedVolumeName": volume.name, "nodeName": node},
    }
    cluster.runner.call(cluster.api("test").create(REPLICATED_VOLUME_ATTACHMENTS, attachment))


def detach(cluster):
    cluster.runner.call(cluster.api("test").delete(REPLICATED_VOLUME_ATTACHMENTS, "mine"))


def missing_links(volume, *ends):
    return {
        f"the link of {volume.name} from {a} to {b} is not made (Connecting)"
        for a, b in (ends, ends[::-1])
    }


@pytest.mark.parametrize("generation", HEALTH_SOURCES)
def test_replica_created_during_block_is_its_effect(generation):
    with playing(generation) as (cluster, run, volume, away):
        one = volume.nodes[0]
        with run.chaos.network_block(away, one) as incident:
            attach(cluster, volume, away)
            run.advance("20s")
        run.advance("3m")
        detach(cluster)
        run.advance("10s")
    assert incident.had_effect
    assert set(incident.effects[:2]) == missing_links(volume, away, one)
    suffers = ["IOReady"] if generation == "conditions" else []
    assert [words.split()[0] for words in incident.effects[2:]] == suffers
    assert 10 < incident.recovery < 120


@pytest.mark.parametrize("generation", HEALTH_SOURCES)
def test_block_with_the_other_node_down_proves_nothing(generation):
    with playing(generation) as (cluster, run, volume, away):
        with run.chaos.vm_stop(away), run.chaos.network_block(away, volume.nodes[0]) as incident:
            attach(cluster, volume, away)
            run.advance("1m")
        run.advance("3m")
        detach(cluster)
        run.advance("10s")
    assert incident.effects == []


@pytest.mark.parametrize("generation", HEALTH_SOURCES)
def test_replica_created_outside_the_block_connects_without_an_effect(generation):
    with playing(generation) as (cluster, run, volume, away):
        names = [f"node-{number}" for number in range(1, 7)]
        a, b = (name for name in names if name not in (*volume.nodes, away))
        with run.chaos.network_block(a, b) as incident:
            attach(cluster, volume, away)
            run.advance("1m")
        detach(cluster)
        run.advance("10s")
    assert (incident.effects, incident.possible_effects, incident.recovery) == ([], [], 0.0)
