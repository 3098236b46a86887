"""Evaluate an expression's tree with a step limit, and derive kinds without evaluating it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kscen.objects.arguments import nearest
from pytest_kscen.workflow.expressions.parsing import (
    ArrayLiteral,
    Binary,
    BuiltinCall,
    ClosureElement,
    Condition,
    Constant,
    MapLiteral,
    Member,
    Node,
    Slice,
    Unary,
    Variable,
    walk,
)
from pytest_kscen.workflow.expressions.tokens import PositionedError
from pytest_kscen.workflow.expressions.values import (
    ARRAY,
    BOOL,
    FLOAT,
    INT,
    MAP,
    NIL,
    NUMBERS,
    STRING,
    StepBudget,
    binary,
    elements,
    kind_of,
    length,
    member,
    negated,
    sliced,
    truth,
    with_article,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


SHORT_CIRCUIT = {"or": True, "||": True, "and": False, "&&": False}
"""Value of the left side that decides, so that the right side is not evaluated."""


class Evaluation:
    """Evaluation of one tree with given variables and a fresh step budget."""

    def __init__(self, variables: Mapping[str, Any]) -> None:
        self._variables = variables
        self._budget = StepBudget()
        self._elements: list[Any] = []
        """Elements that the enclosing closures are applied to, the innermost last."""

    def value(self, node: Node) -> Any:
        self._budget.spend(1)
        try:
            return self._value(node)
        except PositionedError as error:
            if error.at is None:
                error.at = node.at
            raise

    def _value(self, node: Node) -> Any:
        match node:
            case Constant(value):
                return value
            case Variable(name):
                if name not in self._variables:
                    raise PositionedError(
                        f"there is no variable {name!r}{nearest(name, self._variables)}"
                    )
                kind_of(self._variables[name])  # raises for values that are not of this language
                return self._variables[name]
            case ClosureElement():
                return self._elements[-1]
            case Unary(sign, operand):
                return negated(sign, self.value(operand))
            case Binary(sign, left, right):
                value = self.value(left)
                if sign not in SHORT_CIRCUIT:
                    value = binary(sign, value, self.value(right), self._budget)
                elif truth(value, repr(sign)) != SHORT_CIRCUIT[sign]:
                    value = truth(self.value(right), repr(sign))
                return value
            case _:
                return self._composed(node)

    def _composed(
        self, node: Condition | ArrayLiteral | MapLiteral | Member | Slice | BuiltinCall
    ) -> Any:
        match node:
            case Condition(test, then, otherwise):
                return self.value(then if truth(self.value(test), "'?'") else otherwise)
            case ArrayLiteral(items):
                return [self.value(item) for item in items]
            case MapLiteral(pairs):
                result = {}
                for key, item in pairs:
                    name = self.value(key)
                    if not isinstance(name, str):
                        raise PositionedError(
                            f"a map's keys are strings, and this is of kind {kind_of(name)}",
                            key.at,
                        )
                    result[name] = self.value(item)
                return result
            case Member(of, key, safe):
                value = self.value(of)
                return None if value is None and safe else member(value, self.value(key))
            case Slice(of, first, last):
                return sliced(self.value(of), self._end(first), self._end(last), self._budget)
            case BuiltinCall():
                return self._call(node)

    def _end(self, node: Node | None) -> Any:
        return None if node is None else self.value(node)

    def _call(self, call: BuiltinCall) -> Any:
        over = self.value(call.over)
        if call.closure is None:
            return length(over)
        closure, builtin = call.closure, call.builtin
        over = elements(over, builtin)
        if builtin == "map":
            return [self._apply_closure(closure, each) for each in over]
        chosen = (
            each
            for each in over
            if truth(self._apply_closure(closure, each), f"the closure of {builtin!r}")
        )
        if builtin == "filter":
            return list(chosen)
        if builtin in {"any", "none"}:  # the first one settles it
            return any(True for _ in chosen) == (builtin == "any")
        if builtin == "all":
            return all(
                truth(self._apply_closure(closure, each), "the closure of 'all'") for each in over
            )
        count = sum(1 for _ in chosen)
        return count if builtin == "count" else count == 1

    def _apply_closure(self, closure: Node, element: Any) -> Any:
        self._elements.append(element)
        try:
            return self.value(closure)
        finally:
            self._elements.pop()


RESULTS = {
    **dict.fromkeys(
        ("or", "||", "and", "&&", "==", "!=", "<", ">", "<=", ">=", "in", "not in", "not", "!"),
        BOOL,
    ),
    **dict.fromkeys(
        ("matches", "contains", "startsWith", "endsWith", "all", "none", "any", "one"), BOOL
    ),
    **dict.fromkeys(("..", "filter", "map"), ARRAY),
    **dict.fromkeys(("/", "**"), FLOAT),
    **dict.fromkeys(("%", "len", "count"), INT),
}
SUMS = {
    frozenset({INT}): INT,
    frozenset({FLOAT}): FLOAT,
    frozenset({STRING}): STRING,
    frozenset({INT, FLOAT}): FLOAT,
}
"""Kind of a result of `+`, `-` or `*` by the kinds of its operands; others have no result."""
UNKNOWN = ""
EQUALITIES = ("==", "!=")
RESULT_IF_NEVER_EQUAL = {"==": False, "!=": True, "in": False, "not in": True}
"""Result of each comparison whose sides can never be equal."""
OPERAND_KINDS: dict[str, tuple[set[str], ...]] = {
    **dict.fromkeys(("<", ">", "<=", ">=", "+"), (set(NUMBERS), {STRING})),
    **dict.fromkeys(("-", "*", "/", "**"), (set(NUMBERS),)),
    "%": ({INT},),
    **dict.fromkeys(("matches", "contains", "startsWith", "endsWith"), ({STRING},)),
}
"""Sets of kinds of which both sides of an operator must be, for it to have a result."""


def kind_of_result(  # noqa: PLR0911  # one line for each type of node
    node: Node, variables: Mapping[str, str]
) -> str:
    """Return the kind of a node's value, from the kinds of the variables; empty if it depends on
    values.
    """
    match node:
        case Constant(value):
            return kind_of(value)
        case Variable(name):
            return variables.get(name, UNKNOWN)
        case Unary(sign, operand):
            return RESULTS.get(sign) or kind_of_result(operand, variables)
        case Binary(sign, left, right):
            kinds = {kind_of_result(left, variables), kind_of_result(right, variables)}
            return RESULTS.get(sign) or SUMS.get(frozenset(kinds), UNKNOWN)
        case Condition(_, then, otherwise):
            one, other = kind_of_result(then, variables), kind_of_result(otherwise, variables)
            return one if one == other else UNKNOWN
        case BuiltinCall(builtin):
            return RESULTS[builtin]
        case Slice(of):
            return kind_of_result(of, variables)
        case ArrayLiteral():
            return ARRAY
        case MapLiteral():
            return MAP
        case _:
            return UNKNOWN


def constant_comparison(tree: Node, variables: Mapping[str, str]) -> tuple[str, int]:
    """Return why a comparison always has the same result, and its position; or an empty text."""
    for node, _ in walk(tree):
        if isinstance(node, Binary) and node.operator in RESULT_IF_NEVER_EQUAL:
            left, right = (
                kind_of_result(node.left, variables),
                kind_of_result(node.right, variables),
            )
            if node.operator not in EQUALITIES:  # `in` compares with the elements
                items = node.right.items if isinstance(node.right, ArrayLiteral) else ()
                kinds = {kind_of_result(item, variables) for item in items}
                right = kinds.pop() if len(kinds) == 1 else UNKNOWN
            if (
                not {left, right} & {UNKNOWN, NIL}
                and left != right
                and not {left, right} <= set(NUMBERS)
            ):
                # Suggest a number that was put in quotes.
                literals = [
                    each.value
                    for each in (node.left, node.right)
                    if isinstance(each, Constant) and isinstance(each.value, str)
                ]
                number = next((each for each in literals if each.isdecimal()), "")
                hint: str = (
                    f" (did you mean {number}, without quotes?)"
                    if number and {left, right} & set(NUMBERS)
                    else ""
                )
                always = str(RESULT_IF_NEVER_EQUAL[node.operator]).lower()
                return (
                    (
                        f"{with_article(left)} is never equal to {with_article(right)}, so "
                        f"this is always {always}{hint}"
                    ),
                    node.at,
                )
    return "", 0


def kind_mismatch(nodes: Iterable[Node], variables: Mapping[str, str]) -> tuple[str, int]:
    """Return why an operator never has a result, by the kinds of its sides, and its position."""
    for node in nodes:
        if isinstance(node, Binary) and (fits := OPERAND_KINDS.get(node.operator)):
            left, right = (
                kind_of_result(node.left, variables),
                kind_of_result(node.right, variables),
            )
            if UNKNOWN not in (left, right) and not any({left, right} <= kinds for kinds in fits):
                return (
                    (
                        f"{node.operator!r} cannot take {with_article(left)} and "
                        f"{with_article(right)}: it has no result"
                    ),
                    node.at,
                )
    return "", 0
