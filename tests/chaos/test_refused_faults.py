"""Faults refused wholly or in part, and faults whose responses are lost."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses

import pytest
from chaos_cluster import VMS, chaos_cluster
from test_observer import Storage, possible_effect_records
from test_pod_destroyer import workloads

from pytest_kscen.chaos import manual_faults
from pytest_kscen.chaos.incidents import cause_incident
from pytest_kscen.chaos.vm_operations import MachineStop
from pytest_kscen.judge.incidents import update_incidents
from pytest_kscen.kube.api import ForwardingApi
from pytest_kscen.objects.errors import ApiError, Forbidden, InternalError
from pytest_kscen.objects.resources import CILIUM_NETWORK_POLICIES, DAEMON_SETS
from pytest_kscen.objects.storage import NAMESPACE, REPLICATED_VOLUME_REPLICAS
from pytest_kscen.objects.virtualization import VIRTUAL_MACHINE_OPERATIONS, VIRTUAL_MACHINES

NO, LOST = Forbidden("no"), InternalError("the answer was lost")
PAIR = "node-1", "node-2"
FAULTS = [
    manual_faults.network_block(*PAIR),
    manual_faults.losses(*PAIR, 0.5),
    manual_faults.latency(*PAIR),
    manual_faults.vm_reboot("node-1"),
]
FAULTS.append(manual_faults.vm_stop("node-1"))


class UnansweringApi(ForwardingApi):
    """Answers an actor's writes with these errors in turn, the last one repeatedly; writes in
    `done` are executed all the same.
    """

    def __init__(self, api, answers, done):
        super().__init__(api)
        self.answers, self.done = answers, done

    async def _answer(self, write):
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if answer is None or answer in self.done:
            text = await write
        else:
            write.close()
        if answer is not None:
            raise type(answer)(answer.message)
        return text

    async def create(self, *arguments, **options):
        return await self._answer(self._api.create(*arguments, **options))

    async def delete(self, *arguments, **options):
        return await self._answer(self._api.delete(*arguments, **options))


def unanswering(world, *answers, done=()):
    """Answer later writes in either cluster with these errors."""
    answers = [*answers]
    api = UnansweringApi(world.api, answers, done)
    parent = dataclasses.replace(world.context.parent, api_for=lambda _: api)
    world.context = dataclasses.replace(world.context, api_for=lambda _: api, parent=parent)
    return answers


def records(world):
    seen = {}
    for entry in world.journal:
        update_incidents(seen, entry)
    return list(seen.values())


def refused(world, fault):
    """Return the error of its cause and the journal's records of it."""
    with pytest.raises(ApiError) as refusal:
        world.call(cause_incident(world.context, fault))
    return refusal.value, records(world)[-1]


def test_replacement_of_a_pod_that_was_not_deleted_is_not_awaited():
    with chaos_cluster(nodes=3) as world:
        workloads(world)
        unanswering(world, NO)
        _, incident = refused(world, manual_faults.pod_destroy("app=agent"))

        assert (incident.lasted, incident.effects, incident.affected_nodes) == (0, [], [])


def test_only_the_replacement_of_the_deleted_pod_is_awaited():
    with chaos_cluster(nodes=3) as world:
        workloads(world)
        unanswering(world, None, NO)
        _, incident = refused(world, manual_faults.pod_destroy("app=agent", 2))

        assert 0 < incident.lasted < 15
        (effect,) = incident.effects
        assert (
            effect
            == f"the pod {incident.targets['pods'][0]} on {incident.affected_nodes[0]} is gone"
        )
        assert len(incident.affected_nodes) == len(incident.refused_nodes) == 1


def test_pod_destroyed_by_others_is_no_effect():
    with chaos_cluster(nodes=3) as world:
        workloads(world)
        unanswering(world, InternalError("down"))
        _, incident = refused(world, manual_faults.pod_destroy("app=agent", 3))
        world.call(world.api.delete(DAEMON_SETS, "agent", NAMESPACE, propagation="Background"))
        world.runner.advance(60)

        assert 300 <= incident.lasted < 320, "as long as it was tried"
        assert (
            records(world)[-1].effects,
            records(world)[-1].possible_effects,
            incident.affected_nodes,
        ) == (
            [],
            [],
            [],
        )


@pytest.mark.parametrize("then", [NO, LOST])
def test_pod_whose_deletion_response_was_lost_is_a_possible_effect(then):
    with chaos_cluster(nodes=3) as world:
        workloads(world)
        unanswering(world, LOST, then, done=(LOST,))
        with contextlib.suppress(Forbidden):
            world.call(cause_incident(world.context, manual_faults.pod_destroy("app=agent")))
        world.runner.advance(30)
        (incident,) = records(world)

        assert (len(incident.possible_effects), len(incident.affected_nodes), incident.effects) == (
            1,
            1,
            [],
        )
        assert 0 < incident.lasted < 15
        assert world.journal_records("already-gone") == []


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.variant)
def test_changes_by_others_are_no_effects_of_a_refused_fault(fault):
    with chaos_cluster(nodes=2) as world:
        storage = Storage(world)
        storage.volume("v", *PAIR)
        unanswering(world, NO)
        _, incident = refused(world, fault)
        storage.link("v-0", "v-1", "Connecting")
        storage.machine("node-1", "Stopped")
        world.runner.advance(60)

        assert (incident.lasted, incident.affected_nodes) == (0, [])
        assert [(each.effects, each.possible_effects) for each in records(world)] == [([], [])]
        assert [data["action"] for _, _, data in world.journal_records("began")] == [
            f"cause {fault.variant}"
        ]


@pytest.mark.parametrize("fault", [FAULTS[0], *FAULTS[3:]], ids=lambda fault: fault.variant)
def test_effect_is_possible_until_the_request_is_answered_with_a_refusal(fault):
    with chaos_cluster(nodes=2) as world:
        storage = Storage(world)
        storage.volume("v", *PAIR)
        answers = unanswering(world, InternalError("down"))

        async def play():
            causing = world.runner.loop.create_task(cause_incident(world.context, fault))
            await world.runner.clock.sleep(30)
            await world.api.patch(*stalled())
            await world.runner.clock.sleep(290)
            answers.append(None)
            await asyncio.wait([causing])
            assert isinstance(causing.exception(), InternalError)

        world.call(play())
        (incident,) = records(world)
        assert [words for _, words in possible_effect_records(world)] == [
            "the link of v from node-1 to node-2 is Connecting"
        ]
        assert (incident.effects, incident.possible_effects, incident.affected_nodes) == (
            [],
            [],
            [],
        )


def stalled():
    return (
        REPLICATED_VOLUME_REPLICAS,
        "v-0",
        {"status": {"peers": [{"name": "v-1", "connectionState": "Connecting"}]}},
    )


def test_block_whose_create_response_was_lost_is_undone_and_has_possible_effects():
    with chaos_cluster(nodes=2) as world:
        storage = Storage(world)
        storage.volume("v", *PAIR)
        unanswering(world, LOST, NO, None, done=(LOST,))
        world.runner.loop.call_later(
            0.3, lambda: world.runner.start(world.api.patch(*stalled()), "the link")
        )
        _, incident = refused(world, manual_faults.network_block(*PAIR))

        assert world.names(CILIUM_NETWORK_POLICIES, VMS) == []
        assert (len(incident.possible_effects), incident.affected_nodes) == (1, list(PAIR))


def test_refused_stop_does_not_start_a_machine_stopped_by_others(monkeypatch):
    with chaos_cluster(nodes=2) as world:
        stop = MachineStop.inject

        async def too_late(self, incident):
            await world.api.patch(VIRTUAL_MACHINES, "node-1", {"status": {"phase": "Stopped"}}, VMS)
            await stop(self, incident)

        monkeypatch.setattr(MachineStop, "inject", too_late)
        unanswering(world, NO, None)
        _, incident = refused(world, manual_faults.vm_stop("node-1"))

        assert incident.lasted == 0
        assert world.names(VIRTUAL_MACHINE_OPERATIONS, VMS) == []


def test_refused_fault_overtakes_no_incident():
    with chaos_cluster() as world:
        storage = Storage(world)
        storage.volume("v", *PAIR)
        first = storage.cause(manual_faults.network_block(*PAIR))
        storage.link("v-0", "v-1", "Connecting")
        world.call(first.end())
        unanswering(world, NO)
        refused(world, manual_faults.network_block(*PAIR))
        storage.link("v-0", "v-1", "Connected")
        world.runner.advance(10)

        assert first.recovered_at == first.removed_at


def test_unanswered_fault_overtakes_no_incident():
    with chaos_cluster() as world:
        storage = Storage(world)
        storage.volume("v", *PAIR)
        first = storage.cause(manual_faults.network_block(*PAIR))
        for link in ("v-0", "v-1"), ("v-1", "v-0"):
            storage.link(*link, "Connecting")
        world.call(first.end())
        answers = unanswering(world, InternalError("down"))
        asking = world.runner.loop.create_task(
            cause_incident(world.context, manual_faults.network_block(*PAIR))
        )
        world.runner.advance(10)
        storage.link("v-0", "v-1", "Connected")
        world.runner.advance(10)
        storage.link("v-1", "v-0", "Connected")
        world.runner.advance(10)
        answers[:] = [NO]
        world.call(asyncio.wait([asking]))

        assert isinstance(asking.exception(), Forbidden)
        assert world.journal_records("incident-overtaken") == []
        assert first.recovered_at == first.removed_at + 20


def test_half_applied_degradation_is_undone_on_that_side_only():
    with chaos_cluster(nodes=2) as world:
        unanswering(world, None, NO, None)
        _, incident = refused(world, manual_faults.latency(*PAIR))

        assert incident.affected_nodes == list(PAIR), "one end loads the link of both"
        assert [data["node"] for _, _, data in world.journal_records("not-loaded")] == ["node-1"]
