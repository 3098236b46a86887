"""Disruption budgets: how many pods may be evicted right now. The eviction itself is the API server's."""

from pytest_kscen.simulation.disruption.controller import DisruptionBudgets

__all__ = ["DisruptionBudgets"]
