"""The objects that a parent cluster is made of: its virtual machines, and the pods that they run in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.objects.virtualization import PARENT_ROLE, ROLE_LABEL, VIRTUAL_MACHINES, VM_LABEL
from pytest_kscen.simulation.workloads.owners import reference_to

if TYPE_CHECKING:
    from pytest_kscen.objects.resources import Obj

IMAGE = "virt-launcher:v1"
CONTAINER = "compute"
RECEIVES = "kscen.io/receives-guest"  # an annotation: this launcher is the target of a migration
GRACE = 60  # seconds that a guest has for its shutdown, unless its machine says otherwise
MARGIN = 15  # seconds that its launcher has beyond that
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
    """The pod that the machine starts in."""
    metadata, spec = vm["metadata"], vm["spec"]
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
            "terminationGracePeriodSeconds": spec.get("terminationGracePeriodSeconds", GRACE) + MARGIN,
            "nodeSelector": {**(spec.get("nodeSelector") or {}), ROLE_LABEL: PARENT_ROLE},
            "tolerations": [
                *(spec.get("tolerations") or ()),
                {"key": ROLE_LABEL, "operator": "Equal", "value": PARENT_ROLE, "effect": "NoSchedule"},
            ],
            "containers": [{"name": CONTAINER, "image": IMAGE, "resources": {"requests": _requests(spec)}}],
        },
    }


def receiver(vm: Obj, suffix: str, *, other_than: str, selector: Obj) -> Obj:
    """The pod that a running guest moves to, on another node than this."""
    pod = launcher(vm, suffix)
    elsewhere = {"key": "kubernetes.io/hostname", "operator": "NotIn", "values": [other_than]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [elsewhere]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    return {
        **pod,
        "metadata": {**pod["metadata"], "annotations": {RECEIVES: "true"}},
        "spec": {**pod["spec"], "affinity": affinity, "nodeSelector": {**pod["spec"]["nodeSelector"], **selector}},
    }


def _requests(spec: Obj) -> Obj:
    fraction = str(spec["cpu"].get("coreFraction", "100%")).rstrip("%")
    percent = int(fraction) if fraction.isdecimal() else 100
    return {"cpu": f"{spec['cpu']['cores'] * percent * 10}m", "memory": spec["memory"]["size"]}
