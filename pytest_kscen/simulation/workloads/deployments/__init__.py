"""Deployments: one ReplicaSet for each template, and pods moved from the old ones to the new one. No pod is made here."""

from pytest_kscen.simulation.workloads.deployments.controller import Deployments

__all__ = ["Deployments"]
