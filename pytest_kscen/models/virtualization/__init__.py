"""Virtual machines of a parent cluster: their pods, their power, and the operations on them.

A machine's guest is a machine of the nested cluster, controlled by the methods of `Machines` alone;
nothing of a storage or of a test may be imported. Inside:

  objects     the objects and their definitions
  hypervisor  the guests, and the launcher that runs in a machine's pod
  machines    the controller of virtual machines; operations: the controller of operations
  assembly    the actors of a parent cluster, and the installation
"""
