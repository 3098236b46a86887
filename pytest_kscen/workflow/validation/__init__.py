"""What is wrong with a Workflow or a Schedule, told before anything is done.

Nothing that acts, or asks a cluster, may enter.
"""

from pytest_kscen.workflow.validation.value_checks import ERROR, WARNING, Fault
from pytest_kscen.workflow.validation.workflows import faults_of, is_known

__all__ = ["ERROR", "WARNING", "Fault", "faults_of", "is_known"]
