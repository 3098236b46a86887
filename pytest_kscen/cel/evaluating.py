"""From a checked tree to closures over the variables. Logic is patient: what the other side decides, a mistake may not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kscen.cel.access import has, maybe, selected, unescaped
from pytest_kscen.cel.folding import FOLDS, over_optional, rounds_over
from pytest_kscen.cel.mistakes import EvaluationError, no_such_overload
from pytest_kscen.cel.syntax import Call, Fold, Ident, ListOf, Literal, MapOf, Node, Select
from pytest_kscen.cel.types import Type

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytest_kscen.cel.functions import Overload

    Variables = dict[str, Any]
    Evaluate = Callable[[Variables], Any]

CONVERSIONS = {"int", "uint", "double", "bool", "string", "bytes", "duration", "timestamp"}


class Compiler:
    """Makes the closures; `meanings` came out of the check."""

    def __init__(self, meanings: Mapping[int, tuple[Overload, ...]]) -> None:
        self._meanings = meanings

    def of(self, node: Node) -> Evaluate:
        return COMPILED[type(node)](self, node)

    def literal(self, node: Literal) -> Evaluate:
        return lambda _: node.value

    def ident(self, node: Ident) -> Evaluate:
        name = node.name

        def evaluate(variables: Variables) -> Any:
            if name in variables:
                return variables[name]
            return Type(name)

        return evaluate

    def select(self, node: Select) -> Evaluate:
        operand, name = self.of(node.operand), unescaped(node.field)
        if node.test:
            return lambda variables: has(operand(variables), name)
        if node.optional:
            return lambda variables: maybe(operand(variables), name)
        return lambda variables: selected(operand(variables), name)

    def call(self, node: Call) -> Evaluate:
        special = SPECIAL.get(node.function)
        overloads = self._meanings[id(node)]
        first = [node.target] if node.target is not None and overloads[0].is_method else []
        args = tuple(self.of(part) for part in (*first, *node.args))
        if special:
            return special(*args)
        run = overloads[0].run
        if any(overload.run is not run for overload in overloads):
            return _dispatched(overloads, args)
        if node.function in CONVERSIONS and type(node.args[0]) is Literal:
            run(node.args[0].value)  # what can never work is refused at once
        if len(args) == 2:  # noqa: PLR2004 - most operators
            one, other = args
            return lambda variables: run(one(variables), other(variables))
        return lambda variables: run(*(arg(variables) for arg in args))

    def list_of(self, node: ListOf) -> Evaluate:
        parts = [(self.of(part), place in node.optional) for place, part in enumerate(node.elements)]

        def evaluate(variables: Variables) -> Any:
            found = []
            for part, is_optional in parts:
                value = part(variables)
                if not is_optional:
                    found.append(value)
                elif value.there:
                    found.append(value.value)
            return found

        return evaluate

    def map_of(self, node: MapOf) -> Evaluate:
        parts = [(self.of(key), self.of(value), place in node.optional) for place, (key, value) in enumerate(node.entries)]

        def evaluate(variables: Variables) -> Any:
            found: dict[Any, Any] = {}
            for key, part, is_optional in parts:
                name, value = key(variables), part(variables)
                if name in found:
                    raise EvaluationError(f"Failed with repeated key: {name}")
                if not is_optional:
                    found[name] = value
                elif value.there:
                    found[name] = value.value
            return found

        return evaluate

    def fold(self, node: Fold) -> Evaluate:
        over, step = self.of(node.over), self.of(node.step)
        condition = self.of(node.condition) if node.condition is not None else None
        if node.macro in {"optMap", "optFlatMap"}:
            return over_optional(over, node.variables[0], step, wraps=node.macro == "optMap")
        folded = FOLDS[node.macro]
        names = node.variables

        def evaluate(variables: Variables) -> Any:
            inner = dict(variables)
            return folded(rounds_over(over(variables), names, inner), inner, step, condition)

        return evaluate


def _dispatched(overloads: tuple[Overload, ...], args: tuple[Evaluate, ...]) -> Evaluate:
    def evaluate(variables: Variables) -> Any:
        values = tuple(arg(variables) for arg in args)
        for overload in overloads:
            if overload.accepts(values):
                return overload.run(*values)
        raise no_such_overload()

    return evaluate


def _decided_by(decisive: bool) -> Callable[[Evaluate, Evaluate], Evaluate]:  # noqa: FBT001 - false for and, true for or
    def logic(one: Evaluate, other: Evaluate) -> Evaluate:
        def evaluate(variables: Variables) -> Any:
            try:
                first = one(variables)
            except EvaluationError:
                if other(variables) is decisive:
                    return decisive
                raise
            if first is decisive:
                return decisive
            second = other(variables)
            if second is decisive or (type(first) is bool and type(second) is bool):
                return bool(second)
            raise no_such_overload()

        return evaluate

    return logic


def _chosen(condition: Evaluate, one: Evaluate, other: Evaluate) -> Evaluate:
    def evaluate(variables: Variables) -> Any:
        holds = condition(variables)
        if type(holds) is not bool:
            raise no_such_overload()
        return one(variables) if holds else other(variables)

    return evaluate


SPECIAL: dict[str, Callable[..., Evaluate]] = {
    "_&&_": _decided_by(False),
    "_||_": _decided_by(True),
    "_?_:_": _chosen,
}
COMPILED: dict[type, Callable[[Compiler, Any], Evaluate]] = {
    Literal: Compiler.literal,
    Ident: Compiler.ident,
    Select: Compiler.select,
    Call: Compiler.call,
    ListOf: Compiler.list_of,
    MapOf: Compiler.map_of,
    Fold: Compiler.fold,
}
