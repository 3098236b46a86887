"""What is wrong with a Workflow or a Schedule, told before anything is done.

Nothing that acts, or asks a cluster, may enter.
"""

from pytest_kscen.workflow.validation.value_checks import ERROR, WARNING, ValidationIssue
from pytest_kscen.workflow.validation.workflows import is_workflow_or_schedule, validate

__all__ = ["ERROR", "WARNING", "ValidationIssue", "is_workflow_or_schedule", "validate"]
