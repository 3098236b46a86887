"""DaemonSets: one pod on every node that it may run on. The scheduler places it, by an affinity to that one node."""

from pytest_kscen.simulation.workloads.daemonsets.controller import DaemonSets

__all__ = ["DaemonSets"]
