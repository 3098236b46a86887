"""The moments that end a run for its volumes, and the view of them that all their actors share."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from pytest_kscen.clock import Signal
from pytest_kscen.megatest.view import View

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import Any

    from pytest_kscen.kube.actor import Stage

T = TypeVar("T")


@dataclass(slots=True)
class Season:
    """What every volume listens to."""

    frozen: Signal = field(default_factory=Signal)
    """No new volumes, and no checker counts any more."""
    over: Signal = field(default_factory=Signal)
    """Every volume goes."""
    abandoned: Signal = field(default_factory=Signal)
    """Everybody leaves, and the volumes stay behind."""
    shakers: list[asyncio.Task[None]] = field(default_factory=list)
    """What churn itself does to the storage's pods: over when the last one is replaced."""
    running: dict[str, None] = field(default_factory=dict)
    """The volumes that churn has begun and that are not gone."""
    awaited: dict[str, float] = field(default_factory=dict)
    """Until when volumes that are not ready yet have the time for it, also if the run's time is up before that."""
    lacking: dict[str, float] = field(default_factory=dict)
    """Until when volumes of which we took a disk have the time to be whole again, at least."""
    _view: View | None = None

    @property
    def heals(self) -> bool:
        """Whether what is left is given the time to become ready again: nobody does anything to it."""
        return self.frozen.given and not self.over.given

    def awaits(self, volume: str) -> float:
        """Until when one that is not ready has the time for it, at least."""
        return max(self.awaited.get(volume, 0.0), self.lacking.get(volume, 0.0))

    def view(self, stage: Stage) -> View:
        """To be entered: it is kept while somebody looks."""
        if self._view is None:
            self._view = View(stage)
        return self._view


async def unless(signal: Signal, coroutine: Coroutine[Any, Any, T]) -> T | None:
    """What the coroutine comes to; None if the signal is there before it, which cancels it."""
    if signal.given:
        coroutine.close()
        return None
    loop = asyncio.get_running_loop()
    task, word = loop.create_task(coroutine), loop.create_task(signal.wait())
    try:
        await asyncio.wait((task, word), return_when=asyncio.FIRST_COMPLETED)
    finally:
        word.cancel()
        task.cancel()
        await asyncio.wait((task,))
    return None if task.cancelled() else task.result()
