"""The Common Expression Language as Kubernetes speaks it.

It knows types and values, and no Kubernetes objects.
"""

from pytest_kscen.cel.errors import CompilationError, EvaluationError
from pytest_kscen.cel.program import Program, compile_expression

__all__ = ["CompilationError", "EvaluationError", "Program", "compile_expression"]
