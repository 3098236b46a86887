"""Parser: source text to tokens, and tokens to a tree with macros expanded.

Operators are parsed by precedence climbing. Syntax errors have cel-go's messages.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from pytest_kscen.cel.errors import CompilationError, Issue
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
from pytest_kscen.cel.types import UInt

QUOTED = (
    r"""\"\"\"(?:[^\\]|\\.)*?\"\"\"|'''(?:[^\\]|\\.)*?'''|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'"""
)
BARE = r"""\"\"\".*?\"\"\"|'''.*?'''|"[^"\n]*"|'[^'\n]*'"""
TOKEN = re.compile(
    rf"""(?P<space>[\t\n\f\r ]+|//[^\n]*)
      | (?P<float>\d+\.\d+(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|\.\d+(?:[eE][+-]?\d+)?)
      | (?P<integer>0x[0-9a-fA-F]+|\d+)(?P<unsigned>[uU])?
      | (?P<raw>[rR][bB]?|[bB][rR])(?:{BARE})
      | (?P<text>[bB]?(?:{QUOTED}))
      | (?P<word>[A-Za-z_][A-Za-z0-9_]*)
      | `(?P<escaped>[A-Za-z0-9_.\-/ ]+)`
      | (?P<operator>==|!=|<=|>=|&&|\|\||[-+*/%<>=!?:.,\[\](){{}}])""",
    re.VERBOSE | re.DOTALL,
)
ESCAPE = re.compile(
    r"""\\(?:([abfnrtv\\?"'`])|[xX]([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})"""
    r"""|U([0-9a-fA-F]{8})|([0-3][0-7]{2}))"""
)
PLAIN = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
WORDS = {"true": True, "false": False, "null": None}
END = "<EOF>"
TRIPLE = len("'''")
PAIR_ARGUMENTS = len(("key", "value", "step"))


class CelToken(NamedTuple):
    """Token of a source, with its character offset.

    `kind` is the operator itself, or literal, word, escaped or end. `value` holds a literal's
    value.
    """

    kind: str
    text: str
    at: int
    value: Any = None


def tokenize(source: str, issues: list[Issue]) -> list[CelToken]:
    """Return the tokens, ending with `end`.

    Unknown characters are appended to `issues` and skipped, so that the parser can report more than
    one error, as cel-go does.
    """
    found, at = [], 0
    while at < len(source):
        match = TOKEN.match(source, at)
        if match is None:
            unread = (
                source[at:] if source[at] in "\"'" else source[at : at + 1 + (source[at] in "&|")]
            )
            issues.append(Issue(at, f"Syntax error: token recognition error at: '{unread}'"))
            at += len(unread)
            continue
        if match["space"] is None:
            found.append(_token(match, source))
        at = match.end()
    return [*found, CelToken("end", END, len(source))]


def _token(match: re.Match[str], source: str) -> CelToken:
    text, at = match[0], match.start()
    if match["operator"]:
        return CelToken(text, text, at)
    if match["word"]:
        return (
            CelToken("literal", text, at, WORDS[text])
            if text in WORDS
            else CelToken("word", text, at)
        )
    if match["escaped"]:
        return CelToken("escaped", match["escaped"], at)
    try:
        return CelToken("literal", text, at, _value(match, text))
    except ValueError as issue:
        raise CompilationError(source, [Issue(at, str(issue))]) from None


def _value(match: re.Match[str], text: str) -> Any:
    if match["float"]:
        return float(text)
    if match["integer"]:
        number = int(match["integer"], 0 if match["integer"].startswith("0x") else 10)
        if match["unsigned"]:
            if number >= 1 << 64:
                raise ValueError("invalid uint literal")
            return UInt(number)
        if number > 1 << 63:  # the smallest integer is written as a negated literal
            raise ValueError("invalid int literal")
        return number
    prefix = text[: min(text.find(quote) for quote in "\"'" if quote in text)].lower()
    body = text[len(prefix) :]
    tripled = body[:3] in {'"""', "'''"} and len(body) >= 2 * TRIPLE
    size = TRIPLE if tripled else 1
    body = body[size:-size].replace("\r\n", "\n")
    if "b" in prefix:
        raw = "r" in prefix
        if raw:
            return body.encode()
        return b"".join(
            piece.encode() if type(piece) is str else bytes([piece]) for piece in _pieces(body)
        )
    raw = "r" in prefix
    pieces: list[Any] = [body] if raw else _pieces(body)
    return "".join(piece if type(piece) is str else chr(piece) for piece in pieces)


def _pieces(body: str) -> list[Any]:
    """Return plain text, and the numbers of escaped characters (or octets)."""
    found: list[Any] = []
    at = 0
    while at < len(body):
        if body[at] != "\\":
            end = body.find("\\", at)
            end = len(body) if end < 0 else end
            found.append(body[at:end])
            at = end
            continue
        match = ESCAPE.match(body, at)
        if match is None:
            raise ValueError("unable to unescape string")
        if match[1]:
            found.append(PLAIN.get(match[1], match[1]))
        else:
            digits = next(group for group in match.groups() if group)
            found.append(int(digits, 8 if match[5] else 16))
        at = match.end()
    return found


LEVELS = (("||",), ("&&",), ("<", "<=", ">=", ">", "==", "!=", "in"), ("+", "-"), ("*", "/", "%"))
PRECEDENCE = {operator: rank for rank, level in enumerate(LEVELS) for operator in level}
RESERVED = frozenset(
    (  # noqa: SIM905
        "as break const continue else for function if import let loop package namespace "
        "return var void while"
    ).split()
)
EXPECTED_TOKENS = (
    "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, "
    "STRING, BYTES, IDENTIFIER}"
)
MAX_DEPTH = 100


def parse(source: str) -> Expr:
    return _CelParser(source).whole()


class _CelParser:
    """Recursive-descent parser of one source.

    Stops at the first syntax error, and reports it after the tokenizer's.
    """

    def __init__(self, source: str) -> None:
        self._source = source
        self._issues: list[Issue] = []
        self._tokens = tokenize(source, self._issues)
        self._place = 0
        self._depth = 0

    def whole(self) -> Expr:
        node = self._expression()
        if self._token.kind != "end":
            last = self._tokens[self._place + 1].kind == "end"
            raise self._syntax_issue(
                f"{'extraneous' if last else 'mismatched'} input '{self._token.text}' "
                "expecting <EOF>"
            )
        if self._issues:
            raise CompilationError(self._source, self._issues)
        return node

    @property
    def _token(self) -> CelToken:
        return self._tokens[self._place]

    def _syntax_issue(
        self, message: str, at: int | None = None, *, syntax: bool = True
    ) -> CompilationError:
        where = self._token.at if at is None else at
        return CompilationError(
            self._source,
            [*self._issues, Issue(where, f"Syntax error: {message}" if syntax else message)],
        )

    def _take(self, *kinds: str) -> CelToken | None:
        token = self._token
        if token.kind in kinds or (token.kind == "word" and token.text == "in" and "in" in kinds):
            self._place += 1
            return token
        return None

    def _expect(self, kind: str) -> CelToken:
        token = self._take(kind)
        if token is None:
            text = self._token.text
            raise self._syntax_issue(
                f"missing '{kind}' at '{text}'"
                if text == END
                else f"mismatched input '{text}' expecting '{kind}'"
            )
        return token

    def _expression(self) -> Expr:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self._syntax_issue(
                f"expression recursion limit exceeded: {MAX_DEPTH}", syntax=False
            )
        node = self._ranked(0)
        if question := self._take("?"):
            chosen = self._ranked(0)
            self._expect(":")
            node = CallExpr(question.at, "_?_:_", None, (node, chosen, self._expression()))
        self._depth -= 1
        return node

    def _ranked(self, least: int) -> Expr:
        """Parse operators of at least this precedence, left-associative."""
        node = self._unary()
        while (
            rank := PRECEDENCE.get(self._token.text, -1)
        ) >= least and self._token.kind != "literal":
            operator = self._tokens[self._place]
            self._place += 1
            name = "@in" if operator.text == "in" else f"_{operator.text}_"
            node = CallExpr(operator.at, name, None, (node, self._ranked(rank + 1)))
        return node

    def _unary(self) -> Expr:
        operators = []
        while operator := self._take("!", "-"):
            operators.append(operator)
        if operators and {each.kind for each in operators} != {operators[0].kind}:
            raise self._syntax_issue(
                f"no viable alternative at input '{operators[1].text}'", operators[1].at
            )
        following = self._token
        if (
            len(operators) == 1
            and operators[0].kind == "-"
            and type(following.value) in {int, float}
        ):
            self._place += 1
            return self._members(LiteralExpr(operators[0].at, -following.value))
        node = self._members(self._primary())
        if type(node) is LiteralExpr and type(node.value) is int and node.value == 1 << 63:
            raise self._syntax_issue("invalid int literal", node.at, syntax=False)
        if len(operators) % 2:
            node = CallExpr(
                operators[0].at, "!_" if operators[0].kind == "!" else "-_", None, (node,)
            )
        return node

    def _members(self, node: Expr) -> Expr:
        while operator := self._take(".", "["):
            optional = self._take("?") is not None
            if operator.kind == "[":
                key = self._expression()
                self._expect("]")
                node = CallExpr(operator.at, "_[?_]" if optional else "_[_]", None, (node, key))
                continue
            name = self._take("word", "escaped")
            if name is None or (name.text == "in" and name.kind == "word"):
                text = self._token.text
                raise self._syntax_issue(
                    f"no viable alternative at input '.{'' if text == END else text}'"
                )
            opening = self._take("(") if not optional and name.kind == "word" else None
            if opening is None:
                node = SelectExpr(operator.at, node, name.text, optional=optional)
            else:
                node = self._call(name.text, node, opening)
        return node

    def _primary(self) -> Expr:
        token = self._token
        self._place += 1
        if token.kind == "literal":
            return LiteralExpr(token.at, token.value)
        if token.kind == "(":
            node = self._expression()
            self._expect(")")
            return node
        if token.kind == "[":
            elements: list[Expr] = []
            optional = set()
            while self._token.kind != "]":
                if self._take("?"):
                    optional.add(len(elements))
                elements.append(self._expression())
                if not self._take(","):
                    break
            self._expect("]")
            return ListExpr(token.at, tuple(elements), frozenset(optional))
        if token.kind == "{":
            return self._map(token)
        if token.kind == "." and self._token.kind == "word":
            return self._primary()
        if token.kind == "word" and token.text != "in":
            return self._word(token)
        self._place -= 1
        raise self._syntax_issue(f"mismatched input '{token.text}' expecting {EXPECTED_TOKENS}")

    def _word(self, token: CelToken) -> Expr:
        if token.text in RESERVED:
            raise self._syntax_issue(f"reserved identifier: {token.text}", token.at, syntax=False)
        if opening := self._take("("):
            return self._call(token.text, None, opening)
        return IdentExpr(token.at, token.text)

    def _map(self, opening: CelToken) -> Expr:
        entries: list[tuple[Expr, Expr]] = []
        optional = set()
        while self._token.kind != "}":
            if self._take("?"):
                optional.add(len(entries))
            key = self._expression()
            self._expect(":")
            entries.append((key, self._expression()))
            if not self._take(","):
                break
        self._expect("}")
        return MapExpr(opening.at, tuple(entries), frozenset(optional))

    def _call(self, name: str, target: Expr | None, opening: CelToken) -> Expr:
        args: list[Expr] = []
        while self._token.kind != ")":
            args.append(self._expression())
            if not self._take(","):
                break
        self._expect(")")
        macro = (
            GLOBAL_MACROS.get((name, len(args)))
            if target is None
            else MEMBER_MACROS.get((name, len(args)))
        )
        if macro:
            node: Expr = macro(self, opening.at, name, target, args)
            return node
        return CallExpr(opening.at, name, target, tuple(args))

    def has(self, at: int, _name: str, _target: Expr | None, args: list[Expr]) -> Expr:
        argument = args[0]
        if type(argument) is not SelectExpr or argument.test:
            raise self._syntax_issue("invalid argument to has() macro", argument.at, syntax=False)
        return SelectExpr(at, argument.operand, argument.field, test=True)

    def fold(self, at: int, name: str, target: Any, args: list[Expr]) -> Expr:
        """Expand `range.macro(variables…, [condition,] step)`."""
        plain = MACRO_ALIASES.get(name, name)
        pair = plain in TWO_VARIABLES or (
            len(args) == PAIR_ARGUMENTS and plain in ONE_OR_TWO_VARIABLES
        )
        count = 2 if pair else 1
        names = []
        for variable in args[:count]:
            if type(variable) is not IdentExpr:
                raise self._syntax_issue(
                    "argument must be a simple name", variable.at, syntax=False
                )
            names.append(variable.name)
        *conditions, step = args[count:]
        return ComprehensionExpr(
            at, plain, target, tuple(names), step, conditions[0] if conditions else None
        )

    def bound_to_optional(self, at: int, name: str, target: Any, args: list[Expr]) -> Expr:
        """Expand `optional.optMap(variable, step)` and `optional.optFlatMap(variable, step)`."""
        if type(args[0]) is not IdentExpr:
            raise self._syntax_issue(
                f"{name}() variable name must be a simple identifier", args[0].at, syntax=False
            )
        return ComprehensionExpr(at, name, target, (args[0].name,), args[1])


MACRO_ALIASES = {"existsOne": "exists_one"}
TWO_VARIABLES = {"transformList", "transformMap", "transformMapEntry"}
ONE_OR_TWO_VARIABLES = {"all", "exists", "exists_one"}
GLOBAL_MACROS: dict[tuple[str, int], Any] = {("has", 1): _CelParser.has}
MEMBER_MACROS: dict[tuple[str, int], Any] = {
    **{
        (name, 2): _CelParser.fold
        for name in ("all", "exists", "exists_one", "existsOne", "map", "filter")
    },
    **{
        (name, 3): _CelParser.fold
        for name in ("all", "exists", "existsOne", "map", *sorted(TWO_VARIABLES))
    },
    **{(name, 4): _CelParser.fold for name in sorted(TWO_VARIABLES)},
    **{(name, 2): _CelParser.bound_to_optional for name in ("optMap", "optFlatMap")},
}
