"""Draws of profiles, their timing, and their survival of errors."""

from __future__ import annotations

import asyncio
import re

import pytest
from chaos_cluster import VMS, chaos_cluster

from pytest_kscen.chance import Chance
from pytest_kscen.chaos import manual_faults
from pytest_kscen.chaos.clients import ClusterClients, FaultImpossible
from pytest_kscen.chaos.incidents import cause_incident, draw_variant
from pytest_kscen.chaos.network_blocks import draw_block
from pytest_kscen.chaos.network_degradation import draw_degradation
from pytest_kscen.chaos.profiles import (
    PROFILES,
    NetworkBlock,
    NetworkDegrade,
    PodDestroy,
    VmReboot,
    profile_named,
)
from pytest_kscen.clock import Signal
from pytest_kscen.objects.errors import InternalError
from pytest_kscen.objects.resources import CILIUM_NETWORK_POLICIES


class FixedNumber:
    """Chance that always returns this number."""

    def __init__(self, number) -> None:
        self.number = number

    def below(self, bound):
        assert bound == 100
        return self.number


@pytest.mark.parametrize(
    ("weights", "number", "variant"),
    [
        (NetworkBlock.weights, 0, "blocking-everything"),
        (NetworkBlock.weights, 29, "blocking-everything"),
        (NetworkBlock.weights, 30, "blocking-drbd"),
        (NetworkBlock.weights, 59, "blocking-drbd"),
        (NetworkBlock.weights, 60, "split-brain"),
        (NetworkBlock.weights, 99, "split-brain"),
        (NetworkDegrade.weights, 49, "losses"),
        (NetworkDegrade.weights, 50, "latency"),
    ],
)
def test_number_from_0_to_99_selects_the_variant(weights, number, variant):
    assert draw_variant(FixedNumber(number), tuple(reversed(weights)), weights) == variant


def test_fewer_variants_keep_their_proportions():
    chance = Chance(1).stream("x")
    seen = [
        draw_variant(chance, ("split-brain", "blocking-drbd"), NetworkBlock.weights)
        for _ in range(700)
    ]
    assert 350 < seen.count("split-brain") < 450
    assert seen.count("split-brain") + seen.count("blocking-drbd") == 700


DRAWS = {NetworkBlock: draw_block, NetworkDegrade: draw_degradation}


def draws(world, profile, count=40):
    clients = ClusterClients.of(world.context, "test")
    return [world.call(DRAWS[type(profile)](profile, clients, 30)) for _ in range(count)]


@pytest.mark.parametrize(
    ("machines", "group_size", "sizes"),
    [(4, 0, (2, 2)), (5, 0, (3, 2)), (5, 1, (1, 4)), (5, 4, (4, 1))],
)
def test_split_brain_puts_its_larger_part_first(machines, group_size, sizes):
    with chaos_cluster(machines) as world:
        for fault in draws(
            world, NetworkBlock(group_size=group_size, variants=("split-brain",)), 5
        ):
            assert (len(fault.side_a), len(fault.side_b)) == sizes
            assert sorted(fault.side_a + fault.side_b) == [
                f"node-{number}" for number in range(1, machines + 1)
            ]


def test_drbd_block_draws_one_link_of_the_machine():
    with chaos_cluster(3) as world:
        for volume in "ab":
            for number, node in enumerate(("node-1", "node-2", "node-3")):
                world.replica(
                    volume, number, node, port=7000 + number + (10 if volume == "b" else 0)
                )
        world.replica("alone", 0, "node-1", port=7900)
        faults = draws(world, NetworkBlock(variants=("blocking-drbd",)))

        for fault in faults:
            (node,), (peer,) = fault.side_a, fault.side_b
            base = 6999 + (10 if fault.volume == "b" else 0)
            assert (fault.ports_a, fault.ports_b) == (
                (base + int(node[-1]),),
                (base + int(peer[-1]),),
            )
        assert len({(fault.side_a, fault.side_b, fault.volume) for fault in faults}) == 12


def test_degraded_pair_and_its_duration_are_drawn():
    with chaos_cluster() as world:
        faults = draws(world, NetworkDegrade(loss=0.1))
        assert {fault.variant for fault in faults} == {"losses", "latency"}
        assert all(fault.pair[0] != fault.pair[1] and fault.seconds == 30 for fault in faults)
        assert {fault.loss for fault in faults if fault.variant == "losses"} == {0.1}


@pytest.mark.parametrize(
    ("profile", "machines", "words"),
    [
        (
            NetworkBlock(variants=("blocking-everything",)),
            1,
            "blocking-everything needs 2 virtual machines, and there are 1",
        ),
        (
            NetworkBlock(variants=("split-brain",), group_size=3),
            3,
            "split-brain needs 4 virtual machines, and there are 3",
        ),
        (NetworkBlock(variants=("blocking-drbd",)), 3, "no volume has a link between node-"),
        (NetworkDegrade(), 1, "network-degrade needs 2 virtual machines, and there are 1"),
    ],
)
def test_insufficient_machines_for_an_incident(profile, machines, words):
    with chaos_cluster(machines) as world, pytest.raises(FaultImpossible, match=words):
        draws(world, profile, 1)


def run(world, profile, seconds, *, cancel=False):
    stop = Signal()

    async def play():
        task = world.runner.loop.create_task(profile.run(world.context, stop))
        await world.runner.clock.sleep(seconds)
        if cancel:
            task.cancel()
            await asyncio.wait([task])
        else:
            stop.give()
            await task

    world.call(play())


def test_pauses_and_incidents_last_exactly_as_drawn():
    with chaos_cluster() as world:
        began = world.journal.now
        run(
            world,
            NetworkBlock(period=(100, 100), incident=(30, 30), variants=("split-brain",)),
            300,
        )
        times = [
            round(at - began, 3)
            for at, _, _ in world.journal_records("incident-started", "incident-ended")
        ]

        assert times == [100, 130, 230, 260]
        assert world.names(CILIUM_NETWORK_POLICIES, VMS) == []


@pytest.mark.parametrize("cancel", [False, True])
def test_active_fault_is_undone_at_the_deadline_or_on_cancellation(cancel):
    with chaos_cluster() as world:
        began = world.journal.now
        run(
            world,
            NetworkBlock(period=(10, 10), incident=(500, 500), variants=("split-brain",)),
            60,
            cancel=cancel,
        )

        assert world.names(CILIUM_NETWORK_POLICIES, VMS) == []
        ((at, _, data),) = world.journal_records("incident-ended")
        assert (round(at - began, 3), data["lasted"]) == (60, 50)


def test_too_few_machines_are_recorded_and_retried():
    with chaos_cluster(1) as world:
        run(world, NetworkBlock(period=(10, 10), incident=(10, 10)), 35)

        assert len(world.journal_records("incident-skipped")) == 3
        world.machine("node-2")
        run(world, NetworkBlock(period=(10, 10), incident=(10, 10), variants=("split-brain",)), 35)
        assert len(world.journal_records("incident-ended")) == 2


class UnreliableApi:
    """API that refuses the first attempt of some writes."""

    def __init__(self, api) -> None:
        self._api = api
        self.refused = {}

    def __getattr__(self, name):
        call = getattr(self._api, name)
        if name not in {"create", "delete", "list", "get"}:
            return call

        async def first_refused(*args, **kwargs):
            self.refused[name] = self.refused.get(name, 0) + 1
            if self.refused[name] % 2:
                raise InternalError("etcd is having a bad day")
            return await call(*args, **kwargs)

        return first_refused


def test_temporary_api_errors_stop_nothing():
    with chaos_cluster() as world:
        parent = world.context.parent
        api_for = parent.api_for
        unreliable = UnreliableApi(api_for("chaos"))
        context = type(world.context)(
            world.context.api_for,
            world.context.clock,
            world.context.chance,
            world.journal,
            "run-1",
            owned=True,
            parent=type(parent)(lambda _: unreliable, VMS, True),
        )
        world.context = context
        run(world, NetworkBlock(period=(30, 30), incident=(10, 10), variants=("split-brain",)), 100)

        assert unreliable.refused["create"] >= 4
        assert (
            len(world.journal_records("incident-started"))
            == len(world.journal_records("incident-ended"))
            == 2
        )
        assert world.journal_records("incident-failed") == []
        assert world.names(CILIUM_NETWORK_POLICIES, VMS) == []


def test_existing_policy_of_the_same_name_is_deleted_first():
    with chaos_cluster() as world:
        name = f"chaos-net-blocking-everything-{Chance(0).stream('blocker').suffix(8)}"
        old = world.make(CILIUM_NETWORK_POLICIES, name, VMS, spec={})
        world.call(
            cause_incident(
                world.context, manual_faults.network_block("node-1", "node-2"), by="blocker"
            )
        )

        (new,) = world.call(world.api.list(CILIUM_NETWORK_POLICIES, VMS)).items
        assert new["metadata"]["name"] == name
        assert new["metadata"]["uid"] != old["metadata"]["uid"]


# --- the registry ---


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("network-block", NetworkBlock),
        ("network-degrade", NetworkDegrade),
        ("degrade", NetworkDegrade),
        ("vm-reboot", VmReboot),
        ("pod-destroy", PodDestroy),
    ],
)
def test_profile_names(name, kind):
    assert profile_named(name) is kind
    assert PROFILES[kind.name] is kind


@pytest.mark.parametrize(
    ("name", "parameters", "words"),
    [
        (
            "network-blok",
            (),
            (
                r"no chaos profile 'network-blok' \(did you mean 'network-block'\?\); the "
                r"profiles are network-block, "
            ),
        ),
        (
            "degrade",
            ["los"],
            (
                r"no parameter 'los' \(did you mean 'loss'\?\); its parameters are period, "
                r"incident, loss, variants"
            ),
        ),
        ("vm-reboot", ["incident"], "its parameters are period"),
    ],
)
def test_unknown_name_or_parameter_lists_the_valid_ones(name, parameters, words):
    with pytest.raises(ValueError, match=words):
        profile_named(name, parameters)


@pytest.mark.parametrize(
    ("mistake", "words"),
    [
        (
            lambda: NetworkBlock(variants=("splitbrain",)),
            "blocking-everything, blocking-drbd, split-brain",
        ),
        (lambda: NetworkBlock(variants=()), "one or more of"),
        (lambda: NetworkBlock(group_size=-1), "group_size=-1: give a whole number, 0 for one half"),
        (
            lambda: NetworkBlock(group_size=True),
            "group_size=True: give a whole number, 0 for one half",
        ),
        (lambda: NetworkDegrade(loss=5), "from 0 to 1"),
        (lambda: NetworkDegrade(variants=("loss",)), "losses, latency"),
    ],
)
def test_invalid_parameters_are_refused(mistake, words):
    with pytest.raises(ValueError, match=words):
        mistake()


ORDER = "give the least and the most, in this order, each more than zero"


@pytest.mark.parametrize("given", [(3, 1), (0, 2), (True, True), (1,), (1, 2, 3), ("1", "2"), 5])
@pytest.mark.parametrize(
    ("kind", "parameter", "words"),
    [
        (NetworkBlock, "period", ORDER),
        (NetworkBlock, "incident", ORDER),
        (NetworkDegrade, "period", ORDER),
        (NetworkDegrade, "incident", ORDER),
        (VmReboot, "period", ORDER),
        (PodDestroy, "period", ORDER),
        (PodDestroy, "pods", f"{ORDER}, in whole numbers"),
    ],
)
def test_range_requires_minimum_first(kind, parameter, words, given):
    with pytest.raises(ValueError, match=f"^{re.escape(f'{parameter}={given!r}: {words}')}$"):
        kind(**{parameter: given})


def test_number_of_pods_is_an_integer_and_a_duration_may_be_a_fraction():
    assert PodDestroy(pods=(1, 1), period=(0.5, 1.5)).pods == (1, 1)
    with pytest.raises(ValueError, match="in whole numbers"):
        PodDestroy(pods=(1, 1.5))


@pytest.mark.parametrize(
    ("profile", "machines"),
    [
        (NetworkBlock(), 2),
        (NetworkBlock(group_size=3), 4),
        (NetworkBlock(group_size=3, variants=("blocking-drbd",)), 2),
        (NetworkDegrade(), 2),
        (VmReboot(), 1),
        (PodDestroy(), 0),
    ],
)
def test_number_of_machines_required_by_each_profile(profile, machines):
    assert profile.needs_machines() == machines
