"""The virtual machines under a nested cluster's nodes, as the parent cluster names them. A node's name is its machine's."""

from __future__ import annotations

from pytest_kscen.objects.resources import Resource

GROUP = "virtualization.deckhouse.io"
VERSION = "v1alpha2"
VM_LABEL = "vm.kubevirt.internal.virtualization.deckhouse.io/name"  # on a machine's pod: the machine's name

VIRTUAL_MACHINES = Resource(GROUP, VERSION, "virtualmachines", "VirtualMachine")
VIRTUAL_MACHINE_OPERATIONS = Resource(GROUP, VERSION, "virtualmachineoperations", "VirtualMachineOperation")

FINISHED = ("Completed", "Failed", "Superseded")  # the phases in which an operation is over

ROLE_LABEL = "kscen.io/role"  # on a node, and the key of its taint, where one API server stands for both clusters
PARENT_ROLE = "parent"
