"""The CustomResourceDefinitions of Chaos Mesh: those that it ships, and those that our engine makes of its four.

They are data and what puts it together; nothing here knows of a cluster.
"""

from pytest_kscen.objects.chaos_definitions.cron_workflow import cron_workflow_definition
from pytest_kscen.objects.chaos_definitions.definitions import chaos_definitions, engine_definitions, shipped_definition

__all__ = ["chaos_definitions", "cron_workflow_definition", "engine_definitions", "shipped_definition"]
