"""Search for Go's regular expressions in time linear in the text, as in Go.

Python's engine backtracks and needs exponential time for some patterns. Here a pattern becomes an
NFA whose states are followed in parallel; visited sets of states are cached as DFA states, so that
a character usually costs one lookup.
"""

from __future__ import annotations

import functools
import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from pytest_kscen.cel.re2 import BadPattern, compile_pattern

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_STATES = 4000
"""NFA states of a pattern with its repetitions expanded.

Go repeats up to 1000 times, and an optional part takes two states.
"""
MAX_GROUPS = 100
"""Groups in a pattern."""
CACHE_LIMIT = 200_000
"""Cached states of one pattern, above which the cache is emptied."""
PIECE = re.compile(
    r"(?P<open>\((?:\?(?:P<\w+>|(?P<flags>[ims]*(?:-[ims]+)?):))?)"
    r"|(?P<repeat>(?:[*+?]|\{(?P<least>\d+)(?P<comma>,?)(?P<most>\d*)\})\??)"
    r"|(?P<edge>\^|\$|\\[ZAbB])"
    r"|(?P<close>\))|(?P<bar>\|)"
    r"|(?P<one>\[\^?(?:\\.|[^\\\]])*\]|\\U[0-9a-f]{8}|\\.|.)",
    re.DOTALL,
)
END = ""
"""Symbol for the start and the end of the text."""


@functools.lru_cache(maxsize=512)
def matcher_of(pattern: str) -> LinearMatcher:
    """Return the cached matcher of a pattern; raises BadPattern with Go's message.

    Matchers keep their cached states, so repeated searches get faster.
    """
    if pattern.count("(") > MAX_GROUPS:
        raise BadPattern(f"error parsing regexp: expression nests too deeply: `{pattern}`")
    return LinearMatcher(pattern, compile_pattern(pattern).pattern)


class EffortExceeded(Exception):
    """Search that exceeds the effort allowed by the caller.

    Raised so that a hostile pattern or text cannot stop the run; see `LinearMatcher.finds`.
    """


class NfaState(NamedTuple):
    """NFA state: its condition on the text, and its successors.

    A state either consumes a character, tests an edge, or only branches; successors are indexes in
    the matcher's list of states.
    """

    condition: str
    """A character's pattern, an edge, or empty."""
    successors: tuple[int, ...]
    consumes: bool
    """True if the state consumes a character."""


@dataclass(slots=True)
class DfaState:
    """Set of NFA states, with the known transitions by character.

    `previous` is the character before it, of which edges see only the class.
    """

    states: frozenset[int]
    previous: str
    successors: dict[str, DfaState] = field(default_factory=dict)


class LinearMatcher:
    """Compiled pattern with its cache of states; not safe for use by several threads.

    Patterns without repetitions and alternatives use Python's engine, which is linear for them.
    """

    def __init__(self, pattern: str, rewritten: str) -> None:
        self._nfa: list[NfaState] = []
        self._pattern = pattern
        self._accepting = self._add("", (), consumes=False)
        self._accepting_state = DfaState(frozenset({self._accepting}), END)
        self._start = self._build(_PatternParser(rewritten).alternatives(""), self._accepting)
        self._effort = math.inf
        self._plain = None if set(rewritten) & set("*+?{|") else re.compile(rewritten, re.ASCII)
        self._reset()

    @property
    def size(self) -> int:
        return len(self._nfa)

    def finds(self, text: str, effort: float = math.inf) -> bool:
        """Return True if the pattern occurs in the text.

        `effort` is the number of NFA states that may be visited; cached transitions are free.
        Raises EffortExceeded above it.
        """
        if self._plain:  # no repetition, so Python's engine is linear too
            return self._plain.search(text) is not None
        self._effort = effort
        state = self._first
        for letter in text:
            following = state.successors.get(letter) or self._transition(state, letter)
            if following is self._accepting_state:
                return True
            state = following
        return self._transition(state, END) is self._accepting_state

    # Search.

    def _reset(self) -> None:
        self._cached = 0
        self._states: dict[tuple[frozenset[int], str], DfaState] = {}
        self._first = self._state(frozenset({self._start}), END)

    def _state(self, states: frozenset[int], previous: str) -> DfaState:
        key = (states, _edge_class(previous))
        if key not in self._states:
            self._states[key] = DfaState(states, previous)
            self._cached += len(states)
        return self._states[key]

    def _transition(self, state: DfaState, letter: str) -> DfaState:
        if self._cached > CACHE_LIMIT:
            self._reset()
        # All states reachable without consuming a character.
        reached: set[int] = set()
        waiting = list(state.states)
        while waiting:
            at = waiting.pop()
            if at not in reached:
                reached.add(at)
                place = self._nfa[at]
                if not place.consumes and (
                    not place.condition or _is_edge(place.condition, state.previous, letter)
                ):
                    waiting.extend(place.successors)
        self._effort -= len(reached)
        if self._effort < 0:
            raise EffortExceeded(self._pattern)
        following = self._accepting_state
        if self._accepting not in reached:
            places = [self._nfa[at] for at in reached] if letter else []
            taken = {
                successor
                for place in places
                if place.consumes and _matches_character(place.condition, letter)
                for successor in place.successors
            }
            following = self._state(frozenset(taken | {self._start}), letter)
        state.successors[letter] = following
        return following

    # Construction: each part is built with its successor known.

    def _add(self, condition: str, successors: tuple[int, ...], *, consumes: bool) -> int:
        if len(self._nfa) >= MAX_STATES:
            raise BadPattern(f"error parsing regexp: expression too large: `{self._pattern}`")
        self._nfa.append(NfaState(condition, successors, consumes))
        return len(self._nfa) - 1

    def _build(self, tree: PatternTree, then: int) -> int:
        match tree:
            case PatternAtom(condition, consumes):
                return self._add(condition, (then,), consumes=consumes)
            case PatternAlternation(ways):
                return self._add("", tuple(self._build(way, then) for way in ways), consumes=False)
            case PatternSequence(parts):
                for part in reversed(parts):
                    then = self._build(part, then)
                return then
            case PatternRepeat(part, least, most):
                return then if _is_empty(part) else self._repeated(part, least, most, then)

    def _repeated(self, part: PatternTree, least: int, most: int | None, then: int) -> int:
        if most is None:
            again = self._add("", (), consumes=False)
            self._nfa[again] = NfaState("", (self._build(part, again), then), consumes=False)
            at = again
        else:
            at = then
            for _ in range(most - least):
                at = self._add("", (self._build(part, at), then), consumes=False)
        for _ in range(least):
            at = self._build(part, at)
        return at


class PatternAtom(NamedTuple):
    condition: str
    consumes: bool


class PatternSequence(NamedTuple):
    parts: list[PatternTree]


class PatternAlternation(NamedTuple):
    ways: list[PatternTree]


class PatternRepeat(NamedTuple):
    part: PatternTree
    least: int
    most: int | None


PatternTree = PatternAtom | PatternSequence | PatternAlternation | PatternRepeat


def _is_empty(tree: PatternTree) -> bool:
    """Return True if a tree consumes and requires nothing, so that repeating it has no effect."""
    match tree:
        case PatternSequence(parts) | PatternAlternation(parts):
            return all(_is_empty(part) for part in parts)
        case PatternRepeat(part, _, most):
            return most == 0 or _is_empty(part)
        case _:
            return False


class _PatternParser:
    """Parser of a rewritten pattern; the preference among alternatives is irrelevant here."""

    def __init__(self, rewritten: str) -> None:
        self._pieces: Iterator[re.Match[str]] = PIECE.finditer(rewritten)

    def alternatives(self, flags: str) -> PatternTree:
        ways: list[PatternTree] = []
        row: list[PatternTree] = []
        for piece in self._pieces:
            if piece["close"]:
                break
            if piece["bar"]:
                ways.append(PatternSequence(row))
                row = []
            elif piece["open"]:
                change = piece["flags"] or ""
                on, _, off = change.partition("-")
                row.append(
                    self.alternatives(
                        "".join(
                            flag
                            for flag in "ims"
                            if (flag in flags or flag in on) and flag not in off
                        )
                    )
                )
            elif piece["repeat"]:
                row.append(_repetition(piece, row.pop()))
            elif piece["edge"]:
                multiline = "m" if piece["edge"] in "^$" and "m" in flags else ""
                row.append(PatternAtom(piece["edge"] + multiline, consumes=False))
            else:
                row.append(
                    PatternAtom(
                        f"(?{flags.replace('m', '')}:{piece['one']})"
                        if flags.strip("m")
                        else piece["one"],
                        consumes=True,
                    )
                )
        return PatternAlternation([*ways, PatternSequence(row)]) if ways else PatternSequence(row)


def _repetition(piece: re.Match[str], part: PatternTree) -> PatternRepeat:
    sign = piece["repeat"][0]
    if sign != "{":
        return PatternRepeat(part, 1 if sign == "+" else 0, 1 if sign == "?" else None)
    least = int(piece["least"])
    if not piece["comma"]:
        return PatternRepeat(part, least, least)
    return PatternRepeat(part, least, int(piece["most"]) if piece["most"] else None)


@functools.lru_cache(maxsize=65536)
def _matches_character(condition: str, letter: str) -> bool:
    return re.fullmatch(condition, letter, re.ASCII) is not None


@functools.lru_cache(maxsize=4096)
def _edge_class(letter: str) -> str:
    return letter if letter in (END, "\n") else "w" if _is_word(letter) else " "


def _is_word(letter: str) -> bool:
    return letter == "_" or (letter.isascii() and letter.isalnum())


def _is_edge(condition: str, previous: str, after: str) -> bool:
    match condition:
        case "^" | r"\A":
            return previous == END
        case "$" | r"\Z":
            return after == END
        case "^m":
            return previous in (END, "\n")
        case "$m":
            return after in (END, "\n")
        case _:
            return (_is_word(previous) != _is_word(after)) == (condition == r"\b")
