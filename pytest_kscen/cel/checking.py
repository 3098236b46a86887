"""Type check of a parsed expression: the type of each node, and the possible overloads of each
call.

Called by `program`. Reports all issues, with cel-go's messages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kscen.cel.errors import Issue
from pytest_kscen.cel.functions import all_overloads
from pytest_kscen.cel.functions.conversions import duration, timestamp
from pytest_kscen.cel.re2 import compile_pattern
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
from pytest_kscen.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DYN,
    ERROR,
    INT,
    NULL,
    STRING,
    UINT,
    Type,
    UInt,
    common_type,
    is_assignable,
    list_of,
    map_of,
    optional_of,
    substitute,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytest_kscen.cel.functions import Overload

LITERALS = {
    bool: BOOL,
    int: INT,
    UInt: UINT,
    float: DOUBLE,
    str: STRING,
    bytes: BYTES,
    type(None): NULL,
}
NAMES = {
    name: Type("type", (Type(name),))
    for name in ("int", "uint", "double", "bool", "string", "bytes", "type")
}
NAMES |= {
    "null_type": Type("type", (NULL,)),
    "list": Type("type", (list_of(DYN),)),
    "map": Type("type", (map_of(DYN, DYN),)),
}
READ: dict[str, Callable[[str], Any]] = {
    "matches": compile_pattern,
    "duration": duration,
    "timestamp": timestamp,
}  # parsers that a literal argument of these functions must pass


class Checker:
    """Type check of one expression; create one per check.

    `overloads_of` maps the id of a call's node to its possible overloads, from which the compiler
    or the evaluation chooses. `used` collects the variables that the expression reads, in order.
    `issues` is empty if the expression is valid.
    """

    def __init__(self, variables: Mapping[str, Type]) -> None:
        self._variables = dict(variables)
        self.issues: list[Issue] = []
        self.overloads_of: dict[int, tuple[Overload, ...]] = {}
        self.dynamic: set[int] = set()
        """Ids of calls with an argument whose type is known at evaluation only."""
        self.used: dict[str, None] = {}
        self._loops: list[str] = []  # variables of the enclosing comprehensions
        self._mixed = 0  # depth of calls that accept lists of mixed types

    def type_of(self, node: Expr) -> Type:
        return CHECKS[type(node)](self, node)

    def _report(self, at: int, message: str) -> Type:
        self.issues.append(Issue(at, message))
        return ERROR

    def literal(self, node: LiteralExpr) -> Type:
        return LITERALS[type(node.value)]

    def ident(self, node: IdentExpr) -> Type:
        if node.name in self._variables:
            if node.name not in self._loops:
                self.used[node.name] = None
            return self._variables[node.name]
        if node.name in NAMES:
            return NAMES[node.name]
        return self._report(node.at, f"undeclared reference to '{node.name}' (in container '')")

    def select(self, node: SelectExpr) -> Type:
        operand = self.type_of(node.operand)
        is_optional = operand.name == "optional"
        subject = operand.parameters[0] if is_optional else operand
        if subject in (DYN, ERROR):
            found = subject
        elif subject.fields is not None:
            found = subject.fields.get(node.field) or self._report(
                node.at, f"undefined field '{node.field}'"
            )
        elif subject.name == "map":
            found = subject.parameters[1]
        else:
            found = self._report(node.at, f"type '{subject}' does not support field selection")
        if node.test:
            return ERROR if found is ERROR else BOOL
        return (
            optional_of(found) if (is_optional or node.optional) and found is not ERROR else found
        )

    def call(self, node: CallExpr) -> Type:
        target, function = node.target, node.function
        if (
            target is not None
            and (space := _dotted_name(target))
            and f"{space}.{function}" in all_overloads()
        ):
            target, function = None, f"{space}.{function}"
        given = [self.type_of(target)] if target is not None else []
        self._mixed += function == "format"
        given += [self.type_of(part) for part in node.args]
        self._mixed -= function == "format"
        overloads = all_overloads().get(function)
        if overloads is None:
            return self._report(node.at, f"undeclared reference to '{function}' (in container '')")
        if ERROR in given:
            return ERROR
        if function == "_[?_]" and given[0].name == "optional":
            given[0] = given[0].parameters[0]
        is_method = target is not None
        possible = []
        for overload in overloads:
            bound: dict[str, Type] = {}
            if overload.is_method is not is_method or len(overload.parameters) != len(given):
                continue
            if all(
                is_assignable(wanted, part, bound)
                for wanted, part in zip(overload.parameters, given, strict=True)
            ):
                possible.append((overload, substitute(overload.result, bound)))
        if not possible:
            if function in {"_&&_", "_||_"}:
                return self._not_bool(node, given)
            listed = ", ".join(map(str, given[1:] if target is not None else given))
            applied = f"{given[0]}.({listed})" if target is not None else f"({listed})"
            return self._report(
                node.at, f"found no matching overload for '{function}' applied to '{applied}'"
            )
        self.overloads_of[id(node)] = tuple(overload for overload, _ in possible)
        self.dynamic |= {id(node)} if DYN in given else set()
        self._check_literal(node, function)
        results = [result for _, result in possible]
        return results[0] if all(result == results[0] for result in results) else DYN

    def _not_bool(self, node: CallExpr, given: list[Type]) -> Type:
        for part, type_ in zip(node.args, given, strict=True):
            self._check_bool(part, type_)
        return ERROR

    def _check_bool(self, node: Expr, type_: Type) -> bool:
        is_bool = is_assignable(BOOL, type_, {})
        if not is_bool:
            self._report(node.at, f"expected type 'bool' but found '{type_}'")
        return is_bool

    def _check_literal(self, node: CallExpr, function: str) -> None:
        read, argument = READ.get(function), node.args[-1] if node.args else None
        if read and type(argument) is LiteralExpr and type(argument.value) is str:
            try:
                read(argument.value)
            except ValueError:
                self._report(argument.at, f"invalid {function} argument")

    def list_of(self, node: ListExpr) -> Type:
        element: Type | None = None
        for place, part in enumerate(node.elements):
            element = self._common_type(
                element, self._element_type(part, optional=place in node.optional), part.at
            )
        return list_of(element or DYN)

    def map_of(self, node: MapExpr) -> Type:
        key: Type | None = None
        value: Type | None = None
        for place, (name, part) in enumerate(node.entries):
            key = self._common_type(key, self.type_of(name), name.at)
            value = self._common_type(
                value, self._element_type(part, optional=place in node.optional), part.at
            )
        return map_of(key or DYN, value or DYN)

    def _element_type(self, node: Expr, *, optional: bool) -> Type:
        type_ = self.type_of(node)
        if not optional or type_ in (DYN, ERROR):
            return type_
        if type_.name != "optional":
            return self._report(node.at, f"expected type 'optional_type(T)' but found '{type_}'")
        return type_.parameters[0]

    def _common_type(self, one: Type | None, other: Type, at: int) -> Type:
        found = other if one is None else common_type(one, other)
        if found is None and self._mixed:
            return DYN
        return (
            self._report(at, f"expected type '{one}' but found '{other}'")
            if found is None
            else found
        )

    def fold(self, node: ComprehensionExpr) -> Type:
        over = self.type_of(node.over)
        if node.macro in {"optMap", "optFlatMap"}:
            variables: list[Type] | None = [over.parameters[0] if over.name == "optional" else DYN]
        else:
            pairs = len(node.variables) > 1
            if over == DYN:
                variables = [DYN] * len(node.variables)
            elif over.name == "list":
                variables = [INT, over.parameters[0]] if pairs else [over.parameters[0]]
            elif over.name == "map":
                variables = list(over.parameters) if pairs else [over.parameters[0]]
            else:
                variables = None
        if variables is None:
            if over is not ERROR:
                message = (
                    f"expression of type '{over}' cannot be range of a comprehension (must be "
                    "list, map, or dynamic)"
                )
                self._report(node.over.at, message)
            return ERROR
        outer = {name: self._variables.get(name) for name in node.variables}
        self._variables.update(zip(node.variables, variables, strict=True))
        self._loops.extend(node.variables)
        if node.condition is not None:
            self._check_bool(node.condition, self.type_of(node.condition))
        step = self.type_of(node.step)
        del self._loops[-len(node.variables) :]
        for name, type_ in outer.items():
            if type_ is None:
                del self._variables[name]
            else:
                self._variables[name] = type_
        return self._fold_type(node, over, step)

    def _fold_type(self, node: ComprehensionExpr, over: Type, step: Type) -> Type:
        macro, key = node.macro, over.parameters[0] if over.parameters else DYN
        if macro in PREDICATES and not self._check_bool(node.step, step):
            return ERROR
        if macro == "transformMap":
            return map_of(INT if over.name == "list" else key, step)
        if macro == "filter":
            return list_of(key)
        return RESULTS[macro](step) if macro in RESULTS else step


PREDICATES = {"all", "exists", "exists_one", "filter"}
RESULTS: dict[str, Callable[[Type], Type]] = {
    **dict.fromkeys(("all", "exists", "exists_one"), lambda _: BOOL),
    **dict.fromkeys(("map", "transformList"), list_of),
    "optMap": optional_of,
}


def _dotted_name(node: Expr) -> str:
    """Return a dotted name that may be a namespace, such as `a.b`, or an empty string."""
    if type(node) is IdentExpr:
        return node.name
    if (
        type(node) is SelectExpr
        and not node.test
        and not node.optional
        and (space := _dotted_name(node.operand))
    ):
        return f"{space}.{node.field}"
    return ""


CHECKS: dict[type, Callable[[Checker, Any], Type]] = {
    LiteralExpr: Checker.literal,
    IdentExpr: Checker.ident,
    SelectExpr: Checker.select,
    CallExpr: Checker.call,
    ListExpr: Checker.list_of,
    MapExpr: Checker.map_of,
    ComprehensionExpr: Checker.fold,
}
