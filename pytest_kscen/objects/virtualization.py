"""Vocabulary of virtual machines: the parent cluster's objects under a nested cluster's nodes.

A node has the name of its machine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.objects.resources import Resource

if TYPE_CHECKING:
    from pytest_kscen.objects.resources import Obj

GROUP = "virtualization.deckhouse.io"
VERSION = "v1alpha2"
# label of a machine's pod, with the machine's name
VM_LABEL = "vm.kubevirt.internal.virtualization.deckhouse.io/name"

VIRTUAL_MACHINES = Resource(GROUP, VERSION, "virtualmachines", "VirtualMachine")
VIRTUAL_MACHINE_OPERATIONS = Resource(
    GROUP, VERSION, "virtualmachineoperations", "VirtualMachineOperation"
)

RUNNING, STOPPED = "Running", "Stopped"  # the phases of a machine that is on, and off
FINISHED = ("Completed", "Failed", "Superseded")  # the phases in which an operation is over

# label of a node and key of its taint, where one API server serves both clusters
ROLE_LABEL = "kscen.io/role"
PARENT_ROLE = "parent"


def phase_of(obj: Obj) -> str:
    return str((obj.get("status") or {}).get("phase") or "")
