"""The virtual machines under a nested cluster's nodes, as the parent cluster names them.

A node's name is its machine's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.objects.resources import Resource

if TYPE_CHECKING:
    from pytest_kscen.objects.resources import Obj

GROUP = "virtualization.deckhouse.io"
VERSION = "v1alpha2"
# on a machine's pod: the machine's name
VM_LABEL = "vm.kubevirt.internal.virtualization.deckhouse.io/name"

VIRTUAL_MACHINES = Resource(GROUP, VERSION, "virtualmachines", "VirtualMachine")
VIRTUAL_MACHINE_OPERATIONS = Resource(
    GROUP, VERSION, "virtualmachineoperations", "VirtualMachineOperation"
)

RUNNING, STOPPED = "Running", "Stopped"  # the phases of a machine that is on, and off
FINISHED = ("Completed", "Failed", "Superseded")  # the phases in which an operation is over

# on a node, and the key of its taint, where one API server stands for both clusters
ROLE_LABEL = "kscen.io/role"
PARENT_ROLE = "parent"


def phase_of(obj: Obj) -> str:
    """A machine's, or an operation's."""
    return str((obj.get("status") or {}).get("phase") or "")
