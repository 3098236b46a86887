"""Which of several nodes that are equally good."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytest_kscen.chance import Stream
    from pytest_kscen.simulation.scheduler.framework.pods import PodInfo

T = TypeVar("T")


class Ties:
    """Chance decides; unless a judge is there, who is given the pod and the nodes' names, as one that follows another scheduler."""

    def __init__(self, chance: Stream) -> None:
        self.judge: Callable[[PodInfo, Sequence[str]], str] | None = None
        self._chance = chance

    def decide(self, pod: PodInfo, equals: Sequence[T], name_of: Callable[[T], str] = str) -> T:
        """Where there is one alone, nobody is asked and nothing is drawn."""
        if len(equals) == 1:
            return equals[0]
        if self.judge is None:
            return self._chance.choice(equals)
        by_name = {name_of(each): each for each in equals}
        return by_name[self.judge(pod, tuple(by_name))]
