"""Network blocks: the policies they create and their removal."""

from __future__ import annotations

import asyncio

import pytest
from chaos_cluster import VMS, chaos_cluster

from pytest_kscen.chaos import manual_faults
from pytest_kscen.chaos.clients import FaultImpossible
from pytest_kscen.chaos.incidents import cause_incident
from pytest_kscen.chaos.network_blocks import NetworkCut
from pytest_kscen.objects.resources import CILIUM_NETWORK_POLICIES

LABEL = "vm.kubevirt.internal.virtualization.deckhouse.io/name"


def machines(*names):
    return {"matchExpressions": [{"key": LABEL, "operator": "In", "values": list(names)}]}


def tcp(port):
    return [{"ports": [{"port": port, "protocol": "TCP"}]}]


def policy_of(world, fault):
    incident = world.call(cause_incident(world.context, fault))
    (policy,) = world.call(world.api.list(CILIUM_NETWORK_POLICIES, VMS)).items
    return incident, policy


def test_all_traffic_between_two_machines_is_blocked():
    with chaos_cluster() as world:
        incident, policy = policy_of(world, manual_faults.network_block("node-1", "node-3"))

        assert policy["metadata"]["name"] == f"chaos-net-{incident.id}"
        assert policy["metadata"]["labels"] == {
            "chaos.megatest/type": "blocking-everything",
            "chaos.megatest/node-a": "node-1",
            "chaos.megatest/node-b": "node-3",
            "kscen.io/incident": incident.id,
            "kscen.io/run": "run-1",
        }
        all_tcp = [{"ports": [{"port": "1", "endPort": 65535, "protocol": "TCP"}]}]
        neighbours = {"matchLabels": {"io.kubernetes.pod.namespace": VMS}}
        bystanders = ["host", "remote-node", "cluster", "world"]
        assert policy["spec"] == {
            "endpointSelector": machines("node-1"),
            "ingress": [{"fromEntities": bystanders}, {"fromEndpoints": [neighbours]}],
            "egress": [{"toEntities": bystanders}, {"toEndpoints": [neighbours]}],
            "ingressDeny": [{"fromEndpoints": [machines("node-3")], "toPorts": all_tcp}],
            "egressDeny": [{"toEndpoints": [machines("node-3")], "toPorts": all_tcp}],
        }


def test_block_lasts_exactly_until_its_end():
    with chaos_cluster() as world:
        begun = world.journal.now
        incident, _ = policy_of(world, manual_faults.network_block("node-1", "node-3"))
        world.runner.advance(30)
        assert incident.is_on

        world.call(incident.end())

        assert world.names(CILIUM_NETWORK_POLICIES, VMS) == []
        assert (incident.started_at, incident.removed_at) == (begun, begun + 30)
        journal_records = world.journal_records("incident-started", "incident-ended")
        assert [(what, data["incident"]) for _, what, data in journal_records] == [
            ("incident-started", incident.id),
            ("incident-ended", incident.id),
        ]
        assert journal_records[0][2]["targets"] == {
            "nodes": ["node-1", "node-3"],
            "vms": ["node-1", "node-3"],
        }
        assert journal_records[1][2]["lasted"] == 30


class SlowToUndo(NetworkCut):
    """Cut whose removal takes ten seconds."""

    async def heal(self, incident):
        await incident.clients.nested.clock.sleep(10)
        await super().heal(incident)


def test_cancelled_caller_waits_until_the_block_is_undone():
    with chaos_cluster() as world:
        incident = world.call(
            cause_incident(
                world.context, SlowToUndo("blocking-everything", ("node-1",), ("node-3",))
            )
        )
        began = world.journal.now

        async def play():
            ending = world.runner.loop.create_task(incident.end())
            for _ in range(2):
                await world.runner.clock.sleep(3)
                ending.cancel()
            await asyncio.wait([ending])
            return ending.cancelled(), world.journal.now

        assert world.call(play()) == (True, began + 10)
        assert (incident.removed_at, world.names(CILIUM_NETWORK_POLICIES, VMS)) == (began + 10, [])


def test_two_groups_make_two_selectors():
    with chaos_cluster() as world:
        incident, policy = policy_of(
            world, manual_faults.split_brain(["node-1", "node-2"], ["node-3", "node-4"])
        )

        assert policy["spec"]["endpointSelector"] == machines("node-1", "node-2")
        assert policy["spec"]["ingressDeny"][0]["fromEndpoints"] == [machines("node-3", "node-4")]
        assert policy["spec"]["egressDeny"][0]["toEndpoints"] == [machines("node-3", "node-4")]
        assert policy["metadata"]["labels"] == {
            "chaos.megatest/type": "split-brain",
            "kscen.io/incident": incident.id,
            "kscen.io/run": "run-1",
        }
        assert incident.targets["group_b"] == ["node-3", "node-4"]


@pytest.mark.parametrize("newer", [False, True])
def test_single_link_is_blocked_by_both_listening_ports(newer):
    with chaos_cluster() as world:
        for number, (node, port) in enumerate(
            [("node-1", 7001), ("node-2", 7009), ("node-3", 7004)]
        ):
            if newer:
                world.replica(
                    "a",
                    number,
                    node,
                    addresses=[{"systemNetworkName": "Internal", "address": {"port": port}}],
                )
            else:
                world.replica("a", number, node, port=port)
        world.replica("b", 0, "node-2", port=7000)
        incident, policy = policy_of(world, manual_faults.drbd_block("node-1", "node-2", "a"))

        assert policy["spec"]["endpointSelector"] == machines("node-1")
        assert policy["spec"]["ingressDeny"] == [
            {"fromEndpoints": [machines("node-2")], "toPorts": tcp("7001")}
        ]
        assert policy["spec"]["egressDeny"] == [
            {"toEndpoints": [machines("node-2")], "toPorts": tcp("7009")}
        ]
        assert (incident.targets["volumes"], incident.targets["ports"]) == (["a"], ["7001", "7009"])


@pytest.mark.parametrize("ports", [[], [0], [True], [70000], ["80"], range(1, 42)])
def test_ports_must_be_numbers_within_the_limit(ports):
    with pytest.raises(ValueError, match="give 1 to 40 numbers from 1 to 65535"):
        manual_faults.network_block("node-1", "node-2", ports=ports)


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (
            manual_faults.network_block("node-1", "node-9"),
            "no virtual machine 'node-9'.*there are node-1, node-2, node-3, node-4",
        ),
        (
            manual_faults.drbd_block("node-1", "node-2", "a"),
            "'a' has no link between node-1 and node-2",
        ),
    ],
)
def test_invalid_block_is_refused_without_creating_anything(fault, words):
    with chaos_cluster() as world:
        with pytest.raises(FaultImpossible, match=words):
            world.call(cause_incident(world.context, fault))

        assert world.names(CILIUM_NETWORK_POLICIES, VMS) == []
        assert world.journal_records("incident-started") == []
