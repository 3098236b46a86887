"""How long things take around a guest, in seconds of cluster time."""

from __future__ import annotations

START = 10.0  # the launcher makes a domain of the definition and starts it
BOOT = (60.0, 75.0)  # firmware, kernel and services, until the guest's kubelet speaks
SHUTDOWN = (8.0, 20.0)  # a guest that was asked to, and stops its services one by one
LOCKED = 1.0  # until a launcher looks again at disks that another one holds
TEAR_DOWN = 5.0  # the launcher puts away what it held for a domain that has ended
PREPARE = 3.0  # the receiving launcher gets ready for a guest that runs elsewhere
TRANSFER = (15.0, 40.0)  # its memory goes over while it runs
