"""Validation of Workflows and Schedules, before anything runs.

Called by `files`, the admission webhook and the engine's manager. Must not call a cluster.

  workflows      a Workflow or Schedule as a whole, and the graph of its templates
  templates      one template, its Schedule and its probes
  chaos, chaos_fields, chaos_selectors   the spec of each kind of chaos, as Chaos Mesh has it
  value_checks   checks of single values, combined from small functions
  lenient_reading       reading of unvalidated objects
"""

from pytest_kscen.workflow.validation.value_checks import ERROR, WARNING, ValidationIssue
from pytest_kscen.workflow.validation.workflows import is_workflow_or_schedule, validate

__all__ = ["ERROR", "WARNING", "ValidationIssue", "is_workflow_or_schedule", "validate"]
