"""What every verb works with: the store, the kinds, time, chance and the gatekeepers."""

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
    from pytest_kscen.kube.api import HttpAnswer, HttpCall, Request, Texts
    from pytest_kscen.objects.resources import Obj

HOUSEKEEPING = 60.0
REMEMBERED = 5  # rounds of it after which history is forgotten, as kube-apiserver has etcd do


class LogSource(Protocol):
    """Where containers' logs are: the kubelets, seen from the API server.

    Refuses with an ApiError.
    """

    async def read(
        self, namespace: str, pod: str, container: str, options: Mapping[str, str]
    ) -> str:
        """`options` are the query's: tailLines, previous, sinceSeconds, sinceTime, timestamps,
        limitBytes.
        """

    def follow(self, namespace: str, pod: str, container: str, options: Mapping[str, str]) -> Texts:
        """The same, and what is written from now on, until the container's run ends."""


class Web(Protocol):
    """What can be reached over HTTP at pods' addresses.

    That nobody answers is an OSError, in the words of Go's dialler.
    """

    async def ask(self, address: str, port: int, call: HttpCall) -> HttpAnswer: ...


@dataclass(slots=True)
class Core:
    """The insides of one API server."""

    clock: Clock
    chance: Chance
    kinds: Kinds
    store: Store = field(default_factory=Store)
    admission: Admission = field(default_factory=Admission)
    logs: LogSource | None = None
    web: Web | None = None
    served: dict[str, tuple[Obj, list[Kind]]] = field(
        default_factory=dict
    )  # the established definitions and what they bring
    _now: tuple[float, str] = -1.0, ""
    _housekeeper: asyncio.Task[Never] | None = None
    _stirred: asyncio.Event = field(default_factory=asyncio.Event)

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

    def keep_house(self) -> None:
        """From the first watch on, each minute: who waits is reminded of the time, and what is old
        is forgotten.

        It keeps no test alive, and rests while nothing happens.
        """
        self._stirred.set()
        if self._housekeeper is None or self._housekeeper.done():
            self._housekeeper = asyncio.get_running_loop().create_task(
                self._house(), name="the API server's housekeeping"
            )

    async def _house(self) -> Never:
        revisions: deque[int] = deque(maxlen=REMEMBERED)
        forgotten = 0
        while True:
            if len(revisions) == REMEMBERED and revisions[0] > forgotten:
                forgotten = revisions[0]
                self.store.forget(forgotten)
            revisions.append(self.store.revision)
            # The rounds keep their beat, whether somebody rests between them or not.
            may_rest = forgotten == self.store.revision
            last = self.clock.now()
            if may_rest and not any(listener.is_mortal for listener in self.store.forgetful):
                self._stirred.clear()
                self.store.stir = self._stirred.set
                await self._stirred.wait()
                self.store.stir = None
            waited = self.clock.now() - last
            await self.clock.sleep(HOUSEKEEPING - waited % HOUSEKEEPING, background=True)
            now = self.clock.now()
            for listener in list(self.store.forgetful):
                listener.remind(now)


def key_of(kind: Kind, request: Request, name: str) -> Key:
    group, plural = kind.home
    return group, plural, request.namespace if kind.resource.namespaced else "", name
