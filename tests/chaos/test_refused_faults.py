"""Faults that the API refuses, wholly or in part, and those whose answers are lost: what was not
done is nobody's doing.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses

import pytest
from stages import VMS, staged
from test_observer import Storage, perhaps
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


class Deaf(ForwardingApi):
    """Answers an actor's writes with these in turn, the last of them for ever; those in `done`
    are done all the same.
    """

    def __init__(self, api, answers, done):
        super().__init__(api)
        self.answers, self.done = answers, done

    async def _answer(self, write):
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if answer is None or answer in self.done:
            said = await write
        else:
            write.close()
        if answer is not None:
            raise type(answer)(answer.message)
        return said

    async def create(self, *arguments, **options):
        return await self._answer(self._api.create(*arguments, **options))

    async def delete(self, *arguments, **options):
        return await self._answer(self._api.delete(*arguments, **options))


def deaf(world, *answers, done=()):
    """Whoever acts from now on is answered so, in either cluster."""
    answers = [*answers]
    api = Deaf(world.api, answers, done)
    parent = dataclasses.replace(world.stage.parent, api_for=lambda _: api)
    world.stage = dataclasses.replace(world.stage, api_for=lambda _: api, parent=parent)
    return answers


def records(world):
    seen = {}
    for entry in world.journal:
        update_incidents(seen, entry)
    return list(seen.values())


def refused(world, fault):
    """What its cause raises, and what the journal says of it."""
    with pytest.raises(ApiError) as refusal:
        world.call(cause_incident(world.stage, fault))
    return refusal.value, records(world)[-1]


def test_nobody_waits_for_the_like_of_a_pod_that_was_not_deleted():
    with staged(nodes=3) as world:
        workloads(world)
        deaf(world, NO)
        _, incident = refused(world, manual_faults.pod_destroy("app=agent"))

        assert (incident.lasted, incident.effects, incident.affected_nodes) == (0, [], [])


def test_of_two_pods_the_one_that_was_deleted_is_waited_for():
    with staged(nodes=3) as world:
        workloads(world)
        deaf(world, None, NO)
        _, incident = refused(world, manual_faults.pod_destroy("app=agent", 2))

        assert 0 < incident.lasted < 15
        (effect,) = incident.effects
        assert (
            effect
            == f"the pod {incident.targets['pods'][0]} on {incident.affected_nodes[0]} is gone"
        )
        assert len(incident.affected_nodes) == len(incident.refused_nodes) == 1


def test_a_pod_that_others_destroy_is_not_ours():
    with staged(nodes=3) as world:
        workloads(world)
        deaf(world, InternalError("down"))
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
def test_a_pod_whose_deletion_was_accepted_unheard_is_perhaps_gone_by_us(then):
    with staged(nodes=3) as world:
        workloads(world)
        deaf(world, LOST, then, done=(LOST,))
        with contextlib.suppress(Forbidden):
            world.call(cause_incident(world.stage, manual_faults.pod_destroy("app=agent")))
        world.runner.advance(30)
        (incident,) = records(world)

        assert (len(incident.possible_effects), len(incident.affected_nodes), incident.effects) == (
            1,
            1,
            [],
        )
        assert 0 < incident.lasted < 15
        assert world.told("already-gone") == []


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.variant)
def test_what_others_do_is_not_of_a_fault_that_was_refused(fault):
    with staged(nodes=2) as world:
        storage = Storage(world)
        storage.volume("v", *PAIR)
        deaf(world, NO)
        _, incident = refused(world, fault)
        storage.link("v-0", "v-1", "Connecting")
        storage.machine("node-1", "Stopped")
        world.runner.advance(60)

        assert (incident.lasted, incident.affected_nodes) == (0, [])
        assert [(each.effects, each.possible_effects) for each in records(world)] == [([], [])]
        assert [data["action"] for _, _, data in world.told("began")] == [f"cause {fault.variant}"]


@pytest.mark.parametrize("fault", [FAULTS[0], *FAULTS[3:]], ids=lambda fault: fault.variant)
def test_while_nobody_answers_it_is_perhaps_and_then_it_was_not(fault):
    with staged(nodes=2) as world:
        storage = Storage(world)
        storage.volume("v", *PAIR)
        answers = deaf(world, InternalError("down"))

        async def play():
            causing = world.runner.loop.create_task(cause_incident(world.stage, fault))
            await world.runner.clock.sleep(30)
            await world.api.patch(*stalled())
            await world.runner.clock.sleep(290)
            answers.append(None)
            await asyncio.wait([causing])
            assert isinstance(causing.exception(), InternalError)

        world.call(play())
        (incident,) = records(world)
        assert [words for _, words in perhaps(world)] == [
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


def test_a_block_that_was_made_unheard_is_undone_and_may_have_done_something():
    with staged(nodes=2) as world:
        storage = Storage(world)
        storage.volume("v", *PAIR)
        deaf(world, LOST, NO, None, done=(LOST,))
        world.runner.loop.call_later(
            0.3, lambda: world.runner.start(world.api.patch(*stalled()), "the link")
        )
        _, incident = refused(world, manual_faults.network_block(*PAIR))

        assert world.names(CILIUM_NETWORK_POLICIES, VMS) == []
        assert (len(incident.possible_effects), incident.affected_nodes) == (1, list(PAIR))


def test_a_machine_that_others_switched_off_is_not_started_by_a_stop_that_was_refused(monkeypatch):
    with staged(nodes=2) as world:
        stop = MachineStop.inject

        async def too_late(self, incident):
            await world.api.patch(VIRTUAL_MACHINES, "node-1", {"status": {"phase": "Stopped"}}, VMS)
            await stop(self, incident)

        monkeypatch.setattr(MachineStop, "inject", too_late)
        deaf(world, NO, None)
        _, incident = refused(world, manual_faults.vm_stop("node-1"))

        assert incident.lasted == 0
        assert world.names(VIRTUAL_MACHINE_OPERATIONS, VMS) == []


def test_nobody_is_overtaken_by_what_was_refused():
    with staged() as world:
        storage = Storage(world)
        storage.volume("v", *PAIR)
        first = storage.cause(manual_faults.network_block(*PAIR))
        storage.link("v-0", "v-1", "Connecting")
        world.call(first.end())
        deaf(world, NO)
        refused(world, manual_faults.network_block(*PAIR))
        storage.link("v-0", "v-1", "Connected")
        world.runner.advance(10)

        assert first.recovered_at == first.removed_at


def test_nobody_is_overtaken_by_what_is_asked_for_and_not_answered():
    with staged() as world:
        storage = Storage(world)
        storage.volume("v", *PAIR)
        first = storage.cause(manual_faults.network_block(*PAIR))
        for link in ("v-0", "v-1"), ("v-1", "v-0"):
            storage.link(*link, "Connecting")
        world.call(first.end())
        answers = deaf(world, InternalError("down"))
        asking = world.runner.loop.create_task(
            cause_incident(world.stage, manual_faults.network_block(*PAIR))
        )
        world.runner.advance(10)
        storage.link("v-0", "v-1", "Connected")
        world.runner.advance(10)
        storage.link("v-1", "v-0", "Connected")
        world.runner.advance(10)
        answers[:] = [NO]
        world.call(asyncio.wait([asking]))

        assert isinstance(asking.exception(), Forbidden)
        assert world.told("incident-overtaken") == []
        assert first.recovered_at == first.removed_at + 20


def test_half_of_a_degradation_is_undone_alone():
    with staged(nodes=2) as world:
        deaf(world, None, NO, None)
        _, incident = refused(world, manual_faults.latency(*PAIR))

        assert incident.affected_nodes == list(PAIR), "one end loads the link of both"
        assert [data["node"] for _, _, data in world.told("not-loaded")] == ["node-1"]
