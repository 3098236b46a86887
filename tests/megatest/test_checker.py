"""volume-checker: the changes that count as transitions."""

from __future__ import annotations

import asyncio
import logging

import pytest
from tiny_storage import conditions

from pytest_kscen.megatest.health import check, replicas_false
from pytest_kscen.megatest.subject import nodes_of
from pytest_kscen.objects.storage import HEALTH_SOURCES, REPLICATED_VOLUMES


@pytest.fixture
def checked(world):
    """The volume is ready and its checker runs from 10 s on."""
    world.volume()
    rv = world.subject()
    world.advance(10)
    world.start(check(rv), "volume-checker")
    return world


def changes(world):
    return [
        (at, data["condition"], data["expected"], data["observed"])
        for at, _, data in world.notes("condition-changed")
    ]


def set_conditions(world, **statuses):
    world.advance(1)
    world.ask(world.storage.set_conditions("v", **statuses))
    world.advance(0)


def test_each_change_of_each_condition_counts(checked):
    set_conditions(checked, IOReady="False", Quorum="True")
    set_conditions(checked, IOReady="False", Quorum="False")
    set_conditions(checked, IOReady="True", Quorum="True")
    assert changes(checked) == [
        (11, "IOReady", "True", "False"),
        (12, "Quorum", "True", "False"),
        (13, "IOReady", "False", "True"),
        (13, "Quorum", "False", "True"),
    ]
    assert checked.notes("condition-changed")[0][2] == {
        "volume": "v", "condition": "IOReady", "expected": "True", "observed": "False",
        "reason": "IOReadyReason", "details": "so it is",
    }  # fmt: skip


def test_repeated_state_is_no_change(checked):
    set_conditions(checked, Quorum="True", IOReady="True")
    checked.ask(checked.storage.status(REPLICATED_VOLUMES, "v", {"phase": "Moved"}))
    checked.advance(1)
    assert changes(checked) == []


def test_removed_condition_is_unknown(checked):
    set_conditions(checked, Quorum="True")
    checked.ask(checked.storage.status(REPLICATED_VOLUMES, "v", {"conditions": None}))
    set_conditions(checked, IOReady="True")
    set_conditions(checked, IOReady="True", Quorum="True")
    assert changes(checked) == [
        (11, "IOReady", "True", "Unknown"),
        (11, "Quorum", "True", "Unknown"),
        (12, "IOReady", "Unknown", "True"),
        (13, "Quorum", "Unknown", "True"),
    ]
    assert (
        checked.notes("condition-changed")[0][2]["details"]
        == "the volume's status has no such condition any more"
    )


def test_two_changes_at_one_instant_are_two(checked):
    async def flap():
        await checked.storage.set_conditions("v", Quorum="False", IOReady="True")
        await checked.storage.set_conditions("v", Quorum="True", IOReady="True")

    checked.ask(flap())
    checked.advance(0)
    assert len(changes(checked)) == 2


def test_unknown_is_not_true_and_parity_holds(checked):
    set_conditions(checked, Quorum="Unknown", IOReady="True")
    set_conditions(checked, Quorum="False", IOReady="True")
    set_conditions(checked, Quorum="True", IOReady="True")
    assert changes(checked) == [(11, "Quorum", "True", "Unknown"), (13, "Quorum", "False", "True")]


def test_changes_during_deletion_do_not_count(checked):
    checked.ask(checked.api.delete(REPLICATED_VOLUMES, "v"))
    set_conditions(checked, Quorum="False", IOReady="False")
    checked.advance(10)
    assert checked.names(REPLICATED_VOLUMES) == []
    assert changes(checked) == []


def test_false_conditions_of_replicas_are_listed(checked):
    checked.ask(
        checked.storage.set_replica_status("v-1", Online="False", IOReady="False", InQuorum="True")
    )
    assert checked.notes("replicas-false") == []
    set_conditions(checked, IOReady="False", Quorum="True")
    assert [data for *_, data in checked.notes("replicas-false")] == [
        {"volume": "v", "replicas": {"v-1": ["Online (OnlineReason)", "IOReady (IOReadyReason)"]}}
    ]


def test_transition_is_logged_as_a_warning_with_details(checked, caplog):
    caplog.set_level(logging.INFO, "pytest_kscen.volume-checker")
    set_conditions(checked, IOReady="False", Quorum="True")
    changed, details = caplog.records
    assert (changed.levelname, changed.volume, changed.condition) == ("WARNING", "v", "IOReady")
    assert (changed.expected, changed.observed, changed.transition) == (
        "True",
        "False",
        "True->False",
    )
    assert (
        "condition changed volume=v condition=IOReady expected=True observed=False "
        "transition=True->False"
    ) in changed.message
    assert (details.levelname, details.reason, details.details, details.replicas) == (
        "INFO",
        "IOReadyReason",
        "so it is",
        {},
    )


def test_layout_levels(world):
    def layout(**levels):
        world.advance(1)
        world.ask(
            world.storage.status(
                REPLICATED_VOLUMES,
                "v",
                {"effectiveLayout": {"totalVoters": 3, "message": "m", **levels}},
            )
        )
        world.advance(0)

    world.volume()
    rv = world.subject(health=HEALTH_SOURCES["effectiveLayout"])
    world.start(check(rv), "volume-checker")
    layout(failuresToTolerate=1, guaranteedMinimumDataRedundancy=1)
    layout(failuresToTolerate=0, guaranteedMinimumDataRedundancy=-1)
    layout(failuresToTolerate=-1, guaranteedMinimumDataRedundancy=-1)
    layout(failuresToTolerate=1, guaranteedMinimumDataRedundancy=0)
    assert changes(world) == [
        (2, "IOWorks", "True", "False"),
        (3, "QuorumMet", "True", "False"),
        (4, "QuorumMet", "False", "True"),
        (4, "IOWorks", "False", "True"),
    ]


def test_replica_list_puts_data_first():
    replicas = [
        {"spec": {"nodeName": "b", "type": "TieBreaker"}},
        {"spec": {"nodeName": "d", "type": "Diskful"}},
        {"spec": {"type": "Diskful"}},
        {"spec": {"nodeName": "c", "type": "Diskful"}},
        {"spec": {"nodeName": "a", "type": "Access"}},
    ]
    assert nodes_of(replicas) == ["c", "d", "a", "b"]


def test_only_replicas_with_a_false_condition_are_listed():
    fine = {
        "metadata": {"name": "v-0"},
        "spec": {},
        "status": {"conditions": conditions(Online="True", InSync="Unknown")},
    }
    assert replicas_false([fine, {"metadata": {"name": "v-1"}, "spec": {}}], []) == {}


def test_replica_is_attached_only_where_the_volume_is_requested():
    text = {"conditions": conditions(Online="True", Attached="False")}
    replicas = [
        {"metadata": {"name": f"v-{n}"}, "spec": {"nodeName": f"node-{n}"}, "status": text}
        for n in (1, 2)
    ]
    assert replicas_false(replicas, []) == {}
    assert replicas_false(replicas, ["node-2"]) == {"v-2": ["Attached (AttachedReason)"]}


def test_change_at_the_instant_of_the_end_counts(world):
    """The checker is cancelled when the view has the change and before the checker runs."""
    world.volume()
    rv = world.subject()
    world.advance(10)

    async def ended():
        checker = asyncio.get_running_loop().create_task(check(rv))
        await world.runner.clock.sleep(1)
        with rv.watch.listening("v", checker.cancel):
            await world.storage.set_conditions("v", IOReady="False", Quorum="True")
            await asyncio.wait((checker,))
        return checker.cancelled()

    assert world.ask(ended())
    assert changes(world) == [(11, "IOReady", "True", "False")]
    assert world.notes("checker-stopped")[0][2]["conditions"] == {
        "IOReady": "False",
        "Quorum": "True",
    }
