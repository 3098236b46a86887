"""Whether Go's regular expression is found in a text, in time that grows with the text alone, as in
Go.

Python's engine goes back and tries again, and some patterns make it do so for ever. Here all ways
through a pattern are walked at once, a character at a time; where they stand together is kept, so
that each character costs one look."""

from __future__ import annotations

import functools
import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from pytest_kscen.cel.re2 import BadPattern, compiled

if TYPE_CHECKING:
    from collections.abc import Iterator

LARGEST = 4000
"""Places in a pattern, each repetition counted out: Go repeats up to 1000 times, and what may be
left out takes two places.
"""
DEEPEST = 100
"""Groups in a pattern."""
MOST_KEPT = 200_000
"""Places that may be remembered of one pattern before it starts anew."""
PIECE = re.compile(
    r"(?P<open>\((?:\?(?:P<\w+>|(?P<flags>[ims]*(?:-[ims]+)?):))?)"
    r"|(?P<repeat>(?:[*+?]|\{(?P<least>\d+)(?P<comma>,?)(?P<most>\d*)\})\??)"
    r"|(?P<edge>\^|\$|\\[ZAbB])"
    r"|(?P<close>\))|(?P<bar>\|)"
    r"|(?P<one>\[\^?(?:\\.|[^\\\]])*\]|\\U[0-9a-f]{8}|\\.|.)",
    re.DOTALL,
)
END = ""
"""What comes behind a text, and before it."""


@functools.lru_cache(maxsize=512)
def finder(pattern: str) -> Finder:
    """A BadPattern says in Go's words what is wrong with it."""
    if pattern.count("(") > DEEPEST:
        raise BadPattern(f"error parsing regexp: expression nests too deeply: `{pattern}`")
    return Finder(pattern, compiled(pattern).pattern)


class TooMuchWork(Exception):
    """The pattern and the text would take longer than was granted."""


class Place(NamedTuple):
    """A place in a pattern: what it asks of the text, and where it leads."""

    ask: str
    """A character's pattern, an edge, or nothing."""
    leads: tuple[int, ...]
    takes: bool
    """Whether it takes a character."""


@dataclass(slots=True)
class Spot:
    """All places at which one may stand, and where each character leads from there."""

    places: frozenset[int]
    before: str
    leads: dict[str, Spot] = field(default_factory=dict)


class Finder:
    """A pattern that is ready to be looked for."""

    def __init__(self, pattern: str, rewritten: str) -> None:
        self._places: list[Place] = []
        self._pattern = pattern
        self._found = self._add("", (), takes=False)
        self._found_spot = Spot(frozenset({self._found}), END)
        self._start = self._build(_Pieces(rewritten).alternatives(""), self._found)
        self._effort = math.inf
        self._plain = None if set(rewritten) & set("*+?{|") else re.compile(rewritten, re.ASCII)
        self._forget()

    @property
    def size(self) -> int:
        return len(self._places)

    def finds(self, text: str, effort: float = math.inf) -> bool:
        """Effort is counted in places looked at; a character in a familiar situation costs none."""
        if self._plain:  # there is nothing to try twice
            return self._plain.search(text) is not None
        self._effort = effort
        spot = self._first
        for letter in text:
            following = spot.leads.get(letter) or self._learn(spot, letter)
            if following is self._found_spot:
                return True
            spot = following
        return self._learn(spot, END) is self._found_spot

    # --- walking ---

    def _forget(self) -> None:
        self._kept = 0
        self._spots: dict[tuple[frozenset[int], str], Spot] = {}
        self._first = self._spot(frozenset({self._start}), END)

    def _spot(self, places: frozenset[int], before: str) -> Spot:
        key = (places, _sort_of(before))
        if key not in self._spots:
            self._spots[key] = Spot(places, before)
            self._kept += len(places)
        return self._spots[key]

    def _learn(self, spot: Spot, letter: str) -> Spot:
        if self._kept > MOST_KEPT:
            self._forget()
        # Everywhere one comes to without taking a character.
        reached: set[int] = set()
        waiting = list(spot.places)
        while waiting:
            at = waiting.pop()
            if at not in reached:
                reached.add(at)
                place = self._places[at]
                if not place.takes and (not place.ask or _is_edge(place.ask, spot.before, letter)):
                    waiting.extend(place.leads)
        self._effort -= len(reached)
        if self._effort < 0:
            raise TooMuchWork(self._pattern)
        following = self._found_spot
        if self._found not in reached:
            taken = {lead for at in reached for lead in self._taken(at, letter)}
            following = self._spot(frozenset(taken | {self._start}), letter)
        spot.leads[letter] = following
        return following

    def _taken(self, at: int, letter: str) -> tuple[int, ...]:
        place = self._places[at]
        return place.leads if letter and place.takes and _is_one(place.ask, letter) else ()

    # --- reading: each part is built knowing where it leads ---

    def _add(self, ask: str, leads: tuple[int, ...], *, takes: bool) -> int:
        if len(self._places) >= LARGEST:
            raise BadPattern(f"error parsing regexp: expression too large: `{self._pattern}`")
        self._places.append(Place(ask, leads, takes))
        return len(self._places) - 1

    def _build(self, tree: Tree, then: int) -> int:
        match tree:
            case One(ask, takes):
                return self._add(ask, (then,), takes=takes)
            case Either(ways):
                return self._add("", tuple(self._build(way, then) for way in ways), takes=False)
            case Row(parts):
                for part in reversed(parts):
                    then = self._build(part, then)
                return then
            case Repeat(part, least, most):
                return then if _is_empty(part) else self._repeated(part, least, most, then)

    def _repeated(self, part: Tree, least: int, most: int | None, then: int) -> int:
        if most is None:
            again = self._add("", (), takes=False)
            self._places[again] = Place("", (self._build(part, again), then), takes=False)
            at = again
        else:
            at = then
            for _ in range(most - least):
                at = self._add("", (self._build(part, at), then), takes=False)
        for _ in range(least):
            at = self._build(part, at)
        return at


class One(NamedTuple):
    """A character of a class, or an edge."""

    ask: str
    takes: bool


class Row(NamedTuple):
    """One after the other."""

    parts: list[Tree]


class Either(NamedTuple):
    """Any of them."""

    ways: list[Tree]


class Repeat(NamedTuple):
    """So many times; without an end if there is no most."""

    part: Tree
    least: int
    most: int | None


Tree = One | Row | Either | Repeat


def _is_empty(tree: Tree) -> bool:
    """Whether it takes nothing and asks nothing, so that repeating it is no work."""
    match tree:
        case Row(parts) | Either(parts):
            return all(_is_empty(part) for part in parts)
        case Repeat(part, _, most):
            return most == 0 or _is_empty(part)
        case _:
            return False


class _Pieces:
    """A rewritten pattern, read piece by piece.

    Which of two ways is preferred does not matter here.
    """

    def __init__(self, rewritten: str) -> None:
        self._pieces: Iterator[re.Match[str]] = PIECE.finditer(rewritten)

    def alternatives(self, flags: str) -> Tree:
        ways: list[Tree] = []
        row: list[Tree] = []
        for piece in self._pieces:
            if piece["close"]:
                break
            if piece["bar"]:
                ways.append(Row(row))
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
                row.append(One(piece["edge"] + multiline, takes=False))
            else:
                row.append(
                    One(
                        f"(?{flags.replace('m', '')}:{piece['one']})"
                        if flags.strip("m")
                        else piece["one"],
                        takes=True,
                    )
                )
        return Either([*ways, Row(row)]) if ways else Row(row)


def _repetition(piece: re.Match[str], part: Tree) -> Repeat:
    sign = piece["repeat"][0]
    if sign != "{":
        return Repeat(part, 1 if sign == "+" else 0, 1 if sign == "?" else None)
    least = int(piece["least"])
    if not piece["comma"]:
        return Repeat(part, least, least)
    return Repeat(part, least, int(piece["most"]) if piece["most"] else None)


@functools.lru_cache(maxsize=65536)
def _is_one(ask: str, letter: str) -> bool:
    return re.fullmatch(ask, letter, re.ASCII) is not None


@functools.lru_cache(maxsize=4096)
def _sort_of(letter: str) -> str:
    """What an edge sees in a character."""
    return letter if letter in (END, "\n") else "w" if _is_word(letter) else " "


def _is_word(letter: str) -> bool:
    return letter == "_" or (letter.isascii() and letter.isalnum())


def _is_edge(ask: str, before: str, after: str) -> bool:
    match ask:
        case "^" | r"\A":
            return before == END
        case "$" | r"\Z":
            return after == END
        case "^m":
            return before in (END, "\n")
        case "$m":
            return after in (END, "\n")
        case _:
            return (_is_word(before) != _is_word(after)) == (ask == r"\b")
