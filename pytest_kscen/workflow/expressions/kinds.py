"""What can be told of an expression's result before it is evaluated: its kind, where that does not hang on the variables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.workflow.expressions.syntax import (
    Array,
    Binary,
    Call,
    Condition,
    Literal,
    Name,
    Node,
    Pairs,
    Slice,
    Unary,
)
from pytest_kscen.workflow.expressions.values import ARRAY, BOOL, FLOAT, INT, MAP, STRING, kind_of

if TYPE_CHECKING:
    from collections.abc import Mapping

RESULTS = {
    **dict.fromkeys(("or", "||", "and", "&&", "==", "!=", "<", ">", "<=", ">=", "in", "not in", "not", "!"), BOOL),
    **dict.fromkeys(("matches", "contains", "startsWith", "endsWith", "all", "none", "any", "one"), BOOL),
    **dict.fromkeys(("..", "filter", "map"), ARRAY),
    **dict.fromkeys(("/", "**"), FLOAT),
    **dict.fromkeys(("%", "len", "count"), INT),
}
UNKNOWN = ""


def result_of(node: Node, variables: Mapping[str, str]) -> str:  # noqa: PLR0911 — a line for each sort of node
    """A kind, given those of the variables; empty if it may be one or the other."""
    match node:
        case Literal(value):
            return kind_of(value)
        case Name(name):
            return variables.get(name, UNKNOWN)
        case Unary(sign, operand):
            return RESULTS.get(sign) or result_of(operand, variables)
        case Binary(sign, left, right):
            return RESULTS.get(sign) or _sum(result_of(left, variables), result_of(right, variables))
        case Condition(_, then, otherwise):
            one, other = result_of(then, variables), result_of(otherwise, variables)
            return one if one == other else UNKNOWN
        case Call(builtin):
            return RESULTS[builtin]
        case Slice(of):
            return result_of(of, variables)
        case Array():
            return ARRAY
        case Pairs():
            return MAP
        case _:
            return UNKNOWN


def _sum(left: str, right: str) -> str:
    """Of `+`, `-` and `*`; what does not fit together fails, and has no kind."""
    if left == right and left in {INT, FLOAT, STRING}:
        return left
    return FLOAT if {left, right} == {INT, FLOAT} else UNKNOWN
