"""How Kubernetes shows a value that its own program holds in another form than the API: by Go's names, and nothing left out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from pytest_kscen.objects.resources import Obj

Struct: TypeAlias = dict[str, Any]
"""Go's names in Go's order, and what a field holds when it is not set."""

API_NAMES = {"APIGroup": "apiGroup", "APIVersion": "apiVersion", "CIDRs": "cidrs", "IP": "ip", "NodeID": "nodeID", "UID": "uid"}
ADDRESS: Struct = {"Type": "", "Address": ""}
BUDGET: Struct = {"MinAvailable": None, "Selector": None, "MaxUnavailable": None, "UnhealthyPodEvictionPolicy": None}
CLAIM: Struct = {"Name": "", "ResourceClaimName": None, "ResourceClaimTemplateName": None}
DEVICE_DRIVER: Struct = {"Name": "", "NodeID": "", "TopologyKeys": None, "Allocatable": None}
DISTINGUISHER: Struct = {"Type": ""}
PARENT: Struct = {"Group": "", "Resource": "", "Namespace": "", "Name": ""}
PARTITION: Struct = {"Partition": 0, "MaxUnavailable": None}
POD_IP: Struct = {"IP": ""}
PROFILE: Struct = {"Type": "", "LocalhostProfile": None}
RANGES: Struct = {"CIDRs": None}
REFERENCE: Struct = {
    "Kind": "",
    "Namespace": "",
    "Name": "",
    "UID": "",
    "APIVersion": "",
    "ResourceVersion": "",
    "FieldPath": "",
}
ROLE: Struct = {"APIGroup": "", "Kind": "", "Name": ""}
ROLLING: Struct = {"MaxUnavailable": 0, "MaxSurge": 0}
STRATEGY: Struct = {"Type": "", "RollingUpdate": None}
TAINT: Struct = {"Key": "", "Value": "", "Effect": "", "TimeAdded": None}
TOLERATION: Struct = {"Key": "", "Operator": "", "Value": "", "Effect": "", "TolerationSeconds": None}
UNCOUNTED: Struct = {"Succeeded": None, "Failed": None}


def internal(struct: Struct, given: Obj) -> Obj:
    return {name: given.get(API_NAMES.get(name, name[0].lower() + name[1:]), unset) for name, unset in struct.items()}


def strategy(rolling: Struct, given: Obj) -> Obj:
    """How a workload gets from old to new."""
    shown = internal(STRATEGY, given)
    if "rollingUpdate" in given:
        shown["RollingUpdate"] = internal(rolling, given["rollingUpdate"])
    return shown
