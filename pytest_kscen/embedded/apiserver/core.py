"""State shared by all verbs: store, kinds, clock, chance, admission and the kubelets' services.

Handlers receive it as their first argument. Also runs the store's housekeeping. Must not import
verbs.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from pytest_kscen.clock import timestamp_of
from pytest_kscen.embedded.apiserver.admission import Admission
from pytest_kscen.embedded.apiserver.store import Store

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Never

    from pytest_kscen.chance import Chance
    from pytest_kscen.clock import Clock
    from pytest_kscen.embedded.apiserver.kinds import Kind, Kinds
    from pytest_kscen.embedded.apiserver.store import Key
    from pytest_kscen.kube.api import HttpAnswer, HttpCall, Request, TextChunks
    from pytest_kscen.objects.resources import Obj

HOUSEKEEPING_PERIOD = 60.0
HISTORY_ROUNDS = (
    5  # rounds of housekeeping after which history is dropped, as kube-apiserver compacts etcd
)


class LogSource(Protocol):
    """Access to containers' logs: the kubelets as the API server reaches them.

    Both methods refuse with an ApiError, for example when the container has not started.
    """

    async def read(
        self, namespace: str, pod: str, container: str, options: Mapping[str, str]
    ) -> str:
        """Return the log that is there now.

        `options` are the query's parameters: tailLines, previous, sinceSeconds, sinceTime,
        timestamps, limitBytes.
        """

    def follow(
        self, namespace: str, pod: str, container: str, options: Mapping[str, str]
    ) -> TextChunks:
        """Return the log that is there now and all later output, until the container's run ends."""


class PodHttpAccess(Protocol):
    """HTTP access to the addresses of pods and services, as the API server's proxy uses it.

    Set by the cluster that simulates the pods. Raises an OSError with the message of Go's dialler
    if nothing answers at the address.
    """

    async def ask(self, address: str, port: int, call: HttpCall) -> HttpAnswer: ...


@dataclass(slots=True)
class Core:
    """Internal state of one API server, created by `ApiServer` and passed to every handler.

    `served` maps each established CustomResourceDefinition to its object and the kinds it serves.
    """

    clock: Clock
    chance: Chance
    kinds: Kinds
    store: Store = field(default_factory=Store)
    admission: Admission = field(default_factory=Admission)
    logs: LogSource | None = None
    web: PodHttpAccess | None = None
    served: dict[str, tuple[Obj, list[Kind]]] = field(default_factory=dict)
    _now: tuple[float, str] = -1.0, ""
    _housekeeping: asyncio.Task[Never] | None = None
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def now(self) -> str:
        instant, text = self._now
        now = self.clock.now()
        if now != instant:
            text = timestamp_of(now)
            self._now = now, text
        return text

    def uid(self) -> str:
        return self.chance.stream("uid").uid()

    def kind_of(self, request: Request) -> Kind:
        resource = request.resource
        return self.kinds.at(resource.group, resource.version, resource.plural)

    def start_housekeeping(self) -> None:
        """Start the housekeeping task at the first watch, or resume it when something happened.

        Runs each minute of cluster time: ticks the listeners with a deadline and drops old history.
        The task keeps no test alive, and pauses while the store does not change and no deadline is
        set.
        """
        self._changed.set()
        if self._housekeeping is None or self._housekeeping.done():
            self._housekeeping = asyncio.get_running_loop().create_task(
                self._keep_house(), name="the API server's housekeeping"
            )

    async def _keep_house(self) -> Never:
        revisions: deque[int] = deque(maxlen=HISTORY_ROUNDS)
        forgotten = 0
        while True:
            if len(revisions) == HISTORY_ROUNDS and revisions[0] > forgotten:
                forgotten = revisions[0]
                self.store.forget(forgotten)
            revisions.append(self.store.revision)
            # The rounds stay on the minute, even after a pause.
            may_rest = forgotten == self.store.revision
            last = self.clock.now()
            if may_rest and not any(
                listener.has_deadline for listener in self.store.timed_listeners
            ):
                self._changed.clear()
                self.store.on_commit = self._changed.set
                await self._changed.wait()
                self.store.on_commit = None
            waited = self.clock.now() - last
            await self.clock.sleep(
                HOUSEKEEPING_PERIOD - waited % HOUSEKEEPING_PERIOD, background=True
            )
            now = self.clock.now()
            for listener in list(self.store.timed_listeners):
                listener.on_tick(now)


def key_of(kind: Kind, request: Request, name: str) -> Key:
    group, plural = kind.home
    return group, plural, request.namespace if kind.resource.namespaced else "", name
