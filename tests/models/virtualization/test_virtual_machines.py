import pytest

from pytest_kscen.objects.errors import Invalid
from pytest_kscen.objects.resources import NODES, PODS
from pytest_kscen.objects.virtualization import VM_LABEL


def test_every_node_is_a_running_machine(machine_cluster):
    for number, name in enumerate(("node-1", "node-2", "node-3"), 2):
        status, pod = machine_cluster.vm(name)["status"], machine_cluster.pod(name)
        assert status["phase"] == "Running"
        assert status["ipAddress"] == machine_cluster.machines[name].address == f"172.18.0.{number}"
        assert status["nodeName"] == pod["spec"]["nodeName"]
        assert status["guestOSInfo"]["hostname"] == name
        assert status["virtualMachinePods"] == [{"name": pod["metadata"]["name"], "active": True}]
        assert {one["type"]: one["status"] for one in status["conditions"]} == dict.fromkeys(
            ("Running", "AgentReady", "Migratable"), "True"
        )
        assert pod["metadata"]["name"].startswith(f"virt-launcher-{name}-")
        assert pod["metadata"]["labels"] == {VM_LABEL: name}


def test_parent_has_its_own_nodes_sharing_the_machines(machine_cluster):
    nodes = [
        node["metadata"]["name"]
        for node in machine_cluster.call(machine_cluster.api.list(NODES)).items
    ]
    assert nodes == ["parent-1", "parent-2", "parent-3"]
    assert (
        sorted(
            machine_cluster.vm(name)["status"]["nodeName"]
            for name in ("node-1", "node-2", "node-3")
        )
        == nodes
    )


def test_address_is_stable(machine_cluster):
    seen = []
    for name in ("one", "two"):
        machine_cluster.operate("Restart", name=name, force=True)
        machine_cluster.advance(10)
        seen.append(machine_cluster.vm()["status"]["ipAddress"])
        machine_cluster.advance(120)
        seen.append(machine_cluster.vm()["status"]["ipAddress"])
    assert seen == ["172.18.0.2"] * 4


def test_machine_without_a_node_boots(machine_cluster):
    machine_cluster.create("bastion")
    machine_cluster.advance(20)
    assert machine_cluster.phase("bastion") == "Running"
    assert "guestOSInfo" not in machine_cluster.vm("bastion")["status"]
    machine_cluster.advance(75)
    assert machine_cluster.vm("bastion")["status"]["guestOSInfo"]["hostname"] == "bastion"
    assert (
        machine_cluster.vm("bastion")["status"]["ipAddress"]
        == machine_cluster.pod("bastion")["status"]["podIP"]
    )
    assert "bastion" not in machine_cluster.machines


@pytest.mark.parametrize(
    ("policy", "phase"),
    [
        ("AlwaysOn", "Running"),
        ("AlwaysOnUnlessStoppedManually", "Running"),
        ("Manual", "Stopped"),
        ("AlwaysOff", "Stopped"),
    ],
)
def test_run_policy_decides_if_a_machine_runs(machine_cluster, policy, phase):
    machine_cluster.create("other", runPolicy=policy)
    machine_cluster.advance(30)
    assert machine_cluster.phase("other") == phase


def test_changed_run_policy_is_applied(machine_cluster):
    machine_cluster.patch(runPolicy="AlwaysOff")
    machine_cluster.advance(60)
    assert machine_cluster.phase() == "Stopped"
    assert not machine_cluster.machines["node-1"].powered
    machine_cluster.patch(runPolicy="AlwaysOn")
    machine_cluster.advance(120)
    assert machine_cluster.phase() == "Running"
    assert machine_cluster.machines["node-1"].powered


def test_machine_stopped_by_hand_stays_stopped(machine_cluster):
    machine_cluster.operate("Stop")
    machine_cluster.advance(600)
    assert machine_cluster.phase() == "Stopped"
    assert "nodeName" not in machine_cluster.vm()["status"]


def test_deleted_machine_takes_its_guest(machine_cluster):
    machine_cluster.delete()
    machine_cluster.advance(1)
    assert machine_cluster.phase() == "Terminating"
    machine_cluster.advance(40)
    assert not machine_cluster.exists()
    assert machine_cluster.pods() == []
    assert not machine_cluster.machines["node-1"].powered


def test_launcher_without_room_waits(machine_cluster):
    machine_cluster.create("huge", cpu={"cores": 1000})
    machine_cluster.advance(60)
    assert machine_cluster.phase("huge") == "Pending"


def test_fraction_of_a_core_is_requested(machine_cluster):
    machine_cluster.create("small", cpu={"cores": 2, "coreFraction": "10%"}, memory={"size": "1Gi"})
    machine_cluster.advance(1)
    (container,) = machine_cluster.pod("small")["spec"]["containers"]
    assert container["resources"]["requests"] == {"cpu": "200m", "memory": "1Gi"}


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        ({"runPolicy": "Sometimes"}, 'Unsupported value: "Sometimes"'),
        ({"cpu": {"cores": 0}}, "greater than or equal to 1"),
        ({"memory": {"size": "much"}}, r"spec\.memory\.size"),
        ({"blockDeviceRefs": []}, "at least 1 items"),
    ],
)
def test_invalid_machine_is_refused(machine_cluster, spec, complaint):
    with pytest.raises(Invalid, match=complaint):
        machine_cluster.create("odd", **spec)


def test_last_phases_are_kept(machine_cluster):
    for number in range(2):
        machine_cluster.operate("Restart", name=f"op{number}", force=True)
        machine_cluster.advance(120)
    transitions = [
        one["phase"] for one in machine_cluster.vm()["status"]["stats"]["phasesTransitions"]
    ]
    assert transitions == ["Running", "Stopping", "Pending", "Starting", "Running"]


def test_finished_launcher_is_replaced(machine_cluster):
    old = machine_cluster.pod()
    machine_cluster.call(
        machine_cluster.api.update(
            PODS, {**old, "status": {**old["status"], "phase": "Failed"}}, subresource="status"
        )
    )
    machine_cluster.advance(120)
    assert machine_cluster.pod()["metadata"]["uid"] != old["metadata"]["uid"]
    assert machine_cluster.machines["node-1"].powered


def test_guests_stop_and_start_with_their_node(machine_cluster):
    node = machine_cluster.vm()["status"]["nodeName"]
    machine_cluster.host.power_off(node)
    machine_cluster.advance(1)
    assert [machine_cluster.machines[name].powered for name in ("node-1", "node-2", "node-3")] == [
        False,
        True,
        True,
    ]
    machine_cluster.advance(60)
    machine_cluster.host.power_on(node)
    machine_cluster.advance(120)
    assert machine_cluster.phase() == "Running"
    assert machine_cluster.machines["node-1"].powered


def test_machine_of_an_absent_node_waits_for_it(machine_cluster):
    machine_cluster.host.power_off(machine_cluster.vm()["status"]["nodeName"])
    machine_cluster.advance(1000)
    assert machine_cluster.phase() == "Stopping"
    assert machine_cluster.pod()["metadata"]["deletionTimestamp"]
    machine_cluster.call(
        machine_cluster.api.delete(
            PODS, machine_cluster.pod()["metadata"]["name"], "vms", grace_period=0
        )
    )
    machine_cluster.advance(120)
    assert machine_cluster.phase() == "Running"
    assert machine_cluster.machines["node-1"].powered
