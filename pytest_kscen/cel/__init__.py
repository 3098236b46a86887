"""The Common Expression Language with Kubernetes' libraries, equivalent to cel-go.

`compile_expression` parses and checks; `Program.value` evaluates. Imports only `objects` (names,
quantities): it must not know Kubernetes objects, schemas or the API server.

Inside:
- `parsing` -> `syntax`: text to a tree, macros expanded. `errors`: all messages.
- `types`, `checking`: type of each node, and the overloads of each call.
- `program`: closures over the variables. `values`: equality, order and selection.
- `functions`: operators and libraries by signature.
- `re2`, `patterns`: Go's regular expressions, and matching in linear time.
"""

from pytest_kscen.cel.errors import CompilationError, EvaluationError
from pytest_kscen.cel.program import Program, compile_expression

__all__ = ["CompilationError", "EvaluationError", "Program", "compile_expression"]
