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
def test_invalid_operations_are_refused(machine_cluster, spec, complaint):
    with pytest.raises(Invalid, match=complaint):
        machine_cluster.operate(**spec)


def test_spec_is_immutable(machine_cluster):
    machine_cluster.operate("Stop")
    with pytest.raises(Invalid, match="the spec cannot be changed"):
        machine_cluster.call(
            machine_cluster.api.patch(
                VIRTUAL_MACHINE_OPERATIONS, "op", {"spec": {"type": "Restart"}}, "vms"
            )
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
def test_impossible_operation_fails_with_a_reason(machine_cluster, spec, reason, message):
    machine_cluster.operate(**spec)
    machine_cluster.advance(0)
    assert machine_cluster.outcome() == ("Failed", reason, message)
    assert machine_cluster.phase() == "Running"


@pytest.mark.parametrize(
    ("policy", "type_", "done"),
    [
        ("AlwaysOn", "Stop", False),
        ("AlwaysOn", "Restart", True),
        ("AlwaysOff", "Start", False),
        ("Manual", "Start", True),
    ],
)
def test_run_policies_limit_operations(machine_cluster, policy, type_, done):
    machine_cluster.create("other", runPolicy=policy)
    machine_cluster.advance(100)
    machine_cluster.operate(type_, "other")
    machine_cluster.advance(60)
    words = f"{type_} is not for a virtual machine with the run policy {policy}."
    assert machine_cluster.outcome() == (
        ("Completed", "OperationCompleted", "")
        if done
        else ("Failed", "NotApplicableForRunPolicy", words)
    )


def test_second_of_two_operations_fails(machine_cluster):
    machine_cluster.operate("Restart", name="first")
    machine_cluster.advance(2)
    machine_cluster.operate("Restart", name="again", force=True)
    machine_cluster.advance(0)
    assert machine_cluster.outcome("again") == (
        "Failed",
        "NotReadyToBeExecuted",
        "first (Restart) is not over yet.",
    )
    assert machine_cluster.phase_of("first") == "InProgress"


def test_one_of_two_concurrent_operations_is_executed(machine_cluster):
    machine_cluster.operate("Restart", name="b")
    machine_cluster.operate("Restart", name="a")
    machine_cluster.advance(60)
    assert sorted(machine_cluster.phase_of(name) for name in "ab") == ["Completed", "Failed"]


def test_stop_supersedes_a_restart(machine_cluster):
    machine_cluster.operate("Restart", name="first")
    machine_cluster.advance(2)
    machine_cluster.operate("Stop", name="second")
    machine_cluster.advance(0)
    assert machine_cluster.outcome("first") == (
        "Superseded",
        "Superseded",
        "Superseded by second (Stop).",
    )
    machine_cluster.advance(60)
    assert machine_cluster.phase_of("second") == "Completed"
    assert machine_cluster.phase() == "Stopped"
    assert not machine_cluster.machines["node-1"].powered


def test_slow_stop_becomes_a_forced_stop(machine_cluster):
    machine_cluster.watch("power", "soft", "hard")
    machine_cluster.operate("Stop", name="soft")
    machine_cluster.run_recording(2)
    machine_cluster.operate("Stop", name="hard", force=True)
    machine_cluster.run_recording(10)
    assert machine_cluster.times_by_state("power") == {False: 2}
    assert machine_cluster.times_by_state("soft") == {"InProgress": 0, "Superseded": 2}
    assert machine_cluster.times_by_state("hard") == {"InProgress": 2, "Completed": 7.5}


def test_operations_on_other_machines_continue(machine_cluster):
    machine_cluster.operate("Restart", name="one", force=True)
    machine_cluster.operate("Restart", "node-2", name="two", force=True)
    machine_cluster.advance(20)
    assert (machine_cluster.phase_of("one"), machine_cluster.phase_of("two")) == (
        "Completed",
        "Completed",
    )


def test_operation_fails_when_its_machine_is_deleted(machine_cluster):
    machine_cluster.operate("Restart", force=True)
    machine_cluster.advance(1)
    machine_cluster.delete()
    machine_cluster.advance(60)
    assert machine_cluster.outcome() == (
        "Failed",
        "VirtualMachineNotFound",
        "The virtual machine was deleted.",
    )


def test_operation_deleted_while_running_lets_its_machine_return(machine_cluster):
    machine_cluster.operate("Restart", force=True)
    machine_cluster.advance(1)
    machine_cluster.call(machine_cluster.api.delete(VIRTUAL_MACHINE_OPERATIONS, "op", "vms"))
    machine_cluster.advance(120)
    assert machine_cluster.phase() == "Running"
    assert machine_cluster.machines["node-1"].powered
