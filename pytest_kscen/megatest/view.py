"""Shared watches of volumes, replicas, attachments and nodes, and the signals that end a run for
its volumes.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from pytest_kscen.clock import Signal
from pytest_kscen.kube.informer import SharedInformers
from pytest_kscen.objects.resources import NODES
from pytest_kscen.objects.storage import (
    NODE_LABEL,
    REPLICATED_VOLUME_ATTACHMENTS,
    REPLICATED_VOLUME_REPLICAS,
    REPLICATED_VOLUMES,
    volume_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator
    from typing import Self

    from pytest_kscen.kube.actor import RunContext
    from pytest_kscen.objects.resources import Obj

    Listener = Callable[[], None]


T = TypeVar("T")

EVERYTHING = VOLUME, REPLICA, ATTACHMENT = "volume", "replica", "attachment"
"""Kinds of objects that listeners can select."""


class VolumesWatch:
    """Shared watches of a run's volumes, replicas, attachments and nodes.

    A context manager for each user: the first one starts the watches, the last one ends them.
    """

    def __init__(self, context: RunContext) -> None:
        self._listeners: dict[str, dict[Listener, tuple[str, ...]]] = {}
        self._awaited: dict[asyncio.Future[Any], None] = {}
        self._informers = SharedInformers.of_run(context)
        self._nodes = self._informers.of(NODES)
        self._volumes = self._informers.of(REPLICATED_VOLUMES)
        self._replicas = self._informers.of(REPLICATED_VOLUME_REPLICAS)
        self._attachments = self._informers.of(REPLICATED_VOLUME_ATTACHMENTS)
        self._replicas_of = self._replicas.index("volume", _volume_key, stable=True)
        self._attachments_of = self._attachments.index("volume", _volume_key, stable=True)
        self._volumes.on_change(
            lambda new, old: self._changed((new or old or {})["metadata"]["name"], VOLUME)
        )
        self._replicas.on_change(self._replica_changed)
        self._attachments.on_change(
            lambda new, old: self._changed(volume_of(_either(new, old)), ATTACHMENT)
        )
        self._users = 0
        self._informers_task: asyncio.Task[None] | None = None
        self._crash: RuntimeError | None = None

    async def __aenter__(self) -> Self:
        self._users += 1
        if self._users == 1:
            self._informers_task = self._informers.acquire()
            self._informers_task.add_done_callback(self._report_crash)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._users -= 1
        if self._users == 0:
            await self._informers.release()

    def volume(self, name: str) -> Obj | None:
        return self._volumes.get(name)

    def replicas(self, volume: str) -> list[Obj]:
        return sorted(self._replicas_of.of(volume), key=name_of)

    def attachments(self, volume: str) -> list[Obj]:
        return sorted(self._attachments_of.of(volume), key=name_of)

    async def storage_nodes(self) -> list[str]:
        """Return the nodes to which a volume can be attached, sorted by name.

        Waits for the first list of nodes; later calls return at once.
        """
        await self._nodes.synced()
        return sorted(
            name_of(node)
            for node in self._nodes
            if NODE_LABEL in node["metadata"].get("labels", {})
        )

    @contextlib.contextmanager
    def listening(
        self, volume: str, listener: Listener, *, to: tuple[str, ...] = EVERYTHING
    ) -> Iterator[None]:
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
        condition: Callable[[], T],
        *,
        timeout: float,  # noqa: ASYNC109  # stated beside it
        awaited: str,
        to: tuple[str, ...] = EVERYTHING,
    ) -> T:
        """Return the value of `condition` as soon as it is true; called at each change of `to`.

        Raises a TimeoutError with the words of `awaited`, and a RuntimeError if the watch has
        crashed.
        """
        if self._crash:
            raise self._crash
        future = asyncio.get_running_loop().create_future()

        def update() -> None:
            if not future.done() and (value := condition()):
                future.set_result(value)

        self._awaited[future] = None
        try:
            with self.listening(volume, update, to=to):
                update()
                async with asyncio.timeout(None if math.isinf(timeout) else timeout):
                    return await future  # type: ignore[no-any-return]
        except TimeoutError:
            raise TimeoutError(f"{awaited} within {timeout:g} s") from None
        finally:
            del self._awaited[future]

    # stated beside it
    async def wait_until_deleted(
        self,
        volume: str,
        version: str,
        *,
        timeout: float,  # noqa: ASYNC109
    ) -> None:
        """Wait until a volume that existed at this version is deleted.

        The watch first has to reach the version: at an older one it has no such volume yet.
        Raise TimeoutError after `timeout` seconds.
        """

        def gone() -> bool:
            return self.volume(volume) is None

        async with asyncio.timeout(timeout):
            await self._volumes.reached(version)
        await self.until(
            volume, gone, timeout=timeout, awaited=f"{volume} was not gone", to=(VOLUME,)
        )

    def _replica_changed(self, new: Obj | None, old: Obj | None) -> None:
        """Notify listeners, except of a change of the status alone.

        Statuses of replicas change very often, and no actor waits for them.
        """
        if (
            new is not None
            and old is not None
            and (new["spec"] is old["spec"] or new["spec"] == old["spec"])
            and ("deletionTimestamp" in new["metadata"]) is ("deletionTimestamp" in old["metadata"])
        ):
            return
        self._changed(volume_of(_either(new, old)), REPLICA)

    def _changed(self, volume: str, what: str) -> None:
        if listeners := self._listeners.get(volume):
            for listener, to in list(listeners.items()):
                if what in to:
                    listener()

    def _report_crash(self, task: asyncio.Task[None]) -> None:
        """Raise a crash of the watch in all present and later callers of `until`.

        They would wait forever otherwise.
        """
        if not task.cancelled() and (error := task.exception()):
            self._crash = RuntimeError(f"the watch of volumes has crashed: {error!r}")
            for future in self._awaited:
                if not future.done():
                    future.set_exception(self._crash)


def _either(new: Obj | None, old: Obj | None) -> Obj:
    return new or old or {}


def name_of(obj: Obj) -> str:
    return str(obj["metadata"]["name"])


def _volume_key(part: Obj) -> tuple[str]:
    return (volume_of(part),)


@dataclass(slots=True)
class RunState:
    """Signals of a run's phases, and the state that its volumes' actors share.

    Only `run.lifecycle` gives the signals, by its table.
    """

    stop_requested: Signal = field(default_factory=Signal)
    """End the phase `active`: Ctrl-C, or a crash."""
    counters_frozen: Signal = field(default_factory=Signal)
    """Create no volumes, and count no changes of health."""
    chaos_stopped: Signal = field(default_factory=Signal)
    """Undo the faults of the chaos profiles and cause no others."""
    cleanup_started: Signal = field(default_factory=Signal)
    """Delete every volume."""
    volumes_abandoned: Signal = field(default_factory=Signal)
    """Keep the volumes as they are, and wait for none."""
    chaos_tasks: list[asyncio.Task[None]] = field(default_factory=list)
    """Tasks of churn's pod-destroyer; each ends when the last deleted pod is replaced."""
    running: dict[str, None] = field(default_factory=dict)
    """Volumes that churn has started and that still exist."""
    ready_deadlines: dict[str, float] = field(default_factory=dict)
    """Deadlines by volume for becoming ready, in Unix seconds.

    They hold even if the run's time ends before.
    """
    repair_deadlines: dict[str, float] = field(default_factory=dict)
    """Deadlines by volume for replacing a disk that the replica destroyer deleted."""
    _watch: VolumesWatch | None = None

    @property
    def is_healing(self) -> bool:
        return self.counters_frozen.given and not self.cleanup_started.given

    def deadline_of(self, volume: str) -> float:
        """Return the time until which a volume may stay unready; 0 if it has no deadline."""
        return max(self.ready_deadlines.get(volume, 0.0), self.repair_deadlines.get(volume, 0.0))

    def watch(self, context: RunContext) -> VolumesWatch:
        """Return the run's shared watch, which its user has to enter; created at the first call."""
        if self._watch is None:
            self._watch = VolumesWatch(context)
        return self._watch


async def run_until(signal: Signal, coroutine: Coroutine[Any, Any, T]) -> T | None:
    """Return the coroutine's result, or None if the signal comes first and cancels it.

    It returns after the coroutine's cleanup. If the signal was given before, the coroutine is
    closed without being started.
    """
    if signal.given:
        coroutine.close()
        return None
    loop = asyncio.get_running_loop()
    task, given = loop.create_task(coroutine), loop.create_task(signal.wait())
    try:
        await asyncio.wait((task, given), return_when=asyncio.FIRST_COMPLETED)
    finally:
        given.cancel()
        task.cancel()
        await asyncio.wait((task,))
    return None if task.cancelled() else task.result()
