"""The pictures that a run's actors share: the first who looks begins them, the last ends them, and then nothing is known."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from pytest_kscen.kube.informer import Informers

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pytest_kscen.kube.actor import Stage
    from pytest_kscen.kube.informer import Informer
    from pytest_kscen.kube.picture import Handler
    from pytest_kscen.objects.resources import Obj

NAME = "onlookers"


class SharedInformers(Informers):
    """One watch of each resource for a whole run."""

    _lookers = 0
    _life: asyncio.Task[None] | None = None

    @classmethod
    def of_run(cls, stage: Stage) -> SharedInformers:
        """The tested cluster's."""
        if NAME not in stage.shared:
            actor = stage.actor(NAME)
            stage.shared[NAME] = cls(actor.api, actor.clock, stage.chance)
        informers: SharedInformers = stage.shared[NAME]
        return informers

    def look(self) -> asyncio.Task[None]:
        """From now on; what is returned is over when nobody looks any more, or when a handler has crashed."""
        self._lookers += 1
        if self._life is None or self._life.done():
            self.forget()
            self._life = asyncio.get_running_loop().create_task(self.run(), name="the pictures that actors share")
        return self._life

    async def leave(self) -> None:
        self._lookers -= 1
        if not self._lookers and self._life:
            life, self._life = self._life, None
            life.cancel()
            await asyncio.wait((life,))

    @contextlib.asynccontextmanager
    async def heard(self) -> AsyncIterator[Ears]:
        """Look, and listen for a while."""
        ears = Ears(self.look())
        try:
            yield ears
        finally:
            ears.close()
            await self.leave()


class Ears:
    """One listener's handlers among others': a crash of theirs ends them, and nobody else."""

    def __init__(self, life: asyncio.Task[None]) -> None:
        self._life = life
        self._crash: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._handlers: list[tuple[Informer, Handler]] = []

    def on_change(self, informer: Informer, handler: Handler) -> None:
        def heard(new: Obj | None, old: Obj | None) -> None:
            if self._crash.done():
                return
            try:
                handler(new, old)
            except Exception as error:  # noqa: BLE001  # whatever it is, it is not the others'
                self._crash.set_exception(error)

        self._handlers.append((informer, heard))
        informer.on_change(heard)

    async def run(self) -> None:
        """For ever, but for a crash, here or of the pictures."""
        await asyncio.wait((self._crash, self._life), return_when=asyncio.FIRST_COMPLETED)
        (self._crash if self._crash.done() else self._life).result()

    def close(self) -> None:
        for informer, handler in self._handlers:
            informer.off_change(handler)
