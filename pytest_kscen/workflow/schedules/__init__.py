"""Schedules, and CronWorkflows: chaos and workflows that are spawned at appointed times."""

from pytest_kscen.workflow.schedules.controller import Schedules

__all__ = ["Schedules"]
