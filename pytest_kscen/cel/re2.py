"""Translation of Go's regular expressions (RE2) to Python's, with Go's error messages.

Used by CEL's string functions and by `patterns`.
"""

from __future__ import annotations

import functools
import re
import unicodedata

MAX_REPEATS = 1000
PRIVATE = 0x32400  # no letters, digits or marks from this code point on
SAME_IN_BOTH = frozenset("dDwWsSbBAafnrtv")
POSIX = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "ascii": r"\x00-\x7F",
    "blank": r"\t ",
    "cntrl": r"\x00-\x1F\x7F",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": r"!-/:-@\[-`{-~",
    "space": r"\t\n\v\f\r ",
    "upper": "A-Z",
    "word": "0-9A-Za-z_",
    "xdigit": "0-9A-Fa-f",
}
REPEAT = re.compile(r"\{(\d+)(?:,(\d*))?\}")
FLAGS = re.compile(r"\(\?([imsU]*)(?:-([imsU]+))?([:)])")
NAMED = re.compile(r"\(\?P?<(\w+)>")


class BadPattern(ValueError):
    """Pattern that Go would not compile; the text is Go's."""


@functools.lru_cache(maxsize=2048)
def compile_pattern(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(_Re2Rewriter(pattern).rewritten(), re.ASCII)
    except re.error as issue:
        raise BadPattern(f"error parsing regexp: {issue.msg}: `{pattern}`") from None


@functools.lru_cache(maxsize=64)
def _category(name: str) -> str:
    """Return all characters of a Unicode category, as the ranges of a character class."""
    member = (
        str.isalpha if name == "L" else lambda letter: unicodedata.category(letter).startswith(name)
    )
    ranges: list[list[int]] = []
    for code, letter in enumerate(map(chr, range(PRIVATE))):
        if member(letter):
            if ranges and ranges[-1][1] == code - 1:
                ranges[-1][1] = code
            else:
                ranges.append([code, code])
    return "".join(f"\\U{first:08x}-\\U{last:08x}" for first, last in ranges)


class _Re2Rewriter:
    """Single pass over a pattern that rewrites it for Python.

    Each open group records the flags that were set inside it.
    """

    def __init__(self, pattern: str) -> None:
        self._text = pattern
        self._at = 0
        self._out: list[str] = []
        self._flags: list[list[str]] = [[]]
        self._multiline = False
        self._repeatable = False
        self._repeated = ""

    def rewritten(self) -> str:
        while self._at < len(self._text):
            self._step()
        if len(self._flags) > 1:
            raise self._refusal("missing closing )", self._text)
        self._out.append(")" * len(self._flags[0]))
        return "".join(self._out)

    def _step(self) -> None:
        letter = self._text[self._at]
        if letter in "*+?" or (letter == "{" and REPEAT.match(self._text, self._at)):
            found = REPEAT.match(self._text, self._at)
            operator = found[0] if found else self._text[self._at]
            lazy = self._text[self._at + len(operator) : self._at + len(operator) + 1] == "?"
            whole = operator + ("?" if lazy else "")
            if self._repeated:
                raise self._refusal("invalid nested repetition operator", self._repeated + whole)
            if not self._repeatable:
                raise self._refusal("missing argument to repetition operator", operator)
            if found:
                least, most = int(found[1]), int(found[2] or 0)
                if max(least, most) > MAX_REPEATS or (found[2] and most < least):
                    raise self._refusal("invalid repeat count", operator)
            self._emit(whole, len(whole))
            self._repeated = whole
            return
        self._repeated = ""
        handlers = {
            "\\": lambda: self._emit(*self._escaped(self._at, in_class=False)),
            "[": self._class,
            "(": self._open,
            ")": self._close,
            "|": self._alternative,
        }
        if letter in handlers:
            handlers[letter]()
        else:
            literal = "$" if self._multiline else r"\Z"
            self._emit({"$": literal, "{": r"\{"}.get(letter, letter), 1)

    def _emit(self, piece: str, length: int, *, repeatable: bool = True) -> None:
        self._out.append(piece)
        self._at += length
        self._repeatable = repeatable

    def _refusal(self, why: str, what: str) -> BadPattern:
        return BadPattern(f"error parsing regexp: {why}: `{what}`")

    def _escaped(self, at: int, *, in_class: bool) -> tuple[str, int]:
        letter = self._text[at + 1 : at + 2]
        if not letter:
            raise self._refusal("trailing backslash at end of expression", "")
        if letter in "pP":
            found = re.compile(r"\\[pP](?:\{(\^?)(\w+)\}|(\w))").match(self._text, at)
            name = (found[2] or found[3]) if found else ""
            if found is None or not (ranges := _category(name)):
                raise self._refusal(
                    "invalid character class range", found[0] if found else self._text[at : at + 2]
                )
            negated = (self._text[at + 1] == "P") != bool(found[1])
            if in_class and not negated:
                return ranges, len(found[0])
            return f"[{'^' if negated else ''}{ranges}]", len(found[0])
        if letter == "Q" and not in_class:
            end = self._text.find(r"\E", at)
            quoted = self._text[at + 2 :] if end < 0 else self._text[at + 2 : end]
            return re.escape(quoted), len(quoted) + (2 if end < 0 else 4)
        if letter == "z" and not in_class:
            return r"\Z", 2
        if found := re.compile(r"\\x\{([0-9A-Fa-f]+)\}|\\x([0-9A-Fa-f]{2})|\\([0-7]{2,3}|0)").match(
            self._text, at
        ):
            code = int(found[1] or found[2], 16) if found[1] or found[2] else int(found[3], 8)
            return f"\\U{code:08x}", len(found[0])
        if letter in SAME_IN_BOTH or not letter.isalnum():
            return f"\\{letter}", 2
        raise self._refusal("invalid escape sequence", f"\\{letter}")

    def _class(self) -> None:
        start, at = self._at, self._at + 1
        piece = "["
        if self._text[at : at + 1] == "^":
            piece, at = "[^", at + 1
        first = True
        while first or self._text[at : at + 1] != "]":
            if at >= len(self._text):
                raise self._refusal("missing closing ]", self._text[start:])
            if found := re.compile(r"\[:(\^?)(\w+):\]").match(self._text, at):
                if found[2] not in POSIX:
                    raise self._refusal("invalid character class range", found[0])
                part, length = POSIX[found[2]], len(found[0])
            elif self._text[at] == "\\":
                part, length = self._escaped(at, in_class=True)
            elif found := re.compile(r"([^\\\]])-([^\\\]])").match(self._text, at):
                if found[1] > found[2]:
                    raise self._refusal("invalid character class range", found[0])
                part, length = f"{re.escape(found[1])}-{re.escape(found[2])}", 3
            else:
                part, length = re.escape(self._text[at]) if self._text[at] != "-" else r"\-", 1
            piece, at, first = piece + part, at + length, False
        self._emit(f"{piece}]", at + 1 - start)

    def _open(self) -> None:
        if self._text[self._at + 1 : self._at + 2] != "?":
            self._enter("(", 1)
        elif found := NAMED.match(self._text, self._at):
            self._enter(f"(?P<{found[1]}>", len(found[0]))
        elif found := FLAGS.match(self._text, self._at):
            # Flags of a group of their own, or of the rest of this one.
            on, off, end = found[1].replace("U", ""), (found[2] or "").replace("U", ""), found[3]
            self._multiline = ("m" in on) or (self._multiline and "m" not in off)
            piece = f"(?{on}{'-' + off if off else ''}:"
            if end == ":":
                self._enter(piece, len(found[0]))
                return
            self._flags[-1].append(piece)
            self._emit(piece, len(found[0]), repeatable=False)
        else:
            length = 4 if self._text[self._at + 2 : self._at + 4] in {"<=", "<!"} else 3
            raise self._refusal(
                "invalid or unsupported Perl syntax", self._text[self._at : self._at + length]
            )

    def _enter(self, piece: str, length: int) -> None:
        self._flags.append([])
        self._emit(piece, length, repeatable=False)

    def _close(self) -> None:
        if len(self._flags) == 1:
            raise self._refusal("unexpected )", self._text)
        self._emit(")" * len(self._flags.pop()) + ")", 1)

    def _alternative(self) -> None:
        """Rewrite a bar; flags set before it stay in effect behind it."""
        inside = self._flags[-1]
        self._emit(")" * len(inside) + "|" + "".join(inside), 1, repeatable=False)
