"""Several profiles of one kind: separate draws and unique names."""

from __future__ import annotations

import asyncio

import pytest
from chaos_cluster import chaos_cluster

from pytest_kscen.chaos.profiles import NetworkBlock, NetworkDegrade, PodDestroy, VmReboot
from pytest_kscen.clock import Signal


def attempts(*profiles):
    """Return when each actor caused or skipped an incident."""

    async def play(world):
        stop = Signal()
        lives = [
            world.runner.loop.create_task(profile.run(world.context, stop)) for profile in profiles
        ]
        await world.runner.clock.sleep(900)
        stop.give()
        await asyncio.wait(lives)

    with chaos_cluster(40) as world:  # so many that no two of them want the same machine
        world.call(play(world))
        journal_records = [
            entry
            for entry in world.journal
            if entry.what in {"incident-started", "incident-skipped"}
        ]
        return {
            who: [entry.at for entry in journal_records if entry.actor == who]
            for who in dict.fromkeys(entry.actor for entry in journal_records)
        }


@pytest.mark.parametrize(
    ("profile", "names"),
    [
        (NetworkBlock(variants=("split-brain",)), ["chaos-network-blocker"]),
        (NetworkDegrade(variants=("latency",)), ["chaos-network-degrader"]),
        (VmReboot((60.0, 300.0)), ["chaos-vm-reboter"]),
        (PodDestroy(), ["pod-destroyer/app=agent", "pod-destroyer/app=controller"]),
    ],
    ids=lambda given: getattr(given, "name", ""),
)
def test_additional_profile_does_not_shift_the_draws_of_others(profile, names):
    alone, beside = attempts(profile), attempts(profile, profile)
    assert sorted(alone) == names
    assert sorted(beside) == sorted([*names, *(f"{name}/2" for name in names)])
    for name in names:
        assert len(alone[name]) >= 3
        assert beside[name] == alone[name] != beside[f"{name}/2"]


def test_only_profiles_of_one_kind_are_numbered():
    assert sorted(attempts(PodDestroy(), PodDestroy("app=agent"), PodDestroy("app=other"))) == [
        "pod-destroyer/app=agent",
        "pod-destroyer/app=agent/2",
        "pod-destroyer/app=controller",
        "pod-destroyer/app=other",
    ]
