"""Pods that wait for a node: those to be looked at, by priority and then by turn, and those for which there was none."""

from __future__ import annotations

import asyncio
import heapq
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kscen.kube.informer import Ref
    from pytest_kscen.simulation.scheduler.picture import Candidate

FIRST_BACKOFF, LONGEST_BACKOFF = 1.0, 10.0


@dataclass(slots=True, eq=False)
class Parked:
    """A pod for which there was no node, and how often it was looked at."""

    candidate: Candidate
    by_volumes: bool


class Queue:
    """The queue. A pod is in it once, or parked."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Ref]] = []
        self._waiting: dict[Ref, int] = {}
        self._parked: dict[Ref, Parked] = {}
        self._attempts: dict[Ref, int] = {}
        self._turns = 0
        self._wake = asyncio.Event()

    def add(self, ref: Ref, priority: int) -> None:
        """Look at this pod when it is its turn."""
        self._parked.pop(ref, None)
        if ref not in self._waiting:
            self._turns += 1
            self._waiting[ref] = self._turns
            heapq.heappush(self._heap, (-priority, self._turns, ref))
            self._wake.set()

    def remove(self, ref: Ref) -> None:
        """This pod needs no node any more."""
        self._waiting.pop(ref, None)
        self._parked.pop(ref, None)
        self._attempts.pop(ref, None)

    async def pop(self) -> Ref:
        """The next pod."""
        while True:
            while not self._heap:
                self._wake.clear()
                await self._wake.wait()
            _, turn, ref = heapq.heappop(self._heap)
            if self._waiting.get(ref) == turn:
                del self._waiting[ref]
                return ref

    def park(self, ref: Ref, candidate: Candidate, *, by_volumes: bool) -> None:
        """There is no node for this pod until something changes."""
        self._parked[ref] = Parked(candidate, by_volumes)

    def retry(self, ref: Ref, priority: int) -> None:
        """Its binding has failed: look again, later each time."""
        attempts = self._attempts[ref] = self._attempts.get(ref, 0) + 1
        delay = min(FIRST_BACKOFF * 2 ** (attempts - 1), LONGEST_BACKOFF)
        asyncio.get_running_loop().call_later(delay, self._again, ref, priority)

    def _again(self, ref: Ref, priority: int) -> None:
        if ref in self._attempts:
            self.add(ref, priority)

    def wake(self, helps: Callable[[Parked], bool]) -> None:
        """Something has changed: those whom it helps look again."""
        for ref, parked in list(self._parked.items()):
            if helps(parked):
                self.add(ref, priority_of(parked.candidate))


def priority_of(candidate: Candidate) -> int:
    return int(candidate.pod["spec"].get("priority") or 0)
