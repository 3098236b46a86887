"""Compiled expressions: closures over the variables, built from a checked tree.

`compile_expression` is the package's entry point. In `&&` and `||` an error of one side is ignored
if the other side decides.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_kscen.cel.checking import Checker
from pytest_kscen.cel.errors import CompilationError, EvaluationError, no_such_overload
from pytest_kscen.cel.parsing import parse
from pytest_kscen.cel.syntax import (
    CallExpr,
    ComprehensionExpr,
    Expr,
    IdentExpr,
    ListExpr,
    LiteralExpr,
    MapExpr,
    SelectExpr,
)
from pytest_kscen.cel.types import Type
from pytest_kscen.cel.values import (
    NONE,
    Optional,
    has,
    select_field,
    select_optional,
    unescape_field,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from pytest_kscen.cel.functions import Overload

    Variables = dict[str, Any]
    Evaluate = Callable[[Variables], Any]
    Rounds = Iterator[tuple[Any, Any]]
    Folded = Callable[[Rounds, Variables, Evaluate, Evaluate | None], Any]


# Comprehensions: the result of each macro from its iterations.


def map_optional(over: Evaluate, name: str, step: Evaluate, *, wraps: bool) -> Evaluate:
    def evaluate(variables: Variables) -> Any:
        held = over(variables)
        if not held.present:
            return NONE
        found = step({**variables, name: held.value})
        return Optional(found, present=True) if wraps else found

    return evaluate


def iterate(value: Any, names: tuple[str, ...], inner: Variables) -> Iterator[tuple[Any, Any]]:
    """Yield key and element of each iteration, after setting the iteration variables in `inner`.

    Lists yield indexes and elements, maps keys and values; with one variable it is the element or
    the key. The entries are copied first.
    """
    if not isinstance(value, (list, dict)):
        raise no_such_overload()
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    for key, part in list(pairs):
        it = key if isinstance(value, dict) else part
        if len(names) > 1:
            inner[names[0]], inner[names[1]] = key, part
        else:
            inner[names[0]] = it
        yield key, it


def _quantifier(*, decisive: bool) -> Folded:
    def folded(rounds: Rounds, inner: Variables, step: Evaluate, _: Evaluate | None) -> Any:
        issue: EvaluationError | None = None
        for _round in rounds:
            try:
                if step(inner) is decisive:
                    return decisive
            except EvaluationError as found:
                issue = found
        if issue:
            raise issue
        return not decisive

    return folded


def _map(rounds: Rounds, inner: Variables, step: Evaluate, condition: Evaluate | None) -> list[Any]:
    return [step(inner) for _round in rounds if condition is None or condition(inner) is True]


def _transform_entries(
    rounds: Rounds, inner: Variables, step: Evaluate, condition: Evaluate | None
) -> dict[Any, Any]:
    found: dict[Any, Any] = {}
    for _round in rounds:
        if condition is None or condition(inner) is True:
            for name, value in step(inner).items():
                if name in found:
                    raise EvaluationError(f"insert failed: key {name} already exists")
                found[name] = value
    return found


FOLDS: dict[str, Folded] = {
    "all": _quantifier(decisive=False),
    "exists": _quantifier(decisive=True),
    "exists_one": (
        lambda rounds, inner, step, _: sum(1 for _round in rounds if step(inner) is True) == 1
    ),
    "filter": lambda rounds, inner, step, _: [it for _key, it in rounds if step(inner) is True],
    "map": _map,
    "transformList": _map,
    "transformMap": (
        lambda rounds, inner, step, condition: {
            key: step(inner) for key, _it in rounds if condition is None or condition(inner) is True
        }
    ),
    "transformMapEntry": _transform_entries,
}


CONVERSIONS = {"int", "uint", "double", "bool", "string", "bytes", "duration", "timestamp"}


class Compiler:
    """Builds the closures of a tree, with the overloads that the check found.

    Each node becomes a function of the variables. A call with one implementation is bound at
    compile time; one with several, or with arguments of unknown types, chooses by its arguments'
    values at each evaluation.
    """

    def __init__(
        self, overloads_of: Mapping[int, tuple[Overload, ...]], dynamic: Collection[int] = ()
    ) -> None:
        self._overloads_of = overloads_of
        self._dynamic = dynamic

    def of(self, node: Expr) -> Evaluate:
        return COMPILED[type(node)](self, node)

    def literal(self, node: LiteralExpr) -> Evaluate:
        return lambda _: node.value

    def ident(self, node: IdentExpr) -> Evaluate:
        name = node.name

        def evaluate(variables: Variables) -> Any:
            if name in variables:
                return variables[name]
            return Type(name)

        return evaluate

    def select(self, node: SelectExpr) -> Evaluate:
        operand, name = self.of(node.operand), unescape_field(node.field)
        if node.test:
            return lambda variables: has(operand(variables), name)
        if node.optional:
            return lambda variables: select_optional(operand(variables), name)
        return lambda variables: select_field(operand(variables), name)

    def call(self, node: CallExpr) -> Evaluate:
        special = SPECIAL.get(node.function)
        overloads = self._overloads_of[id(node)]
        first = [node.target] if node.target is not None and overloads[0].is_method else []
        args = tuple(self.of(part) for part in (*first, *node.args))
        if special:
            return special(*args)
        run = overloads[0].run
        if id(node) in self._dynamic or any(overload.run is not run for overload in overloads):

            def evaluate(variables: Variables) -> Any:
                values = tuple(arg(variables) for arg in args)
                for overload in overloads:
                    if overload.accepts(values):
                        return overload.run(*values)
                raise no_such_overload()

            return evaluate
        if node.function in CONVERSIONS and type(node.args[0]) is LiteralExpr:
            # Constant conversions that must fail are refused at compile time.
            run(node.args[0].value)
        if len(args) == 2:  # noqa: PLR2004 - most operators
            one, other = args
            return lambda variables: run(one(variables), other(variables))
        return lambda variables: run(*(arg(variables) for arg in args))

    def list_of(self, node: ListExpr) -> Evaluate:
        parts = [
            (self.of(part), place in node.optional) for place, part in enumerate(node.elements)
        ]

        def evaluate(variables: Variables) -> Any:
            found = []
            for part, is_optional in parts:
                value = part(variables)
                if not is_optional:
                    found.append(value)
                elif value.present:
                    found.append(value.value)
            return found

        return evaluate

    def map_of(self, node: MapExpr) -> Evaluate:
        parts = [
            (self.of(key), self.of(value), place in node.optional)
            for place, (key, value) in enumerate(node.entries)
        ]

        def evaluate(variables: Variables) -> Any:
            found: dict[Any, Any] = {}
            for key, part, is_optional in parts:
                name, value = key(variables), part(variables)
                if name in found:
                    raise EvaluationError(f"Failed with repeated key: {name}")
                if not is_optional:
                    found[name] = value
                elif value.present:
                    found[name] = value.value
            return found

        return evaluate

    def fold(self, node: ComprehensionExpr) -> Evaluate:
        over, step = self.of(node.over), self.of(node.step)
        condition = self.of(node.condition) if node.condition is not None else None
        if node.macro in {"optMap", "optFlatMap"}:
            return map_optional(over, node.variables[0], step, wraps=node.macro == "optMap")
        folded = FOLDS[node.macro]
        names = node.variables

        def evaluate(variables: Variables) -> Any:
            inner = dict(variables)
            return folded(iterate(over(variables), names, inner), inner, step, condition)

        return evaluate


def _logical(*, decisive: bool) -> Callable[[Evaluate, Evaluate], Evaluate]:
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


def _conditional(condition: Evaluate, one: Evaluate, other: Evaluate) -> Evaluate:
    def evaluate(variables: Variables) -> Any:
        holds = condition(variables)
        if type(holds) is not bool:
            raise no_such_overload()
        return one(variables) if holds else other(variables)

    return evaluate


SPECIAL: dict[str, Callable[..., Evaluate]] = {
    "_&&_": _logical(decisive=False),
    "_||_": _logical(decisive=True),
    "_?_:_": _conditional,
}
COMPILED: dict[type, Callable[[Compiler, Any], Evaluate]] = {
    LiteralExpr: Compiler.literal,
    IdentExpr: Compiler.ident,
    SelectExpr: Compiler.select,
    CallExpr: Compiler.call,
    ListExpr: Compiler.list_of,
    MapExpr: Compiler.map_of,
    ComprehensionExpr: Compiler.fold,
}


@dataclass(frozen=True, slots=True)
class Program:
    """Compiled expression, immutable and usable for any number of evaluations.

    `type` is the result's type, `uses` the variables it reads, and `tree` its source's tree.
    `value` raises EvaluationError.
    """

    type: Type
    uses: frozenset[str]
    tree: Expr
    _evaluate: Callable[[dict[str, Any]], Any]

    def value(self, variables: Mapping[str, Any]) -> Any:
        try:
            return self._evaluate(dict(variables))
        except RecursionError:
            raise EvaluationError("expression is nested too deeply") from None


def compile_expression(source: str, variables: Mapping[str, Type]) -> Program:
    """Compile a source with typed variables.

    Raises CompilationError with all issues of the source. Compiling takes about a millisecond, so
    callers cache the program.
    """
    tree = parse(source)
    checker = Checker(variables)
    type_ = checker.type_of(tree)
    if checker.issues:
        raise CompilationError(source, checker.issues)
    return Program(
        type_,
        frozenset(checker.used),
        tree,
        Compiler(checker.overloads_of, checker.dynamic).of(tree),
    )
