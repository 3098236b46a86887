"""Definition of CiliumNetworkPolicy, as far as policies decide about peers and ports."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.models.custom_resources import (
    AGE,
    ANYTHING,
    FLAG,
    TEXT,
    TEXTS_BY_NAME,
    definition,
    listing,
    one_of,
    record,
)
from pytest_kscen.objects.resources import CILIUM_NETWORK_POLICIES

if TYPE_CHECKING:
    from pytest_kscen.objects.resources import Obj

_EXPRESSION = record(
    {
        "key": TEXT,
        "operator": one_of("In", "NotIn", "Exists", "DoesNotExist"),
        "values": listing(TEXT),
    },
    required=("key", "operator"),
)
_SELECTOR = record({"matchLabels": TEXTS_BY_NAME, "matchExpressions": listing(_EXPRESSION)})
_ENTITY = one_of(
    "all", "world", "cluster", "cluster-mesh", "host", "init", "ingress", "unmanaged",
    "remote-node", "health", "none",
    "kube-apiserver",
)  # fmt: skip
_PORT = record(
    {
        "port": {
            "type": "string",
            "pattern": r"^([0-9]{1,5}|[a-zA-Z0-9]([-a-zA-Z0-9]*[a-zA-Z0-9])?)$",
        },
        "endPort": {"type": "integer", "format": "int32", "minimum": 0, "maximum": 65535},
        "protocol": one_of(
            "TCP", "UDP", "SCTP", "VRRP", "IGMP", "GRE", "IPIP", "IPV6", "ESP", "AH", "ANY"
        ),
    }
)
_ALLOWED_PORTS = record(
    {
        "ports": listing(_PORT, maxItems=40),
        "rules": ANYTHING,
        "serverNames": listing(TEXT),
        "listener": ANYTHING,
    }
)


def _peers(way: str, *, denies: bool) -> dict[str, Obj]:
    """Return the fields of a rule in one direction. The fields are ANDed, the entries of a list
    ORed.
    """
    fields = {
        f"{way}Endpoints": listing(_SELECTOR),
        f"{way}Entities": listing(_ENTITY),
        f"{way}CIDR": listing(TEXT),
        f"{way}CIDRSet": listing(ANYTHING),
        f"{way}Nodes": listing(_SELECTOR),
        f"{way}Groups": listing(ANYTHING),
        "toPorts": listing(record({"ports": listing(_PORT)}) if denies else _ALLOWED_PORTS),
        "icmps": listing(ANYTHING),
    }
    if way == "to":
        fields["toServices"] = listing(ANYTHING)
    if way == "to" and not denies:
        fields["toFQDNs"] = listing(ANYTHING)
    if not denies:
        fields["authentication"] = ANYTHING
    return fields


_DIRECTIONS = {
    "ingress": listing(record(_peers("from", denies=False))),
    "ingressDeny": listing(record(_peers("from", denies=True))),
    "egress": listing(record(_peers("to", denies=False))),
    "egressDeny": listing(record(_peers("to", denies=True))),
}
_POLICY = record(
    {
        "description": TEXT,
        "endpointSelector": _SELECTOR,
        "nodeSelector": _SELECTOR,
        "enableDefaultDeny": record({"ingress": FLAG, "egress": FLAG}),
        "labels": listing(ANYTHING),
        "log": ANYTHING,
        **_DIRECTIONS,
    },
    anyOf=[{"required": [direction]} for direction in _DIRECTIONS],
    oneOf=[{"required": ["endpointSelector"]}, {"required": ["nodeSelector"]}],
)
_POLICY_STATUS = record({"conditions": listing(ANYTHING), "derivativePolicies": ANYTHING})

POLICIES = definition(
    CILIUM_NETWORK_POLICIES,
    record(
        {"spec": _POLICY, "specs": listing(_POLICY), "status": _POLICY_STATUS},
        rules=(("has(self.spec) || has(self.specs)", "a policy needs spec or specs"),),
    ),
    short_names=("cnp", "ciliumnp"),
    categories=("cilium", "ciliumpolicy"),
    columns=(AGE, ("Valid", "string", ".status.conditions[?(@.type=='Valid')].status")),
)
