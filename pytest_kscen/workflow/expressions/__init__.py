"""The expressions of conditional branches, as users of Chaos Mesh know them
(github.com/antonmedv/expr).

A text becomes tokens, a tree and a value; it runs no code, and takes no more than a fixed amount of
work and memory. What cannot be read or has no value is an ExpressionError: an unknown variable is
one, and not nil."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pytest_kscen.objects.arguments import nearest
from pytest_kscen.workflow.expressions.evaluation import (
    Evaluation,
    constant_comparison,
    kind_mismatch,
    kind_of_result,
)
from pytest_kscen.workflow.expressions.parsing import Variable, always_evaluated, parse, walk
from pytest_kscen.workflow.expressions.tokens import ExpressionError, PositionedError
from pytest_kscen.workflow.expressions.values import BOOL, INT, STRING, kind_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_kscen.workflow.expressions.parsing import Node

__all__ = [
    "TASK_VARIABLES",
    "Expression",
    "ExpressionError",
    "compile_expression",
    "expression_error",
    "expression_warning",
    "select",
]

TASK_VARIABLES = {"exitCode": INT, "stdout": STRING}
"""What a Task's branches may ask about, and its kinds."""


@dataclass(frozen=True, slots=True)
class Expression:
    """One that could be read."""

    text: str
    tree: Node = field(repr=False)
    names: frozenset[str]
    """The variables that it asks for."""

    def evaluate(self, variables: Mapping[str, Any]) -> Any:
        try:
            return Evaluation(variables).value(self.tree)
        except PositionedError as mistake:
            raise mistake.within(self.text) from None

    def result(self, variables: Mapping[str, str]) -> str:
        """The kind of the value, given those of the variables; empty where it cannot be told."""
        return kind_of_result(self.tree, variables)


@functools.lru_cache(maxsize=4096)
def compile_expression(text: str) -> Expression:
    try:
        tree = parse(text)
    except PositionedError as mistake:
        raise mistake.within(text) from None
    return Expression(
        text, tree, frozenset(node.name for node, _ in walk(tree) if isinstance(node, Variable))
    )


def select(text: str, variables: Mapping[str, Any]) -> bool:
    """Whether a branch is taken; one without an expression always is."""
    if not text.strip():
        return True
    value = compile_expression(text).evaluate(variables)
    if not isinstance(value, bool):
        raise PositionedError(
            f"a branch needs a bool, and this is of kind {kind_of(value)}"
        ).within(text)
    return value


def expression_error(text: str, variables: Mapping[str, str] = TASK_VARIABLES) -> str:
    """What is wrong with a branch's expression whatever the Task will say, given the kinds of
    the variables; or nothing.
    """
    if not text.strip():
        return ""
    try:
        expression = compile_expression(text)
    except ExpressionError as error:
        return str(error)
    for node, _ in walk(expression.tree):
        if isinstance(node, Variable) and node.name not in variables:
            why = f"there is no variable {node.name!r}{nearest(node.name, variables)}"
            return str(PositionedError(why, node.at).within(text))
    never, at = kind_mismatch(always_evaluated(expression.tree), variables)
    if never:
        return str(PositionedError(never, at).within(text))
    kind = expression.result(variables)
    return (
        ""
        if kind in {"", BOOL}
        else str(PositionedError(f"a branch needs a bool, and this is of kind {kind}").within(text))
    )


def expression_warning(text: str, variables: Mapping[str, str] = TASK_VARIABLES) -> str:
    """What in it, if it can be read, has no result or always the same, whatever the Task will
    say; or nothing.
    """
    try:
        expression = compile_expression(text)
    except ExpressionError:
        return ""
    why, at = kind_mismatch((node for node, _ in walk(expression.tree)), variables)
    if not why:
        why, at = constant_comparison(expression.tree, variables)
    return str(PositionedError(why, at).within(text)) if why else ""
