"""What is known of the volumes, their replicas and attachments and of the nodes: one watch of each for all of a run's actors.

It is kept while somebody looks. Whoever listens to a volume is called at each change of it and of its attachments, and when
another replica is there, or something else is asked of one: what replicas say of themselves is for whoever looks.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from typing import TYPE_CHECKING, Any, TypeVar

from pytest_kscen.kube.looking import SharedInformers
from pytest_kscen.objects.resources import NODES
from pytest_kscen.objects.storage import (
    NODE_LABEL,
    REPLICATED_VOLUME_ATTACHMENTS,
    REPLICATED_VOLUME_REPLICAS,
    REPLICATED_VOLUMES,
    volume_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Self

    from pytest_kscen.kube.actor import Stage
    from pytest_kscen.objects.resources import Obj

    Listener = Callable[[], None]

T = TypeVar("T")

EVERYTHING = VOLUME, REPLICA, ATTACHMENT = "volume", "replica", "attachment"
"""What may have changed."""


class View:
    """Entered by everybody who looks; the first begins it, the last ends it."""

    def __init__(self, stage: Stage) -> None:
        self._listeners: dict[str, dict[Listener, tuple[str, ...]]] = {}
        self._awaited: dict[asyncio.Future[Any], None] = {}
        self._informers = SharedInformers.of_run(stage)
        self._nodes = self._informers.of(NODES)
        self._volumes = self._informers.of(REPLICATED_VOLUMES)
        self._replicas = self._informers.of(REPLICATED_VOLUME_REPLICAS)
        self._attachments = self._informers.of(REPLICATED_VOLUME_ATTACHMENTS)
        self._replicas_of = self._replicas.index("volume", _shelf, lasting=True)
        self._attachments_of = self._attachments.index("volume", _shelf, lasting=True)
        self._volumes.on_change(lambda new, old: self._changed((new or old or {})["metadata"]["name"], VOLUME))
        self._replicas.on_change(self._replica_changed)
        self._attachments.on_change(lambda new, old: self._changed(volume_of(_either(new, old)), ATTACHMENT))
        self._lookers = 0
        self._life: asyncio.Task[None] | None = None
        self._crash: RuntimeError | None = None

    async def __aenter__(self) -> Self:
        self._lookers += 1
        if self._lookers == 1:
            self._life = self._informers.look()
            self._life.add_done_callback(self._ended)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._lookers -= 1
        if self._lookers == 0:
            await self._informers.leave()

    def volume(self, name: str) -> Obj | None:
        return self._volumes.get(name)

    def replicas(self, volume: str) -> list[Obj]:
        return sorted(self._replicas_of.of(volume), key=name_of)

    def attachments(self, volume: str) -> list[Obj]:
        return sorted(self._attachments_of.of(volume), key=name_of)

    async def storage_nodes(self) -> list[str]:
        """The nodes on which a volume can be attached, as soon as they are known."""
        await self._nodes.synced()
        return sorted(name_of(node) for node in self._nodes if NODE_LABEL in node["metadata"].get("labels", {}))

    @contextlib.contextmanager
    def listening(self, volume: str, listener: Listener, *, to: tuple[str, ...] = EVERYTHING) -> Iterator[None]:
        self._listeners.setdefault(volume, {})[listener] = to
        try:
            yield
        finally:
            del self._listeners[volume][listener]
            if not self._listeners[volume]:
                del self._listeners[volume]

    async def until(
        self,
        volume: str,
        held: Callable[[], T],
        *,
        timeout: float,  # noqa: ASYNC109  # stated beside it
        awaited: str,
        to: tuple[str, ...] = EVERYTHING,
    ) -> T:
        """What this says of the volume as soon as it says something true; it is asked when one of those has changed."""
        if self._crash:
            raise self._crash
        future = asyncio.get_running_loop().create_future()

        def look() -> None:
            if not future.done() and (said := held()):
                future.set_result(said)

        self._awaited[future] = None
        try:
            with self.listening(volume, look, to=to):
                look()
                async with asyncio.timeout(None if math.isinf(timeout) else timeout):
                    return await future  # type: ignore[no-any-return]
        except TimeoutError:
            raise TimeoutError(f"{awaited} within {timeout:g} s") from None
        finally:
            del self._awaited[future]

    async def lost(self, volume: str, version: str, *, timeout: float) -> None:  # noqa: ASYNC109  # stated beside it
        """Until a volume that was there at this version is there no more."""

        def gone() -> bool:
            return self.volume(volume) is None

        async with asyncio.timeout(timeout):
            await self._volumes.reached(version)
        await self.until(volume, gone, timeout=timeout, awaited=f"{volume} was not gone", to=(VOLUME,))

    # --- being told ---

    def _replica_changed(self, new: Obj | None, old: Obj | None) -> None:
        if new is None or old is None or _asks_something_else(new, old):
            self._changed(volume_of(_either(new, old)), REPLICA)

    def _changed(self, volume: str, what: str) -> None:
        if listeners := self._listeners.get(volume):
            for listener, to in list(listeners.items()):
                if what in to:
                    listener()

    def _ended(self, life: asyncio.Task[None]) -> None:
        """A crash is everybody's who waits; it would be a wait for ever."""
        if not life.cancelled() and (error := life.exception()):
            self._crash = RuntimeError(f"nobody watches the volumes any more: {error!r}")
            for future in self._awaited:
                if not future.done():
                    future.set_exception(self._crash)


def _either(new: Obj | None, old: Obj | None) -> Obj:
    return new or old or {}


def _asks_something_else(new: Obj, old: Obj) -> bool:
    if new["spec"] is not old["spec"] and new["spec"] != old["spec"]:
        return True
    return ("deletionTimestamp" in new["metadata"]) is not ("deletionTimestamp" in old["metadata"])


def name_of(obj: Obj) -> str:
    return str(obj["metadata"]["name"])


def _shelf(part: Obj) -> tuple[str]:
    return (volume_of(part),)
