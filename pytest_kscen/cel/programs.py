"""An expression, once compiled: its type, the variables it uses, and its value for as many variables as come."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_kscen.cel.checking import Checker
from pytest_kscen.cel.evaluating import Compiler
from pytest_kscen.cel.mistakes import EvaluationError, Mistakes
from pytest_kscen.cel.parsing import tree_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytest_kscen.cel.syntax import Node
    from pytest_kscen.cel.types import Type


@dataclass(frozen=True, slots=True)
class Program:
    """Evaluate it with `value`."""

    type: Type
    uses: frozenset[str]
    tree: Node
    _evaluate: Callable[[dict[str, Any]], Any]

    def value(self, variables: Mapping[str, Any]) -> Any:
        try:
            return self._evaluate(dict(variables))
        except RecursionError:
            raise EvaluationError("expression is nested too deeply") from None


def compile_expression(source: str, variables: Mapping[str, Type]) -> Program:
    """Refuses with all that is wrong with it."""
    tree = tree_of(source)
    checker = Checker(variables)
    type_ = checker.type_of(tree)
    if checker.mistakes:
        raise Mistakes(source, checker.mistakes)
    return Program(type_, frozenset(checker.used), tree, Compiler(checker.meanings).of(tree))
