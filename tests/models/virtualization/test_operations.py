import pytest

from pytest_kscen.models.virtualization.operations import supersedes
from pytest_kscen.objects.errors import Invalid
from pytest_kscen.objects.virtualization import VIRTUAL_MACHINE_OPERATIONS

TYPES = ("Start", "Stop", "Restart", "Migrate", "Evict")


def operation(type_, *, force=False):
    return {"spec": {"type": type_, "virtualMachineName": "node-1", "force": force}}


def test_operations_that_supersede_others():
    table = {
        (old, new) for old in TYPES for new in TYPES if supersedes(operation(new), operation(old))
    }
    assert table == {
        ("Start", "Stop"),
        ("Start", "Restart"),
        ("Restart", "Stop"),
        ("Migrate", "Stop"),
        ("Evict", "Stop"),
    }


def test_stop_is_superseded_only_by_a_forced_stop():
    soft, hard = operation("Stop"), operation("Stop", force=True)
    assert supersedes(hard, soft)
    assert not supersedes(soft, hard)
    assert not supersedes(hard, hard)


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        ({"type_": "Start", "force": True}, "Start has no force"),
        ({"type_": "Clone"}, "Clone needs the field clone"),
        ({"type_": "Stop", "migrate": {}}, "the field migrate is for Migrate alone"),
        ({"type_": "Explode"}, 'Unsupported value: "Explode"'),
        ({"type_": "Stop", "vm": ""}, "at least 1 chars long"),
    ],
)
def test_invalid_operations_are_refused(place, spec, complaint):
    with pytest.raises(Invalid, match=complaint):
        place.operate(**spec)


def test_spec_is_immutable(place):
    place.operate("Stop")
    with pytest.raises(Invalid, match="the spec cannot be changed"):
        place.call(
            place.api.patch(VIRTUAL_MACHINE_OPERATIONS, "op", {"spec": {"type": "Restart"}}, "vms")
        )


SNAPSHOT = {"mode": "Strict", "virtualMachineSnapshotName": "s"}


@pytest.mark.parametrize(
    ("spec", "reason", "message"),
    [
        (
            {"type_": "Stop", "vm": "ghost"},
            "VirtualMachineNotFound",
            "There is no VirtualMachine ghost.",
        ),
        (
            {"type_": "Start"},
            "NotApplicableForVMPhase",
            "Start is not for a virtual machine that is Running.",
        ),
        (
            {"type_": "Restore", "restore": SNAPSHOT},
            "OperationFailed",
            "Restore needs snapshots, and simulated machines have none.",
        ),
        (
            {"type_": "Clone", "clone": {"mode": "Strict"}},
            "OperationFailed",
            "Clone needs snapshots, and simulated machines have none.",
        ),
    ],
)
def test_impossible_operation_fails_with_a_reason(place, spec, reason, message):
    place.operate(**spec)
    place.advance(0)
    assert place.outcome() == ("Failed", reason, message)
    assert place.phase() == "Running"


@pytest.mark.parametrize(
    ("policy", "type_", "done"),
    [
        ("AlwaysOn", "Stop", False),
        ("AlwaysOn", "Restart", True),
        ("AlwaysOff", "Start", False),
        ("Manual", "Start", True),
    ],
)
def test_run_policies_limit_operations(place, policy, type_, done):
    place.create("other", runPolicy=policy)
    place.advance(100)
    place.operate(type_, "other")
    place.advance(60)
    words = f"{type_} is not for a virtual machine with the run policy {policy}."
    assert place.outcome() == (
        ("Completed", "OperationCompleted", "")
        if done
        else ("Failed", "NotApplicableForRunPolicy", words)
    )


def test_second_of_two_operations_fails(place):
    place.operate("Restart", name="first")
    place.advance(2)
    place.operate("Restart", name="again", force=True)
    place.advance(0)
    assert place.outcome("again") == (
        "Failed",
        "NotReadyToBeExecuted",
        "first (Restart) is not over yet.",
    )
    assert place.phase_of("first") == "InProgress"


def test_one_of_two_concurrent_operations_is_executed(place):
    place.operate("Restart", name="b")
    place.operate("Restart", name="a")
    place.advance(60)
    assert sorted(place.phase_of(name) for name in "ab") == ["Completed", "Failed"]


def test_stop_supersedes_a_restart(place):
    place.operate("Restart", name="first")
    place.advance(2)
    place.operate("Stop", name="second")
    place.advance(0)
    assert place.outcome("first") == ("Superseded", "Superseded", "Superseded by second (Stop).")
    place.advance(60)
    assert place.phase_of("second") == "Completed"
    assert place.phase() == "Stopped"
    assert not place.machines["node-1"].powered


def test_slow_stop_becomes_a_forced_stop(place):
    place.watch("power", "soft", "hard")
    place.operate("Stop", name="soft")
    place.live(2)
    place.operate("Stop", name="hard", force=True)
    place.live(10)
    assert place.times_of("power") == {False: 2}
    assert place.times_of("soft") == {"InProgress": 0, "Superseded": 2}
    assert place.times_of("hard") == {"InProgress": 2, "Completed": 7.5}


def test_operations_on_other_machines_continue(place):
    place.operate("Restart", name="one", force=True)
    place.operate("Restart", "node-2", name="two", force=True)
    place.advance(20)
    assert (place.phase_of("one"), place.phase_of("two")) == ("Completed", "Completed")


def test_operation_fails_when_its_machine_is_deleted(place):
    place.operate("Restart", force=True)
    place.advance(1)
    place.delete()
    place.advance(60)
    assert place.outcome() == (
        "Failed",
        "VirtualMachineNotFound",
        "The virtual machine was deleted.",
    )


def test_operation_deleted_while_running_lets_its_machine_return(place):
    place.operate("Restart", force=True)
    place.advance(1)
    place.call(place.api.delete(VIRTUAL_MACHINE_OPERATIONS, "op", "vms"))
    place.advance(120)
    assert place.phase() == "Running"
    assert place.machines["node-1"].powered
