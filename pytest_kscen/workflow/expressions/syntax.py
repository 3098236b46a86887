"""What an expression is made of. `at` is where it stands in the text, for those who have to complain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator


class Literal(NamedTuple):
    value: Any
    at: int


class Name(NamedTuple):
    name: str
    at: int


class Pointer(NamedTuple):
    """`#`: what a closure is asked about."""

    at: int


class Unary(NamedTuple):
    operator: str
    operand: Node
    at: int


class Binary(NamedTuple):
    operator: str
    left: Node
    right: Node
    at: int


class Condition(NamedTuple):
    """`test ? then : otherwise`, and `test ?: otherwise`, whose `then` is its test."""

    test: Node
    then: Node
    otherwise: Node
    at: int


class Array(NamedTuple):
    items: tuple[Node, ...]
    at: int


class Pairs(NamedTuple):
    """A map's literal."""

    pairs: tuple[tuple[Node, Node], ...]
    at: int


class Member(NamedTuple):
    """`of[key]`, `of.key` and, safe from nil, `of?.key`."""

    of: Node
    key: Node
    safe: bool
    at: int


class Slice(NamedTuple):
    of: Node
    first: Node | None
    last: Node | None
    at: int


class Call(NamedTuple):
    """A builtin, over an array, with a closure except for `len`."""

    builtin: str
    over: Node
    closure: Node | None
    at: int


Node = Literal | Name | Pointer | Unary | Binary | Condition | Array | Pairs | Member | Slice | Call


def walk(tree: Node) -> Iterator[tuple[Node, int]]:
    """Every node and how deep it is."""
    waiting: list[tuple[Any, int]] = [(tree, 1)]
    while waiting:
        part, depth = waiting.pop()
        if isinstance(part, Node):
            yield part, depth
            depth += 1
        waiting.extend((inner, depth) for inner in part if isinstance(inner, tuple))


def surely(tree: Node) -> Iterator[Node]:
    """Those that are evaluated in any case."""
    waiting: list[Any] = [tree]
    while waiting:
        part = waiting.pop()
        if isinstance(part, Node):
            yield part
        match part:
            case Binary("or" | "||" | "and" | "&&", first) | Condition(first) | Call(_, first) | Member(first, _, True):
                waiting.append(first)
            case _:
                waiting.extend(inner for inner in part if isinstance(inner, tuple))
