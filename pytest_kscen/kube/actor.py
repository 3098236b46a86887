"""Actors: the API, clock, random stream and journal that one actor uses.

An actor has no other access to the cluster. `RunContext` makes actors for one run; each
write of an actor is recorded in the run's journal.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from pytest_kscen.kube.api import ForwardingApi
from pytest_kscen.kube.retrying import RetryingApi, may_be_done
from pytest_kscen.objects.errors import ApiError, NotFound
from pytest_kscen.objects.storage import DEFAULT_HEALTH

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from pytest_kscen.chance import Chance, Stream
    from pytest_kscen.clock import Clock
    from pytest_kscen.kube.api import Api, ApiWrite
    from pytest_kscen.objects.resources import Obj, Resource
    from pytest_kscen.objects.storage import HealthSource

T = TypeVar("T")


class JournalWriter(Protocol):
    """Journal of one actor, as far as the actor uses it: `journal.ActorJournal` is one."""

    @property
    def now(self) -> float | None:
        """Return the time that a note written now would get; None if no journal is open."""

    def note(self, what: str, **data: Any) -> None: ...

    def called(self, name: str) -> JournalWriter:
        """Return the journal of a part of this actor."""


class RunJournal(Protocol):
    """Journal of a run, as far as actors use it: `journal.Journal` is one."""

    @property
    def now(self) -> float: ...

    def for_actor(self, actor: str) -> JournalWriter: ...


class RecordingApi(ForwardingApi):
    """Api that records each write in the journal, before it is sent and when it is answered.
    Reads pass through unrecorded, so that a journal holds what was changed and nothing else.
    """

    def __init__(self, api: Api, journal: JournalWriter) -> None:
        super().__init__(api)
        self._journal = journal

    async def _write(self, write: ApiWrite, send: Callable[[], Awaitable[T]]) -> T:
        details = {
            "verb": write.verb,
            "resource": write.resource.qualified,
            "name": write.name,
            **({"namespace": write.namespace} if write.namespace else {}),
            **({"subresource": write.subresource} if write.subresource else {}),
            **({"body": write.body} if write.body is not None else {}),
        }
        try:
            answer = await send()
        except ApiError as error:
            self._journal.note(
                "refused",
                **details,
                reason=error.status.get("reason", ""),
                message=error.message,
            )
            raise
        metadata = answer.get("metadata", {}) if isinstance(answer, dict) else {}
        self._journal.note(
            "wrote",
            **{**details, "name": metadata.get("name") or write.name},
            revision=metadata.get("resourceVersion"),
        )
        return answer


RUN_LABEL = "kscen.io/run"
RECORD_FIELDS = frozenset([*vars(logging.makeLogRecord({})), "message", "asctime"])
"""Fields of a log record. Details of these names get a trailing underscore."""


@dataclass(slots=True)
class OngoingAction:
    """Action that an actor performs: began, perhaps accepted by the API, and ended with a
    result. Yielded by `Actor.doing`; its caller may set the result before the block ends.
    """

    clock: Clock
    accepted_at: float | None = None
    result: str = "done"
    """Result that is recorded if nothing is raised."""

    def accepted(self) -> None:
        """Mark the action as accepted by the API: the responsible component can perform it from
        now on.
        """
        self.accepted_at = self.clock.now()

    @property
    def availability(self) -> dict[str, float]:
        """Return the seconds since the API accepted the action, as a journal field; empty if the
        API has not accepted it.
        """
        return (
            {}
            if self.accepted_at is None
            else {"available": round(self.clock.now() - self.accepted_at, 6)}
        )


@dataclass(frozen=True, slots=True)
class Actor:
    """Name, API, clock, random stream and journal of one actor. Objects that it creates must
    carry its labels, by which cleanup finds them.
    """

    name: str
    api: Api
    clock: Clock
    chance: Stream
    journal: JournalWriter
    labels: dict[str, str]
    """Labels of every object that the actor makes: the run's id."""

    def note(self, what: str, **data: Any) -> None:
        self.journal.note(what, **data)

    def log(self, level: int, what: str, **details: Any) -> None:
        """Log a message for people under the logger of this kind of actor. Details are
        appended to the text and set as fields of the record, together with the actor's name and
        the journal's time.
        """
        logger = logging.getLogger(f"pytest_kscen.{self.name.partition('/')[0]}")
        if logger.isEnabledFor(level):
            fields_text = "".join(f" {name}={value}" for name, value in details.items())
            own = {
                f"{name}_" if name in RECORD_FIELDS else name: value
                for name, value in details.items()
            }
            fields = {"actor": self.name, "at": self.journal.now, **own}
            logger.log(level, "%s: %s%s", self.name, what, fields_text, extra=fields)

    async def list_own(self, resource: Resource) -> list[Obj]:
        """List the objects of a resource that carry this run's label; empty where the resource
        is not served.
        """
        try:
            return (
                await self.api.list(resource, labels=f"{RUN_LABEL}={self.labels[RUN_LABEL]}")
            ).items
        except NotFound:
            return []

    def with_retry_time(self, seconds: float) -> Actor:
        """Return the same actor with an API that stops retrying a refused request after this
        many seconds.
        """
        return (
            replace(self, api=self.api.with_retry_time(seconds))
            if isinstance(self.api, RetryingApi)
            else self
        )

    @contextlib.asynccontextmanager
    async def doing(self, action: str, **details: Any) -> AsyncIterator[OngoingAction]:
        """Record and log the beginning and the end of an action: result, seconds taken, and the
        reason if it was stopped or failed.
        """
        began = self.clock.now()
        self.note("began", action=action, **details)
        self.log(logging.INFO, "begins", action=action, **details)
        result, level, ongoing = "", logging.INFO, OngoingAction(self.clock)
        uncertainty: dict[str, bool] = {}
        try:
            yield ongoing
            result = ongoing.result
        except asyncio.CancelledError as end:
            result = ": ".join(["stopped", *map(str, end.args)])
            raise
        except BaseException as error:
            result, level = f"failed: {error!r}", logging.WARNING
            uncertainty = {"possibly_done": True} if may_be_done(error) else {}
            raise
        finally:
            took = round(self.clock.now() - began, 6)
            self.note(
                "ended",
                action=action,
                **details,
                result=result,
                took=took,
                **ongoing.availability,
                **uncertainty,
            )
            self.log(level, "ended", action=action, **details, result=result, took=took)


@dataclass(frozen=True, slots=True)
class ParentCluster:
    """Cluster whose virtual machines are the tested cluster's nodes, and the namespace of those
    machines. Chaos on machines acts there.
    """

    api_for: Callable[[str], Api]
    namespace: str
    owned: bool
    """True if the run made the cluster, and may delete what is in it."""
    machines: frozenset[str] | None = None
    """Machines in the namespace that are the tested cluster's nodes; None if all are."""


@dataclass(frozen=True, slots=True)
class RunContext:
    """Shared environment of one run's actors: API, clock, randomness, journal, run id, parent
    cluster and health source. It makes an `Actor` for each name.
    """

    api_for: Callable[[str], Api]
    clock: Clock
    chance: Chance
    journal: RunJournal
    run_id: str
    owned: bool = True
    """True if the run owns the tested cluster, and may delete what is in it."""
    parent: ParentCluster | None = None
    health: HealthSource = DEFAULT_HEALTH
    """Conditions of a volume from which its health is read."""
    shared: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)
    """Objects that the run's actors share, by the name of their creator."""
    keys: dict[str, str] = field(default_factory=dict, repr=False, compare=False)
    """Names of the run's volumes without the salt, by their names with it."""
    kinds: Counter[str] = field(default_factory=Counter, repr=False, compare=False)
    """Number of actors made for each kind that may have several."""

    def next_name(self, kind: str) -> str:
        """Return the name of another actor of this kind: the kind itself for the first,
        then `kind/2`, `kind/3`. So each draws from a stream of its own.
        """
        self.kinds[kind] += 1
        return f"{kind}/{self.kinds[kind]}" if self.kinds[kind] > 1 else kind

    def actor(self, name: str, *, key: str = "", temporary: bool = False) -> Actor:
        """Make an actor for this name. Its stream is selected by `key` where the name contains a
        salt, so that draws depend on the seed alone.

        A temporary actor is made once; its stream is not kept.
        """
        return self._actor(
            name, self.api_for, self.journal.for_actor(name), key=key or name, temporary=temporary
        )

    def in_parent(self, name: str) -> Actor:
        """Make the same actor for the parent cluster; raises LookupError if the run has none."""
        if self.parent is None:
            raise LookupError(
                f"{name} acts on virtual machines, and this run has no parent cluster that has them"
            )
        return self._actor(
            name, self.parent.api_for, self.journal.for_actor(name).called("parent"), key=name
        )

    def _actor(
        self,
        name: str,
        api_for: Callable[[str], Api],
        journal: JournalWriter,
        *,
        key: str,
        temporary: bool = False,
    ) -> Actor:
        stream = self.chance.temporary_stream if temporary else self.chance.stream
        api = RecordingApi(api_for(name.partition("/")[0]), journal)
        patient = RetryingApi(api, self.clock, stream(f"{key} tries again"))
        return Actor(name, patient, self.clock, stream(key), journal, {RUN_LABEL: self.run_id})
