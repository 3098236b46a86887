"""Syntax tree of an expression, and its parser. Operators with a higher number bind closer.

Every node has `at`, its offset in the text, for error messages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from pytest_kscen.cel.patterns import matcher_of
from pytest_kscen.cel.re2 import BadPattern
from pytest_kscen.objects.arguments import nearest
from pytest_kscen.workflow.expressions.tokens import WORDS, PositionedError, tokens_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_kscen.workflow.expressions.tokens import ExpressionToken


class Constant(NamedTuple):
    value: Any
    at: int


class Variable(NamedTuple):
    name: str
    at: int


class ClosureElement(NamedTuple):
    """`#`: the element that a closure is applied to."""

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


class ArrayLiteral(NamedTuple):
    items: tuple[Node, ...]
    at: int


class MapLiteral(NamedTuple):
    """Literal of a map, with its pairs of keys and values."""

    pairs: tuple[tuple[Node, Node], ...]
    at: int


class Member(NamedTuple):
    """Member access: `of[key]`, `of.key`, and `of?.key`, which is nil if `of` is nil."""

    of: Node
    key: Node
    safe: bool
    at: int


class Slice(NamedTuple):
    of: Node
    first: Node | None
    last: Node | None
    at: int


class BuiltinCall(NamedTuple):
    """Call of a builtin over an array, with a closure except for `len`."""

    builtin: str
    over: Node
    closure: Node | None
    at: int


Node = (
    Constant
    | Variable
    | ClosureElement
    | Unary
    | Binary
    | Condition
    | ArrayLiteral
    | MapLiteral
    | Member
    | Slice
    | BuiltinCall
)


def walk(tree: Node) -> Iterator[tuple[Node, int]]:
    waiting: list[tuple[Any, int]] = [(tree, 1)]
    while waiting:
        part, depth = waiting.pop()
        if isinstance(part, Node):
            yield part, depth
            depth += 1
        waiting.extend((inner, depth) for inner in part if isinstance(inner, tuple))


def always_evaluated(tree: Node) -> Iterator[Node]:
    """Yield the nodes that are evaluated whatever the values are."""
    waiting: list[Any] = [tree]
    while waiting:
        part = waiting.pop()
        if isinstance(part, Node):
            yield part
        match part:
            case (
                Binary("or" | "||" | "and" | "&&", first)
                | Condition(first)
                | BuiltinCall(_, first)
                | Member(first, _, True)
            ):
                waiting.append(first)
            case _:
                waiting.extend(inner for inner in part if isinstance(inner, tuple))


T = TypeVar("T")

DEEPEST = 80


class Operator(NamedTuple):
    strength: int
    to_the_right: bool = False


UNARY = {
    "not": Operator(50),
    "!": Operator(50),
    "-": Operator(500),
    "+": Operator(500),
}
BINARY = {
    "or": Operator(10),
    "||": Operator(10),
    "and": Operator(15),
    "&&": Operator(15),
    "==": Operator(20),
    "!=": Operator(20),
    "<": Operator(20),
    ">": Operator(20),
    "<=": Operator(20),
    ">=": Operator(20),
    "in": Operator(20),
    "not in": Operator(20),
    "matches": Operator(20),
    "contains": Operator(20),
    "startsWith": Operator(20),
    "endsWith": Operator(20),
    "..": Operator(25),
    "+": Operator(30),
    "-": Operator(30),
    "*": Operator(60),
    "/": Operator(60),
    "%": Operator(60),
    "**": Operator(70, to_the_right=True),
}
CONSTANTS = {"true": True, "false": False, "nil": None}
BUILTINS = frozenset({"len", "all", "none", "any", "one", "filter", "map", "count"})


def parse(text: str) -> Node:
    parser = _ExpressionParser(tokens_of(text))
    tree = parser.expression()
    parser.expect_end()
    for node, depth in walk(tree):
        if depth > DEEPEST:
            raise PositionedError(
                f"it is nested more than {DEEPEST} deep: group what is chained with brackets",
                node.at,
            )
    return tree


class _ExpressionParser:
    def __init__(self, tokens: list[ExpressionToken]) -> None:
        self._tokens = tokens
        self._place = 0
        self._depth = 0
        self._closures = 0

    # --- tokens ---

    @property
    def _token(self) -> ExpressionToken:
        return self._tokens[self._place]

    def _take(self) -> ExpressionToken:
        token = self._token
        self._place += token.sort != "end"
        return token

    def _is(self, *signs: str) -> bool:
        return self._token.sort == "sign" and self._token.text in signs

    def _accept(self, sign: str) -> bool:
        found = self._is(sign)
        self._place += found
        return found

    def _expect(self, sign: str) -> None:
        if not self._accept(sign):
            raise PositionedError(f"{sign!r} is expected here, not {self._token}", self._token.at)

    def expect_end(self) -> None:
        if self._token.sort != "end":
            guess = nearest(self._token.text, WORDS) if self._token.sort == "name" else ""
            raise PositionedError(
                f"an operator or the end is expected here, not {self._token}{guess}", self._token.at
            )

    # --- operators ---

    def expression(self, least: int = 0) -> Node:
        self._depth += 1
        if self._depth > DEEPEST:
            raise PositionedError(f"it is nested more than {DEEPEST} deep", self._token.at)
        token = self._token
        if token.sort == "sign" and (unary := UNARY.get(token.text)):
            self._take()
            operand: Node = Unary(token.text, self.expression(unary.strength), token.at)
        else:
            operand = self._primary()
        left = self._postfix(operand)
        while (
            self._token.sort == "sign"
            and (operator := BINARY.get(self._token.text))
            and operator.strength >= least
        ):
            token = self._take()
            right = self.expression(operator.strength + (not operator.to_the_right))
            # A literal pattern is compiled at once, so that its errors show early.
            node = Binary(token.text, left, right, token.at)
            if (
                node.operator == "matches"
                and isinstance(node.right, Constant)
                and isinstance(node.right.value, str)
            ):
                try:
                    matcher_of(node.right.value)
                except BadPattern as refusal:
                    raise PositionedError(str(refusal), node.right.at) from None
            left = node
        at = self._token.at
        if not least and self._accept("?"):
            if self._accept(":"):
                left = Condition(left, left, self.expression(), at)
            else:
                then = self.expression()
                self._expect(":")
                left = Condition(left, then, self.expression(), at)
        self._depth -= 1
        return left

    # --- primary expressions ---

    def _primary(self) -> Node:
        token = self._token
        if self._is("#", "."):
            # `#`, which may be left out before a dot.
            if not self._closures:
                raise PositionedError(
                    f"{token} stands for an element, and means something only in a closure",
                    token.at,
                )
            self._accept("#")
            return ClosureElement(token.at)
        self._take()
        if token.sort in {"number", "string"}:
            return Constant(token.value, token.at)
        if token.sort == "name":
            return self._name_or_call(token)
        match token.text:
            case "(":
                inside = self.expression()
                self._expect(")")
                return inside
            case "[":
                return ArrayLiteral(tuple(self._listed("]", self.expression)), token.at)
            case "{":
                return MapLiteral(tuple(self._listed("}", self._pair)), token.at)
        raise PositionedError(f"a value is expected here, not {token}", token.at)

    def _name_or_call(self, token: ExpressionToken) -> Node:
        if token.text in CONSTANTS:
            return Constant(CONSTANTS[token.text], token.at)
        if not self._is("("):
            return Variable(token.text, token.at)
        if token.text not in BUILTINS:
            raise PositionedError(
                f"there is no function {token.text!r}{nearest(token.text, BUILTINS)}", token.at
            )
        self._take()
        over = self.expression()
        closure = None
        if token.text != "len":
            self._expect(",")
            self._expect("{")
            self._closures += 1
            inside = self.expression()
            self._closures -= 1
            self._expect("}")
            closure = inside
        self._expect(")")
        return BuiltinCall(token.text, over, closure, token.at)

    def _listed(self, close: str, one: Callable[[], T]) -> list[T]:
        """Parse elements separated by commas, with an optional comma at the end."""
        found: list[T] = []
        while not self._accept(close):
            if found:
                self._expect(",")
                if self._accept(close):
                    break
            found.append(one())
        return found

    def _pair(self) -> tuple[Node, Node]:
        token = self._token
        if token.sort in {"number", "string", "name"}:
            self._take()
            key: Node = Constant(token.value if token.sort == "string" else token.text, token.at)
        elif self._is("("):
            key = self.expression()
        else:
            raise PositionedError(
                (
                    "a key is expected here (a string, a name, a number or (an expression)), "
                    f"not {token}"
                ),
                token.at,
            )
        self._expect(":")
        return key, self.expression()

    # --- postfix operators ---

    def _postfix(self, node: Node) -> Node:
        while self._is(".", "?.", "["):
            sign = self._take()
            if sign.text != "[":
                token = self._take()
                if token.sort != "name" and token.text not in WORDS:
                    raise PositionedError(
                        f"a name is expected behind {sign}, not {token}", token.at
                    )
                if self._is("("):
                    raise PositionedError(
                        f"there are no methods, so {token} cannot be called", token.at
                    )
                key = Constant(token.text, token.at)
                node = Member(node, key, sign.text == "?.", token.at)
                continue
            first = None if self._is(":") else self.expression()
            if self._accept(":"):
                last = None if self._is("]") else self.expression()
                self._expect("]")
                node = Slice(node, first, last, sign.at)
            else:
                self._expect("]")
                node = Member(node, first or Constant(None, sign.at), safe=False, at=sign.at)
        return node
