"""Objects of a parent cluster: virtual machines, their pods, and the definitions of their
kinds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.embedded.controllers.ownership import reference_to
from pytest_kscen.models.cilium.definitions import POLICIES
from pytest_kscen.models.custom_resources import (
    AGE,
    ANYTHING,
    CONDITIONS,
    FLAG,
    IMMUTABLE_SPEC,
    NAME,
    QUANTITY,
    TEXT,
    TEXTS_BY_NAME,
    TIME,
    WHOLE,
    definition,
    listing,
    one_of,
    record,
)
from pytest_kscen.objects.virtualization import (
    PARENT_ROLE,
    ROLE_LABEL,
    VIRTUAL_MACHINE_OPERATIONS,
    VIRTUAL_MACHINES,
    VM_LABEL,
)

if TYPE_CHECKING:
    from pytest_kscen.objects.resources import Obj


IMAGE = "virt-launcher:v1"
CONTAINER = "compute"
RECEIVER_ANNOTATION = "kscen.io/receives-guest"  # on the target pod of a migration
GUEST_GRACE_PERIOD = 60  # default of seconds for a guest's shutdown
LAUNCHER_MARGIN = 15  # seconds that a launcher has beyond its guest
TAINT: Obj = {"key": ROLE_LABEL, "value": PARENT_ROLE, "effect": "NoSchedule"}


def virtual_machine(name: str, namespace: str, *, cores: int = 4, memory: str = "8Gi") -> Obj:
    return {
        "apiVersion": VIRTUAL_MACHINES.api_version,
        "kind": VIRTUAL_MACHINES.kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "virtualMachineClassName": "generic",
            "cpu": {"cores": cores},
            "memory": {"size": memory},
            "blockDeviceRefs": [{"kind": "VirtualDisk", "name": f"{name}-root"}],
        },
    }


def launcher(vm: Obj, suffix: str) -> Obj:
    """Return the pod that a machine starts in. Its grace period exceeds the guest's."""
    metadata, spec = vm["metadata"], vm["spec"]
    fraction = str(spec["cpu"].get("coreFraction", "100%")).rstrip("%")
    percent = int(fraction) if fraction.isdecimal() else 100
    requests = {
        "cpu": f"{spec['cpu']['cores'] * percent * 10}m",
        "memory": spec["memory"]["size"],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"virt-launcher-{metadata['name']}-{suffix}",
            "namespace": metadata["namespace"],
            "labels": {**(metadata.get("labels") or {}), VM_LABEL: metadata["name"]},
            "ownerReferences": [reference_to(vm, VIRTUAL_MACHINES)],
        },
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": spec.get(
                "terminationGracePeriodSeconds", GUEST_GRACE_PERIOD
            )
            + LAUNCHER_MARGIN,
            "nodeSelector": {**(spec.get("nodeSelector") or {}), ROLE_LABEL: PARENT_ROLE},
            "tolerations": [
                *(spec.get("tolerations") or ()),
                {
                    "key": ROLE_LABEL,
                    "operator": "Equal",
                    "value": PARENT_ROLE,
                    "effect": "NoSchedule",
                },
            ],
            "containers": [
                {"name": CONTAINER, "image": IMAGE, "resources": {"requests": requests}}
            ],
        },
    }


def receiver(vm: Obj, suffix: str, *, other_than: str, selector: Obj) -> Obj:
    """Return the pod that a running guest migrates to, on another node than `other_than`."""
    pod = launcher(vm, suffix)
    elsewhere = {"key": "kubernetes.io/hostname", "operator": "NotIn", "values": [other_than]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [elsewhere]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    return {
        **pod,
        "metadata": {**pod["metadata"], "annotations": {RECEIVER_ANNOTATION: "true"}},
        "spec": {
            **pod["spec"],
            "affinity": affinity,
            "nodeSelector": {**pod["spec"]["nodeSelector"], **selector},
        },
    }


# Definitions, as strict as the real ones for all fields in use. Fields without an effect on
# simulated machines are there, too, so that objects for a real parent are accepted.
MACHINE_PHASES = (
    "Pending", "Running", "Degraded", "Terminating", "Stopped", "Stopping", "Starting", "Migrating",
    "Pause",
)  # fmt: skip
SIZE = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
    r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)

_MACHINE_SPEC = record(
    {
        "runPolicy": one_of(
            "AlwaysOn",
            "AlwaysOff",
            "Manual",
            "AlwaysOnUnlessStoppedManually",
            default="AlwaysOnUnlessStoppedManually",
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
        "disruptions": record(
            {"restartApprovalMode": one_of("Manual", "Automatic")},
            default={"restartApprovalMode": "Manual"},
        ),
        "virtualMachineIPAddressName": NAME,
        "enableParavirtualization": {"type": "boolean", "default": True},
        "osType": one_of("Windows", "Generic", "Legacy", default="Generic"),
        "bootloader": one_of("BIOS", "EFI", "EFIWithSecureBoot", default="BIOS"),
        "liveMigrationPolicy": one_of(
            "AlwaysSafe", "PreferSafe", "AlwaysForced", "PreferForced", default="PreferSafe"
        ),
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
        "virtualMachinePods": listing(
            record({"name": TEXT, "active": FLAG}, required=("name", "active"))
        ),
        "resources": record(
            {
                "cpu": record({"cores": WHOLE, "coreFraction": TEXT}, required=("cores",)),
                "memory": record({"size": QUANTITY}, required=("size",)),
            }
        ),
        "stats": record(
            {
                "lastStartTime": TIME,
                "phasesTransitions": listing(
                    record({"phase": one_of(*MACHINE_PHASES), "timestamp": TIME})
                ),
            }
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
            {
                "mode": one_of("DryRun", "Strict", "BestEffort"),
                "customization": ANYTHING,
                "nameReplacement": listing(ANYTHING),
            },
            required=("mode",),
        ),
    },
    required=("type", "virtualMachineName"),
    rules=(
        IMMUTABLE_SPEC,
        ("self.type != 'Start' || !has(self.force) || !self.force", "Start has no force"),
        ("self.type != 'Restore' || has(self.restore)", "Restore needs the field restore"),
        ("self.type != 'Clone' || has(self.clone)", "Clone needs the field clone"),
        ("!has(self.migrate) || self.type == 'Migrate'", "the field migrate is for Migrate alone"),
    ),
)
_OPERATION_STATUS = record(
    {
        "phase": one_of(
            "Pending", "InProgress", "Completed", "Failed", "Terminating", "Superseded"
        ),
        "conditions": CONDITIONS,
        "progress": TEXT,
        "observedGeneration": {"type": "integer", "format": "int64"},
    }
)

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
    POLICIES,
)
