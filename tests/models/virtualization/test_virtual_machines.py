import pytest

from pytest_kscen.objects.errors import Invalid
from pytest_kscen.objects.resources import NODES, PODS
from pytest_kscen.objects.virtualization import VM_LABEL


def test_every_node_is_a_running_machine(place):
    for number, name in enumerate(("node-1", "node-2", "node-3"), 2):
        status, pod = place.vm(name)["status"], place.pod(name)
        assert status["phase"] == "Running"
        assert status["ipAddress"] == place.machines[name].address == f"172.18.0.{number}"
        assert status["nodeName"] == pod["spec"]["nodeName"]
        assert status["guestOSInfo"]["hostname"] == name
        assert status["virtualMachinePods"] == [{"name": pod["metadata"]["name"], "active": True}]
        assert {one["type"]: one["status"] for one in status["conditions"]} == dict.fromkeys(
            ("Running", "AgentReady", "Migratable"), "True"
        )
        assert pod["metadata"]["name"].startswith(f"virt-launcher-{name}-")
        assert pod["metadata"]["labels"] == {VM_LABEL: name}


def test_parent_has_its_own_nodes_sharing_the_machines(place):
    nodes = [node["metadata"]["name"] for node in place.call(place.api.list(NODES)).items]
    assert nodes == ["parent-1", "parent-2", "parent-3"]
    assert (
        sorted(place.vm(name)["status"]["nodeName"] for name in ("node-1", "node-2", "node-3"))
        == nodes
    )


def test_address_is_stable(place):
    seen = []
    for name in ("one", "two"):
        place.operate("Restart", name=name, force=True)
        place.advance(10)
        seen.append(place.vm()["status"]["ipAddress"])
        place.advance(120)
        seen.append(place.vm()["status"]["ipAddress"])
    assert seen == ["172.18.0.2"] * 4


def test_machine_without_a_node_boots(place):
    place.create("bastion")
    place.advance(20)
    assert place.phase("bastion") == "Running"
    assert "guestOSInfo" not in place.vm("bastion")["status"]
    place.advance(75)
    assert place.vm("bastion")["status"]["guestOSInfo"]["hostname"] == "bastion"
    assert place.vm("bastion")["status"]["ipAddress"] == place.pod("bastion")["status"]["podIP"]
    assert "bastion" not in place.machines


@pytest.mark.parametrize(
    ("policy", "phase"),
    [
        ("AlwaysOn", "Running"),
        ("AlwaysOnUnlessStoppedManually", "Running"),
        ("Manual", "Stopped"),
        ("AlwaysOff", "Stopped"),
    ],
)
def test_run_policy_decides_if_a_machine_runs(place, policy, phase):
    place.create("other", runPolicy=policy)
    place.advance(30)
    assert place.phase("other") == phase


def test_changed_run_policy_is_applied(place):
    place.patch(runPolicy="AlwaysOff")
    place.advance(60)
    assert place.phase() == "Stopped"
    assert not place.machines["node-1"].powered
    place.patch(runPolicy="AlwaysOn")
    place.advance(120)
    assert place.phase() == "Running"
    assert place.machines["node-1"].powered


def test_machine_stopped_by_hand_stays_stopped(place):
    place.operate("Stop")
    place.advance(600)
    assert place.phase() == "Stopped"
    assert "nodeName" not in place.vm()["status"]


def test_deleted_machine_takes_its_guest(place):
    place.delete()
    place.advance(1)
    assert place.phase() == "Terminating"
    place.advance(40)
    assert not place.exists()
    assert place.pods() == []
    assert not place.machines["node-1"].powered


def test_launcher_without_room_waits(place):
    place.create("huge", cpu={"cores": 1000})
    place.advance(60)
    assert place.phase("huge") == "Pending"


def test_fraction_of_a_core_is_requested(place):
    place.create("small", cpu={"cores": 2, "coreFraction": "10%"}, memory={"size": "1Gi"})
    place.advance(1)
    (container,) = place.pod("small")["spec"]["containers"]
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
def test_invalid_machine_is_refused(place, spec, complaint):
    with pytest.raises(Invalid, match=complaint):
        place.create("odd", **spec)


def test_last_phases_are_kept(place):
    for number in range(2):
        place.operate("Restart", name=f"op{number}", force=True)
        place.advance(120)
    transitions = [one["phase"] for one in place.vm()["status"]["stats"]["phasesTransitions"]]
    assert transitions == ["Running", "Stopping", "Pending", "Starting", "Running"]


def test_finished_launcher_is_replaced(place):
    old = place.pod()
    place.call(
        place.api.update(
            PODS, {**old, "status": {**old["status"], "phase": "Failed"}}, subresource="status"
        )
    )
    place.advance(120)
    assert place.pod()["metadata"]["uid"] != old["metadata"]["uid"]
    assert place.machines["node-1"].powered


def test_guests_stop_and_start_with_their_node(place):
    node = place.vm()["status"]["nodeName"]
    place.host.power_off(node)
    place.advance(1)
    assert [place.machines[name].powered for name in ("node-1", "node-2", "node-3")] == [
        False,
        True,
        True,
    ]
    place.advance(60)
    place.host.power_on(node)
    place.advance(120)
    assert place.phase() == "Running"
    assert place.machines["node-1"].powered


def test_machine_of_an_absent_node_waits_for_it(place):
    place.host.power_off(place.vm()["status"]["nodeName"])
    place.advance(1000)
    assert place.phase() == "Stopping"
    assert place.pod()["metadata"]["deletionTimestamp"]
    place.call(place.api.delete(PODS, place.pod()["metadata"]["name"], "vms", grace_period=0))
    place.advance(120)
    assert place.phase() == "Running"
    assert place.machines["node-1"].powered
