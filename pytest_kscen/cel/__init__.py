"""The Common Expression Language as Kubernetes speaks it.

It knows types and values, and no Kubernetes objects.
"""

from pytest_kscen.cel.errors import EvaluationError, Mistakes
from pytest_kscen.cel.program import Program, compile_expression

__all__ = ["EvaluationError", "Mistakes", "Program", "compile_expression"]
