"""An expression's value: its tree is walked, and every step is counted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kscen.objects.guesses import nearest
from pytest_kscen.workflow.expressions.mistakes import Mistake
from pytest_kscen.workflow.expressions.syntax import (
    Array,
    Binary,
    Call,
    Condition,
    Literal,
    Member,
    Name,
    Node,
    Pairs,
    Pointer,
    Slice,
    Unary,
)
from pytest_kscen.workflow.expressions.values import Effort, binary, elements, kind_of, length, member, negated, sliced, truth

if TYPE_CHECKING:
    from collections.abc import Mapping

SETTLED = {"or": True, "||": True, "and": False, "&&": False}


class Evaluation:
    """One walk."""

    def __init__(self, variables: Mapping[str, Any]) -> None:
        self._variables = variables
        self._effort = Effort()
        self._elements: list[Any] = []
        """What the closures are asked about, the innermost last."""

    def value(self, node: Node) -> Any:
        self._effort.spend(1)
        try:
            return self._value(node)
        except Mistake as mistake:
            if mistake.at is None:
                mistake.at = node.at
            raise

    def _value(self, node: Node) -> Any:
        match node:
            case Literal(value):
                return value
            case Name(name):
                return self._variable(name)
            case Pointer():
                return self._elements[-1]
            case Unary(sign, operand):
                return negated(sign, self.value(operand))
            case Binary(sign, left, right):
                return self._binary(sign, left, right)
            case _:
                return self._composed(node)

    def _composed(self, node: Condition | Array | Pairs | Member | Slice | Call) -> Any:
        match node:
            case Condition(test, then, otherwise):
                return self.value(then if truth(self.value(test), "'?'") else otherwise)
            case Array(items):
                return [self.value(item) for item in items]
            case Pairs(pairs):
                return dict(self._pair(key, value) for key, value in pairs)
            case Member():
                return self._member(node)
            case Slice(of, first, last):
                return sliced(self.value(of), self._end(first), self._end(last), self._effort)
            case Call():
                return self._call(node)

    def _binary(self, sign: str, left: Node, right: Node) -> Any:
        value = self.value(left)
        if sign in SETTLED:  # by the left side alone, if it is this
            if truth(value, repr(sign)) == SETTLED[sign]:
                return value
            return truth(self.value(right), repr(sign))
        return binary(sign, value, self.value(right), self._effort)

    def _variable(self, name: str) -> Any:
        if name not in self._variables:
            raise Mistake(f"there is no variable {name!r}{nearest(name, self._variables)}")
        value = self._variables[name]
        kind_of(value)  # or it is none of ours
        return value

    def _pair(self, key: Node, value: Node) -> tuple[str, Any]:
        name = self.value(key)
        if not isinstance(name, str):
            raise Mistake(f"a map's keys are strings, and this is of kind {kind_of(name)}", key.at)
        return name, self.value(value)

    def _member(self, node: Member) -> Any:
        of = self.value(node.of)
        if of is None and node.safe:
            return None
        return member(of, self.value(node.key))

    def _end(self, node: Node | None) -> Any:
        return None if node is None else self.value(node)

    # --- builtins ---

    def _call(self, call: Call) -> Any:
        over = self.value(call.over)
        if call.closure is None:
            return length(over)
        closure, builtin = call.closure, call.builtin
        over = elements(over, builtin)
        if builtin == "map":
            return [self._asked(closure, each) for each in over]
        chosen = (each for each in over if truth(self._asked(closure, each), f"the closure of {builtin!r}"))
        if builtin == "filter":
            return list(chosen)
        if builtin in {"any", "none"}:  # the first one settles it
            return any(True for _ in chosen) == (builtin == "any")
        if builtin == "all":
            return all(truth(self._asked(closure, each), "the closure of 'all'") for each in over)
        count = sum(1 for _ in chosen)
        return count if builtin == "count" else count == 1

    def _asked(self, closure: Node, element: Any) -> Any:
        self._elements.append(element)
        try:
            return self.value(closure)
        finally:
            self._elements.pop()
