"""Printer columns of custom resources, with the part of kubectl's JSONPath that they may use.

Supported: names, indexes, slices, `*`, `..` and filters.
"""

from __future__ import annotations

import contextlib
import json
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from pytest_kscen.embedded.apiserver.wire.tables.columns import NAME, Column, age

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pytest_kscen.objects.resources import Obj

    Step = Callable[[Any], Iterator[Any]]


_TOKEN = re.compile(
    r"""\.\.(?P<deep>[\w\-]+|\*)
      | \.?\[\?\(@(?P<left>[^)=!<>]*?)\s*(?:(?P<operator>==|!=|<=|>=|<|>)
        \s*(?P<right>"[^"]*"|'[^']*'|[^)]+?))?\s*\)\]
      | \.?\[(?P<quote>['"])(?P<quoted>.*?)(?P=quote)\]
      | \.?\[(?P<index>-?\d+)\]
      | \.?\[(?P<slice>-?\d*:-?\d*(?::-?\d+)?)\]
      | \.?\[(?P<every>\*)\]
      | \.(?P<star>\*)
      | \.?(?P<name>(?:[\w\-/]|\\.)+)
      | (?P<root>\$|@)""",
    re.VERBOSE,
)
_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "==": lambda left, right: left == right,
    "!=": lambda left, right: left != right,
    "<": lambda left, right: left < right,
    "<=": lambda left, right: left <= right,
    ">": lambda left, right: left > right,
    ">=": lambda left, right: left >= right,
}


@lru_cache(maxsize=1024)
def compile_jsonpath(path: str) -> tuple[Step, ...]:
    """Return the steps of a path such as `.status.conditions[?(@.type=="Ready")].status`.

    Raises ValueError for an invalid path.
    """
    steps: list[Step] = []
    rest = path.strip().removeprefix("{").removesuffix("}")
    while rest:
        token = _TOKEN.match(rest)
        if not token or not token[0]:
            raise ValueError(
                f"{path!r} is no JSONPath that a column can have: it cannot be read from "
                f"{rest!r} on"
            )
        if step := _step(token):
            steps.append(step)
        rest = rest[token.end() :]
    return tuple(steps)


def find_values(path: str, obj: Any) -> list[Any]:
    values = [obj]
    for step in compile_jsonpath(path):
        values = [part for value in values for part in step(value)]
    return values


def print_value(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _step(token: re.Match[str]) -> Step | None:
    parts = token.groupdict()
    if parts["root"]:
        return None
    if parts["left"] is not None:
        return _filter(parts["left"], parts["operator"], parts["right"])
    if parts["index"] or parts["slice"]:
        text = parts["index"] or parts["slice"]
        if ":" in text:
            chosen = slice(*(int(bound) if bound else None for bound in text.split(":")))
        else:
            chosen = slice(int(text), int(text) + 1 or None)
        return lambda value: iter(value[chosen] if isinstance(value, list) else ())
    if parts["every"] or parts["star"]:
        return _children
    if parts["deep"]:
        name = parts["deep"]
        member = _children if name == "*" else _member(name)

        def step(value: Any) -> Iterator[Any]:
            yield from member(value)
            for child in _children(value):
                yield from step(child)

        return step
    return _member(
        parts["quoted"] if parts["quoted"] is not None else re.sub(r"\\(.)", r"\1", parts["name"])
    )


def _member(name: str) -> Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, dict) and name in value:
            yield value[name]

    return step


def _children(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list):
        yield from value


def _filter(left: str, operator: str | None, right: str | None) -> Step:
    """Return the step that keeps the children whose value at `left` compares with `right`.

    `right` is a quoted string, another JSON literal, or plain text. Without an operator, the value
    has to exist only.
    """
    wanted: Any = right
    if right and right[0] in "'\"":
        wanted = right[1:-1]
    elif right:
        with contextlib.suppress(ValueError):
            wanted = json.loads(right)

    def holds(item: Any) -> bool:
        values = find_values(left.strip(), item) if left.strip() else [item]
        if operator is None:
            return bool(values)
        try:
            return any(_COMPARISONS[operator](value, wanted) for value in values)
        except TypeError:  # values of different types have no order
            return False

    def step(value: Any) -> Iterator[Any]:
        return (item for item in _children(value) if holds(item))

    return step


DEFAULT_COLUMNS = ({"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},)


def custom_columns(definition: Obj, version: str) -> tuple[Column, ...]:
    served: Obj = next(
        (entry for entry in definition["spec"]["versions"] if entry["name"] == version), {}
    )
    given: Sequence[Obj] = served.get("additionalPrinterColumns") or DEFAULT_COLUMNS
    return (NAME, *map(_column, given))


def _column(given: Obj) -> Column:
    path = given["jsonPath"]
    type_ = given["type"]

    def cell(obj: Obj, now: float) -> Any:
        values = find_values(path, obj)
        return _typed_cell(values[0], type_, now) if values else None

    return Column(
        given["name"],
        cell,
        given["type"],
        given.get("format", ""),
        wide=bool(given.get("priority")),
        description=given.get("description")
        or f"Custom resource definition column (in JSONPath format): {path}",
    )


def _typed_cell(value: Any, type_: str, now: float) -> Any:
    """Return a value if it has the column's type, else None."""
    if type_ == "string":
        return print_value(value)
    if type_ == "date" and isinstance(value, str):
        try:
            return age(value, now)
        except ValueError:
            return "<invalid>"
    if type_ == "boolean" and isinstance(value, bool):
        return value
    if (
        type_ in {"date", "boolean"}
        or isinstance(value, bool)
        or not isinstance(value, int | float)
    ):
        return None
    return int(value) if type_ == "integer" else value
