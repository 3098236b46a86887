"""The CiliumNetworkPolicies that cut machines off from each other and leave everything else as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.objects.cilium import CILIUM_NETWORK_POLICIES, POD_NAMESPACE
from pytest_kscen.objects.virtualization import VM_LABEL

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_kscen.objects.resources import Obj

ALL_TCP: Obj = {"port": "1", "endPort": 65535, "protocol": "TCP"}
BYSTANDERS = ["host", "remote-node", "cluster", "world"]  # the parent, its DNS and everybody outside stay within reach


def cut(
    name: str,
    namespace: str,
    side_a: Sequence[str],
    side_b: Sequence[str],
    *,
    ports: tuple[Sequence[int], Sequence[int]] = ((), ()),
    labels: Mapping[str, str],
) -> Obj:
    """Denies TCP across the two sides, both ways; within a side everybody still reaches everybody.

    Of ports, what goes to either side's own is denied; no ports are all. Any rule turns default-deny on for the machines of
    side A: hence the rules that allow everything else.
    """
    peers = {"matchLabels": {POD_NAMESPACE: namespace}}
    to_a, to_b = map(_ports, ports)
    return {
        "apiVersion": CILIUM_NETWORK_POLICIES.api_version,
        "kind": CILIUM_NETWORK_POLICIES.kind,
        "metadata": {"name": name, "namespace": namespace, "labels": dict(labels)},
        "spec": {
            "endpointSelector": _machines(side_a),
            "ingress": [{"fromEntities": BYSTANDERS}, {"fromEndpoints": [peers]}],
            "egress": [{"toEntities": BYSTANDERS}, {"toEndpoints": [peers]}],
            "ingressDeny": [{"fromEndpoints": [_machines(side_b)], "toPorts": to_a}],
            "egressDeny": [{"toEndpoints": [_machines(side_b)], "toPorts": to_b}],
        },
    }


def _ports(numbers: Sequence[int]) -> list[Obj]:
    return [{"ports": [{"port": str(port), "protocol": "TCP"} for port in numbers] or [ALL_TCP]}]


def _machines(names: Sequence[str]) -> Obj:
    return {"matchExpressions": [{"key": VM_LABEL, "operator": "In", "values": list(names)}]}
