"""Expressions of conditional branches, in the language that Chaos Mesh uses
(github.com/antonmedv/expr).

A text becomes tokens, a tree and a value. No code is run, and work and memory are limited. A text
that cannot be read or has no value raises ExpressionError; an unknown variable is an error, not
nil. Called by the engine, by probes and by validation; imports nothing else of `workflow`.
"""

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
"""Variables of a Task's branches, with their kinds."""


@dataclass(frozen=True, slots=True)
class Expression:
    """Parsed expression. It can be evaluated many times, each time with a new step budget; parsed
    expressions are cached by their text.
    """

    text: str
    tree: Node = field(repr=False)
    names: frozenset[str]
    """Variables that it refers to."""

    def evaluate(self, variables: Mapping[str, Any]) -> Any:
        try:
            return Evaluation(variables).value(self.tree)
        except PositionedError as error:
            raise error.within(self.text) from None

    def result(self, variables: Mapping[str, str]) -> str:
        """Return the kind of the value, given the kinds of the variables; empty if it depends on
        values.
        """
        return kind_of_result(self.tree, variables)


@functools.lru_cache(maxsize=4096)
def compile_expression(text: str) -> Expression:
    try:
        tree = parse(text)
    except PositionedError as error:
        raise error.within(text) from None
    return Expression(
        text, tree, frozenset(node.name for node, _ in walk(tree) if isinstance(node, Variable))
    )


def select(text: str, variables: Mapping[str, Any]) -> bool:
    """Return whether a branch is chosen; one without an expression always is."""
    if not text.strip():
        return True
    value = compile_expression(text).evaluate(variables)
    if not isinstance(value, bool):
        raise PositionedError(
            f"a branch needs a bool, and this is of kind {kind_of(value)}"
        ).within(text)
    return value


def expression_error(text: str, variables: Mapping[str, str] = TASK_VARIABLES) -> str:
    """Return the error of a branch's expression that no output of the Task can avoid, or an empty
    text.
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
    """Return why a readable expression has no result, or always the same one; empty if it
    varies.
    """
    try:
        expression = compile_expression(text)
    except ExpressionError:
        return ""
    why, at = kind_mismatch((node for node, _ in walk(expression.tree)), variables)
    if not why:
        why, at = constant_comparison(expression.tree, variables)
    return str(PositionedError(why, at).within(text)) if why else ""
