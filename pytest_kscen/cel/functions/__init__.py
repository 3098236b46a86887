"""Registry of CEL's functions and operators, each under its signature.

`all_overloads` collects the libraries: `operators`, `conversions`, `strings`, `kubernetes`. A
library maps signatures to Python functions; `target::name(args) result` is a method.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING, Any

from pytest_kscen.cel.types import Type, UInt, parse_type
from pytest_kscen.cel.values import Optional

if TYPE_CHECKING:
    from collections.abc import Callable

SIGNATURE = re.compile(r"(?P<name>[^(]+)\((?P<args>.*)\) (?P<result>.+)")
CLASSES: dict[str, Any] = {
    "int": int,
    "uint": UInt,
    "double": float,
    "string": str,
    "bytes": bytes,
    "bool": bool,
    "list": list,
    "map": dict,
    "timestamp": datetime,
    "duration": timedelta,
    "optional": Optional,
    "null": type(None),
    "type": Type,
}


@dataclass(frozen=True, slots=True)
class Overload:
    """Signature of a function or operator, with the Python function that computes it."""

    parameters: tuple[Type, ...]
    result: Type
    is_method: bool
    run: Callable[..., Any]

    def accepts(self, values: tuple[Any, ...]) -> bool:
        """Return True if the values fit; used only if types left several overloads."""
        return all(
            _is_a(value, wanted) for value, wanted in zip(values, self.parameters, strict=True)
        )


def _is_a(value: Any, wanted: Type) -> bool:
    if wanted.is_variable or wanted.name == "dyn":
        return True
    if isinstance(value, bool):
        return wanted.name == "bool"
    if isinstance(value, UInt):
        return wanted.name == "uint"
    known = CLASSES.get(wanted.name)
    if known is None:
        return bool(getattr(value, "cel_type", "") == wanted.name)
    return isinstance(value, known)


@cache
def all_overloads() -> dict[str, tuple[Overload, ...]]:
    from pytest_kscen.cel.functions import conversions, kubernetes, operators, strings

    libraries = (
        (operators.OPERATOR_FUNCTIONS, operators.OPERATOR_METHODS),
        (conversions.CONVERSION_FUNCTIONS, conversions.CONVERSION_METHODS),
        (strings.STRING_FUNCTIONS, strings.STRING_METHODS),
        (operators.LIST_FUNCTIONS, operators.LIST_METHODS),
        (conversions.TIME_FUNCTIONS, conversions.TIME_METHODS),
        (operators.OPTIONAL_FUNCTIONS, operators.OPTIONAL_METHODS),
        (kubernetes.KUBERNETES_FUNCTIONS, kubernetes.KUBERNETES_METHODS),
        (kubernetes.ADDRESS_FUNCTIONS, kubernetes.ADDRESS_METHODS),
    )

    found: dict[str, list[Overload]] = {}
    for functions, methods in libraries:
        for signature, run in functions.items():
            name, overload = _function(signature, run)
            found.setdefault(name, []).append(overload)
        for signature, run in methods.items():
            target, _, rest = signature.partition("::")
            name, function = _function(rest, run)
            overload = Overload(
                (parse_type(target), *function.parameters), function.result, is_method=True, run=run
            )
            found.setdefault(name, []).append(overload)
    return {name: tuple(overloads) for name, overloads in found.items()}


def _function(signature: str, run: Callable[..., Any]) -> tuple[str, Overload]:
    match = SIGNATURE.fullmatch(signature)
    assert match, signature
    args = match["args"]
    parameters = parse_type(f"args({args})").parameters if args else ()
    return match["name"], Overload(
        parameters, parse_type(match["result"]), is_method=False, run=run
    )
