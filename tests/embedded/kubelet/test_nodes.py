import pytest

from pytest_kscen.objects.conditions import condition, is_true
from pytest_kscen.objects.resources import LEASES, NODES, PODS

LEASE = "kube-node-lease"


def lease(site, name="node-1"):
    return site.call(site.api.get(LEASES, name, LEASE))


def make_node(site, name, **parts):
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, **parts}
    return site.call(site.api.create(NODES, node))


class TestNode:
    def test_node_registers_ready(self, site):
        node = site.node()
        assert node["metadata"]["labels"]["kubernetes.io/hostname"] == "node-1"
        assert node["status"]["capacity"] == {
            "cpu": "8",
            "ephemeral-storage": "100Gi",
            "memory": "32Gi",
            "pods": "110",
        }
        assert [(one["type"], one["status"]) for one in node["status"]["conditions"]] == [
            ("MemoryPressure", "False"),
            ("DiskPressure", "False"),
            ("PIDPressure", "False"),
            ("Ready", "True"),
        ]
        assert node["status"]["addresses"][0] == {"type": "InternalIP", "address": "172.18.0.2"}
        assert node["status"]["nodeInfo"]["kubeletVersion"] == "v1.36.4"
        assert node["spec"]["podCIDR"] == "10.128.0.0/24"

    def test_machine_addresses_are_unique(self, build):
        site = build(nodes=3)
        networks = [site.node(f"node-{number}")["spec"]["podCIDR"] for number in (1, 2, 3)]
        assert networks == ["10.128.0.0/24", "10.128.1.0/24", "10.128.2.0/24"]

    def test_lease_is_renewed_every_ten_seconds(self, site):
        owner = lease(site)["metadata"]["ownerReferences"][0]
        assert (owner["kind"], owner["name"], owner["uid"]) == (
            "Node",
            "node-1",
            site.node()["metadata"]["uid"],
        )
        site.advance(25)
        assert lease(site)["spec"] == {
            "holderIdentity": "node-1",
            "leaseDurationSeconds": 40,
            "renewTime": "2026-01-01T00:00:20.000000Z",
        }

    def test_status_is_written_every_five_minutes(self, site):
        site.advance(299)
        assert condition(site.node(), "Ready")["lastHeartbeatTime"] == "2026-01-01T00:00:00Z"
        site.advance(2)
        ready = condition(site.node(), "Ready")
        assert (ready["lastHeartbeatTime"], ready["lastTransitionTime"]) == (
            "2026-01-01T00:05:00Z",
            "2026-01-01T00:00:00Z",
        )

    def test_status_is_not_written_in_between(self, site):
        before = site.node()["metadata"]["resourceVersion"]
        site.advance(299)
        assert site.node()["metadata"]["resourceVersion"] == before

    def test_changed_status_is_written_sooner(self, site):
        site.create()
        site.advance(11)
        assert [image["names"] for image in site.node()["status"]["images"]] == [
            ["docker.io/library/app:1"]
        ]

    def test_foreign_ready_condition_is_overwritten(self, site):
        node = site.node()
        conditions = [{**one, "status": "Unknown"} for one in node["status"]["conditions"]]
        site.call(
            site.api.update(
                NODES,
                {**node, "status": {**node["status"], "conditions": conditions}},
                subresource="status",
            )
        )
        site.advance(10)
        assert is_true(site.node(), "Ready")

    def test_deleted_lease_is_recreated(self, site):
        site.call(site.api.delete(LEASES, "node-1", LEASE))
        site.advance(20)
        assert lease(site)["spec"]["renewTime"] == "2026-01-01T00:00:20.000000Z"

    def test_heartbeats_run_in_background(self, site):
        assert not site.runner.until(lambda: False, 3600)
        assert lease(site)["spec"]["renewTime"] == "2026-01-01T01:00:00.000000Z"


class TestAdoption:
    def test_created_node_receives_machine(self, site):
        make_node(site, "mine", spec={"podCIDR": "10.9.0.0/24"})
        site.advance(0)
        assert is_true(site.node("mine"), "Ready")
        assert site.node("mine")["metadata"]["labels"]["kubernetes.io/hostname"] == "mine"
        site.create(node="mine")
        site.advance(2)
        assert site.status()["podIP"] == "10.9.0.1"

    def test_node_fields_are_kept(self, site):
        make_node(
            site,
            "small",
            status={
                "allocatable": {"cpu": "2", "pods": "1"},
                "capacity": {"cpu": "4", "pods": "1"},
            },
        )
        site.advance(0)
        status = site.node("small")["status"]
        assert (status["allocatable"], status["capacity"]) == (
            {"cpu": "2", "pods": "1"},
            {"cpu": "4", "pods": "1"},
        )

    def test_pods_that_were_bound_before_start(self, site):
        site.create(node="late")
        site.advance(5)
        make_node(site, "late")
        assert site.until(lambda: site.status()["phase"] == "Running") == 6.5

    def test_machine_is_removed_with_node(self, site):
        site.create()
        site.advance(2)
        site.call(site.api.delete(NODES, "node-1"))
        renewed = lease(site)["spec"]["renewTime"]
        site.advance(30)
        assert "node-1" not in site.machines
        assert lease(site)["spec"]["renewTime"] == renewed
        assert not any(
            node["metadata"]["name"] == "node-1" for node in site.call(site.api.list(NODES)).items
        )

    def test_machine_returns_with_recreated_node(self, site):
        before = site.machines["node-1"].machine_id
        site.call(site.api.delete(NODES, "node-1"))
        site.advance(1)
        make_node(site, "node-1")
        site.advance(15)
        assert is_true(site.node(), "Ready")
        assert site.machines["node-1"].machine_id != before
        assert lease(site)["spec"]["renewTime"] == "2026-01-01T00:00:11.000000Z"


class TestPower:
    def test_powered_off_node_does_nothing(self, site):
        site.create(container={"image": "busybox", "command": ["sh", "-c", "sleep 10; exit 1"]})
        site.advance(5)
        before = site.pod()["metadata"]["resourceVersion"]
        site.machines.power_off("node-1")
        site.advance(60)
        assert site.pod()["metadata"]["resourceVersion"] == before
        assert lease(site)["spec"]["renewTime"] == "2026-01-01T00:00:00.000000Z"

    def test_pods_restart_after_power_on(self, site):
        site.create()
        site.advance(5)
        first = site.node()["status"]["nodeInfo"]["bootID"]
        site.power_off()
        site.advance(60)
        site.power_on()
        site.advance(5)
        container = site.container()
        assert site.status()["phase"] == "Running"
        assert container["restartCount"] == 1
        lost = container["lastState"]["terminated"]
        assert (lost["exitCode"], lost["reason"], lost["finishedAt"]) == (
            255,
            "Unknown",
            "2026-01-01T00:01:05Z",
        )
        assert site.status()["podIP"] == "10.128.0.2"
        assert site.node()["status"]["nodeInfo"]["bootID"] != first
        assert [reason for reason, _ in site.events("node-1")][-2:] == ["Starting", "Rebooted"]

    def test_never_restarted_pod_fails_after_power_on(self, site):
        site.create(restartPolicy="Never")
        site.advance(5)
        site.power_off()
        site.power_on()
        site.advance(5)
        assert site.status()["phase"] == "Failed"

    def test_finished_pod_is_kept_after_power_on(self, site):
        site.create(container={"image": "busybox", "command": ["true"]}, restartPolicy="Never")
        site.advance(5)
        before = site.pod()["metadata"]["resourceVersion"]
        site.power_off()
        site.power_on()
        site.advance(5)
        assert site.pod()["metadata"]["resourceVersion"] == before

    def test_deleted_pod_is_removed_after_power_on(self, site):
        site.create()
        site.advance(5)
        site.power_off()
        site.advance(1)
        site.delete()
        site.advance(60)
        assert site.exists()
        site.power_on()
        site.advance(1)
        assert not site.exists()

    def test_missing_machine_is_refused(self, site):
        with pytest.raises(KeyError, match="there is no machine 'nowhere'; there are node-1"):
            site.machines.power_off("nowhere")


class TestReach:
    def test_containers_run_while_disconnected(self, site):
        site.create(
            container={"image": "busybox", "command": ["sh", "-c", "sleep 10; exit 1"]},
            restartPolicy="Never",
        )
        site.advance(5)
        site.machines.cut_off("node-1")
        site.advance(60)
        assert site.status()["phase"] == "Running"
        assert lease(site)["spec"]["renewTime"] == "2026-01-01T00:00:00.000000Z"
        site.reconnect()
        site.advance(0)
        assert site.status()["phase"] == "Failed"
        assert site.container()["state"]["terminated"]["finishedAt"] == "2026-01-01T00:00:11Z"
        assert lease(site)["spec"]["renewTime"] == "2026-01-01T00:01:05.000000Z"

    def test_reconnected_node_catches_up(self, site):
        for name in ("stays", "goes", "forced"):
            site.create(name)
        site.advance(5)
        site.machines.cut_off("node-1")
        site.delete("goes")
        site.delete("forced", grace_period=0)
        site.create("new")
        site.advance(60)
        assert site.exists("goes")
        assert (site.pod("new").get("status") or {}).get("phase") != "Running"
        site.reconnect()
        site.advance(2)
        assert [site.exists(name) for name in ("stays", "goes", "forced")] == [True, False, False]
        assert site.status("new")["phase"] == "Running"
        assert site.container("stays")["restartCount"] == 0
        assert len(site.call(site.api.list(PODS)).items) == 2
