"""What a parent cluster must know: virtual machines, operations on them, and Cilium's policies, as strict as we use them.

Fields that simulated machines do not heed are there as well, so that what is written for a real parent is taken here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.objects.cilium import CILIUM_NETWORK_POLICIES
from pytest_kscen.objects.virtualization import VIRTUAL_MACHINE_OPERATIONS, VIRTUAL_MACHINES
from pytest_kscen.simulation.definitions import (
    AGE,
    ANYTHING,
    CONDITIONS,
    FLAG,
    NAME,
    SPEC_NEVER_CHANGES,
    TEXT,
    TEXTS_BY_NAME,
    TIME,
    WHOLE,
    definition,
    listing,
    one_of,
    record,
)

if TYPE_CHECKING:
    from pytest_kscen.objects.resources import Obj

MACHINE_PHASES = (
    "Pending", "Running", "Degraded", "Terminating", "Stopped", "Stopping", "Starting", "Migrating", "Pause",
)  # fmt: skip
SIZE = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"

_MACHINE_SPEC = record(
    {
        "runPolicy": one_of(
            "AlwaysOn", "AlwaysOff", "Manual", "AlwaysOnUnlessStoppedManually", default="AlwaysOnUnlessStoppedManually"
        ),
        "virtualMachineClassName": NAME,
        "cpu": record(
            {
                "cores": {"type": "integer", "format": "int32", "minimum": 1},
                "coreFraction": {"type": "string", "pattern": "^(Auto|(100|[1-9][0-9]?)%)$"},
            },
            required=("cores",),
        ),
        "memory": record({"size": {"type": "string", "pattern": SIZE}}, required=("size",)),
        "blockDeviceRefs": listing(
            record(
                {
                    "kind": one_of("ClusterVirtualImage", "VirtualImage", "VirtualDisk"),
                    "name": NAME,
                    "bootOrder": {"type": "integer", "minimum": 1},
                }
            ),
            minItems=1,
            maxItems=16,
        ),
        "terminationGracePeriodSeconds": {"type": "integer", "format": "int64", "default": 60},
        "nodeSelector": TEXTS_BY_NAME,
        "tolerations": listing(ANYTHING),
        "affinity": ANYTHING,
        "topologySpreadConstraints": listing(ANYTHING),
        "priorityClassName": NAME,
        "provisioning": ANYTHING,
        "disruptions": record({"restartApprovalMode": one_of("Manual", "Automatic")}, default={"restartApprovalMode": "Manual"}),
        "virtualMachineIPAddressName": NAME,
        "enableParavirtualization": {"type": "boolean", "default": True},
        "osType": one_of("Windows", "Generic", "Legacy", default="Generic"),
        "bootloader": one_of("BIOS", "EFI", "EFIWithSecureBoot", default="BIOS"),
        "liveMigrationPolicy": one_of("AlwaysSafe", "PreferSafe", "AlwaysForced", "PreferForced", default="PreferSafe"),
        "networks": listing(ANYTHING),
        "usbDevices": listing(ANYTHING, maxItems=8),
        "gpus": listing(ANYTHING, maxItems=16),
    },
    required=("virtualMachineClassName", "cpu", "memory", "blockDeviceRefs"),
)
_MACHINE_STATUS = record(
    {
        "phase": one_of(*MACHINE_PHASES),
        "nodeName": TEXT,
        "ipAddress": TEXT,
        "guestOSInfo": ANYTHING,
        "conditions": CONDITIONS,
        "observedGeneration": {"type": "integer", "format": "int64"},
        "virtualMachinePods": listing(record({"name": TEXT, "active": FLAG}, required=("name", "active"))),
        "resources": record(
            {
                "cpu": record({"cores": WHOLE, "coreFraction": TEXT}, required=("cores",)),
                "memory": record({"size": TEXT}, required=("size",)),
            }
        ),
        "stats": record(
            {"lastStartTime": TIME, "phasesTransitions": listing(record({"phase": one_of(*MACHINE_PHASES), "timestamp": TIME}))}
        ),
    }
)
_OPERATION_SPEC = record(
    {
        "type": one_of("Restart", "Start", "Stop", "Migrate", "Evict", "Restore", "Clone"),
        "virtualMachineName": NAME,
        "force": FLAG,
        "migrate": record({"nodeSelector": TEXTS_BY_NAME}),
        "restore": record(
            {"mode": one_of("DryRun", "Strict", "BestEffort"), "virtualMachineSnapshotName": NAME},
            required=("mode", "virtualMachineSnapshotName"),
        ),
        "clone": record(
            {"mode": one_of("DryRun", "Strict", "BestEffort"), "customization": ANYTHING, "nameReplacement": listing(ANYTHING)},
            required=("mode",),
        ),
    },
    required=("type", "virtualMachineName"),
    rules=(
        SPEC_NEVER_CHANGES,
        ("self.type != 'Start' || !has(self.force) || !self.force", "Start has no force"),
        ("self.type != 'Restore' || has(self.restore)", "Restore needs the field restore"),
        ("self.type != 'Clone' || has(self.clone)", "Clone needs the field clone"),
        ("!has(self.migrate) || self.type == 'Migrate'", "the field migrate is for Migrate alone"),
    ),
)
_OPERATION_STATUS = record(
    {
        "phase": one_of("Pending", "InProgress", "Completed", "Failed", "Terminating", "Superseded"),
        "conditions": CONDITIONS,
        "progress": TEXT,
        "observedGeneration": {"type": "integer", "format": "int64"},
    }
)

_EXPRESSION = record(
    {"key": TEXT, "operator": one_of("In", "NotIn", "Exists", "DoesNotExist"), "values": listing(TEXT)},
    required=("key", "operator"),
)
_SELECTOR = record({"matchLabels": TEXTS_BY_NAME, "matchExpressions": listing(_EXPRESSION)})
_ENTITY = one_of(
    "all", "world", "cluster", "cluster-mesh", "host", "init", "ingress", "unmanaged", "remote-node", "health", "none",
    "kube-apiserver",
)  # fmt: skip
_PORT = record(
    {
        "port": {"type": "string", "pattern": r"^([0-9]{1,5}|[a-zA-Z0-9]([-a-zA-Z0-9]*[a-zA-Z0-9])?)$"},
        "endPort": {"type": "integer", "format": "int32", "minimum": 0, "maximum": 65535},
        "protocol": one_of("TCP", "UDP", "SCTP", "VRRP", "IGMP", "GRE", "IPIP", "IPV6", "ESP", "AH", "ANY"),
    }
)
_ALLOWED_PORTS = record(
    {"ports": listing(_PORT, maxItems=40), "rules": ANYTHING, "serverNames": listing(TEXT), "listener": ANYTHING}
)


def _peers(way: str, *, denies: bool) -> dict[str, Obj]:
    """One direction's rule: whom it is about, and which ports; the fields are AND-ed, their lists OR-ed."""
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

DEFINITIONS = (
    definition(
        VIRTUAL_MACHINES,
        record({"spec": _MACHINE_SPEC, "status": _MACHINE_STATUS}, required=("spec",)),
        short_names=("vm",),
        categories=("all", "virtualization"),
        columns=(
            ("Phase", "string", ".status.phase"),
            ("Uptime", "date", ".status.stats.lastStartTime"),
            ("Node", "string", ".status.nodeName"),
            ("IPAddress", "string", ".status.ipAddress"),
            AGE,
        ),
    ),
    definition(
        VIRTUAL_MACHINE_OPERATIONS,
        record({"spec": _OPERATION_SPEC, "status": _OPERATION_STATUS}, required=("spec",)),
        short_names=("vmop",),
        categories=("virtualization",),
        columns=(
            ("Phase", "string", ".status.phase"),
            ("Progress", "string", ".status.progress"),
            ("Type", "string", ".spec.type"),
            ("VirtualMachine", "string", ".spec.virtualMachineName"),
            AGE,
        ),
    ),
    definition(
        CILIUM_NETWORK_POLICIES,
        record(
            {"spec": _POLICY, "specs": listing(_POLICY), "status": _POLICY_STATUS},
            rules=(("has(self.spec) || has(self.specs)", "a policy needs spec or specs"),),
        ),
        short_names=("cnp", "ciliumnp"),
        categories=("cilium", "ciliumpolicy"),
        columns=(AGE, ("Valid", "string", ".status.conditions[?(@.type=='Valid')].status")),
    ),
)
