"""Whose a trouble is, by the rules that a storage tester would go by; what cannot be told apart is nobody's proof.

An incident explains a trouble if it covers it, acts, and has done so for long enough to be noticed. Of several that do, the
one that explains it best has it, and of equals the first; whoever came earlier than that one may have done it too. What a
volume suffers all of those that stop something may have done together.

A link that is not made is explained by what acted before it was due, and for long enough since, but only if both ends are sure
to be at work: while something is done to a machine or an agent of theirs, the link proves nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, TypeVar

from pytest_kscen.chaos.troubles import LINK, MACHINE, NODE, VOLUME

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_kscen.chaos.troubles import Aspect, Key

NOTICING = 6.0  # seconds, DRBD's `timeout`: a silence that is shorter has not cost it a link
SETTLED = 5.0  # seconds without trouble


class Power(IntEnum):
    """How well a kind of incident explains what it covers."""

    WORSENS = 0
    """The network, which is often borne."""
    OVER = 1
    """Whatever ended, and still moves what it had shaken."""
    STOPS = 2
    """Packets, or those who serve a node."""
    TAKES_AWAY = 3
    """A whole machine, once it has been seen to be gone."""


@dataclass(frozen=True, slots=True)
class Reach:
    """What an incident may have done: things of these kinds, on these nodes; or between them and others, or to one volume."""

    kinds: tuple[str, ...]
    nodes: tuple[str, ...]
    against: tuple[str, ...] = ()
    volume: str = ""
    power: Power = Power.STOPS

    @property
    def noticed_after(self) -> float:
        """What is done to packets is not noticed at once."""
        return NOTICING if self.against else 0.0

    def covers(self, aspect: Aspect) -> bool:
        if aspect.kind not in self.kinds or (self.volume and aspect.volume != self.volume):
            return False
        sides = (self.nodes, self.against) if self.against else (self.nodes,)
        return all(any(node in side for node in aspect.nodes) for side in sides)

    def may_isolate(self, aspect: Aspect) -> bool:
        """A cut may take a node from those who watch over it, where these live on one of its machines."""
        return aspect.kind == NODE and bool(self.against) and not self.volume and aspect.key[1] in (*self.nodes, *self.against)


NOWHERE = Reach((), ())


@dataclass(slots=True, eq=False)
class Suspect:
    """An incident that is on or is not recovered from."""

    reach: Reach
    since: float
    until: float | None = None
    asked: bool = False
    """Whether it was only asked for: it may act or not."""
    seen: bool = field(init=False)
    """Whether it acts. A machine is taken away by somebody else: later, or never."""
    shaken: dict[Key, Aspect] = field(default_factory=dict)
    """Its own troubles that are not over."""
    maybe: dict[Key, Aspect] = field(default_factory=dict)
    """Those that are perhaps its own, and are not over."""
    left: dict[Key, str] = field(default_factory=dict)
    """Of those, what an incident that is overtaken has left to it: which one."""
    volumes: dict[str, None] = field(default_factory=dict)
    """Those of which it has shaken a link."""

    def __post_init__(self) -> None:
        self.seen = self.reach.power is not Power.TAKES_AWAY

    @property
    def power(self) -> Power:
        return self.reach.power if self.until is None else min(self.reach.power, Power.OVER)

    def reaches(self, reach: Reach) -> None:
        """What it does not reach it has not perhaps done either."""
        self.reach = reach
        self.maybe = {key: one for key, one in self.maybe.items() if reach.covers(one) or reach.may_isolate(one)}
        self.left = {key: incident for key, incident in self.left.items() if key in self.maybe}

    def acts(self, at: float) -> None:
        """It is seen to."""
        if not self.seen:
            self.seen, self.since = True, at

    def shook(self, trouble: Aspect, at: float) -> None:
        self.shaken[trouble.key] = trouble
        self.maybe.pop(trouble.key, None)
        self.left.pop(trouble.key, None)
        if trouble.kind == LINK:
            self.volumes[trouble.volume] = None
        if trouble.kind == MACHINE:
            self.acts(at)

    def has(self, trouble: Aspect) -> bool:
        """Whether it is its own, or perhaps."""
        return trouble.key in self.shaken or trouble.key in self.maybe

    @property
    def in_trouble(self) -> list[Aspect]:
        """What is not well, and its own or perhaps its own."""
        return [*self.shaken.values(), *self.maybe.values()]

    def is_rid_of(self, trouble: Aspect) -> bool:
        """Whether it had it."""
        own, perhaps = self.shaken.pop(trouble.key, None), self.maybe.pop(trouble.key, None)
        self.left.pop(trouble.key, None)
        return bool(own or perhaps)

    def explains(self, trouble: Aspect, at: float) -> bool:
        if self.asked or not self.reach.covers(trouble) or not (self.seen or trouble.kind == MACHINE):
            return False
        if trouble.due is not None and self.since > trouble.due:
            return False  # it found a link that did not come already
        if trouble.kind == VOLUME and self.reach.against and trouble.volume not in self.volumes:
            return False  # packets reach a volume through its links
        return self._was_noticed(trouble, at) and self._still_moves(trouble, at)

    def may_explain(self, trouble: Aspect) -> bool:
        was_on = self.until is None or (trouble.due is not None and self.until > trouble.due)
        return was_on and (self.reach.covers(trouble) or self.reach.may_isolate(trouble))

    def may_hold_up(self, link: Aspect) -> bool:
        """Whether an end may not be at work because of it."""
        return self.seen and not self.reach.against and any(node in self.reach.nodes for node in link.nodes)

    def _was_noticed(self, trouble: Aspect, at: float) -> bool:
        begun = self.since if trouble.due is None else trouble.due
        return (at if self.until is None else self.until) - begun >= self.reach.noticed_after

    def _still_moves(self, trouble: Aspect, at: float) -> bool:
        return self.until is None or at - self.until <= SETTLED or trouble.volume in self.volumes


AnySuspect = TypeVar("AnySuspect", bound=Suspect)


def whose(trouble: Aspect, suspects: Iterable[AnySuspect], at: float) -> tuple[AnySuspect | None, list[AnySuspect]]:
    """Whose it is, if anybody's, and whose it may be."""
    suspects = list(suspects)
    able = sorted((each for each in suspects if each.explains(trouble, at)), key=lambda each: (-each.power, each.since))
    if not able or (trouble.due is not None and (trouble.excused or any(each.may_hold_up(trouble) for each in suspects))):
        return None, [each for each in suspects if each.may_explain(trouble)]
    best = able[0]
    if trouble.kind == VOLUME:
        needed = min(best.power, Power.STOPS)
        together = [each for each in able if each.power >= needed]
        if len(together) > 1:
            return None, together
    return best, [each for each in able if each.since < best.since]
