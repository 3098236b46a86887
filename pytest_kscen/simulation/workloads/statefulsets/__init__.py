"""StatefulSets: pods with names and volumes that stay, brought up and taken down in order. No volume is bound here."""

from pytest_kscen.simulation.workloads.statefulsets.controller import StatefulSets

__all__ = ["StatefulSets"]
