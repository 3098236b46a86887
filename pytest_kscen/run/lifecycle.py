"""Life cycle of a run: preflight, chaos lease, start, freeze, heal, liveness, cleanup."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Protocol

from pytest_kscen.chaos.cleanup import clear_after, clear_before
from pytest_kscen.chaos.clients import NAMESPACE
from pytest_kscen.chaos.observer import Observer
from pytest_kscen.clock import Signal
from pytest_kscen.judge.start_and_end import CLUSTER
from pytest_kscen.kube.actor import RUN_LABEL
from pytest_kscen.kube.leases import LASTS, Lease, holder_name
from pytest_kscen.kube.retrying import RetryingApi
from pytest_kscen.kube.waiting import Unseen, wait_for
from pytest_kscen.megatest.view import RunPhases, unless
from pytest_kscen.megatest.volume import clear_volumes, multivolume
from pytest_kscen.objects.errors import Forbidden, NotFound
from pytest_kscen.objects.storage import REPLICATED_VOLUMES
from pytest_kscen.run.cleanup import HURRIED, PATIENCE, leftovers
from pytest_kscen.run.preflight import PreflightRefused, preflight, warn_of_strangers

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any

    from pytest_kscen.chaos.incidents import Incident
    from pytest_kscen.clock import ActorCrashedError
    from pytest_kscen.journal import JournalLost
    from pytest_kscen.kube.actor import Actor, RunContext
    from pytest_kscen.kube.api import Api
    from pytest_kscen.run.plan import Plan

    Begin = Callable[[Coroutine[Any, Any, None], str], asyncio.Task[None]]


# What becomes of the volumes that are left when everything is healed: each is ready again
# within a stated time, or is late. One that was never ready yet has at least the time for that
# which it had from its beginning, and one that lacks a disk that we took the same from when we
# took it.


HEALING = 300.0  # seconds of cluster time
ASKED_AGAIN = 10.0  # seconds after which a refused look is told as one


async def late(context: RunContext, awaits: Callable[[str], float]) -> list[str] | None:
    """The volumes that did not make it; None if none is known to be late, and at one nobody
    could look to the end.
    """
    actor = context.actor("run")
    staying = [
        one["metadata"]["name"]
        for one in await actor.own(REPLICATED_VOLUMES)
        if not one["metadata"].get("deletionTimestamp")
    ]
    async with asyncio.TaskGroup() as waiting:
        healed = [
            waiting.create_task(
                _heals(context, actor, name, awaits(name)), name=f"healing of {name}"
            )
            for name in staying
        ]
    found = {name: heals.result() for name, heals in zip(staying, healed, strict=True)}
    known = [name for name, heals in found.items() if heals is False]
    return known if known or None not in found.values() else None


async def _heals(context: RunContext, actor: Actor, name: str, until: float) -> bool | None:
    """One that goes meanwhile is waited for no more; whether it should have gone is judged by
    who deleted it.
    """
    try:
        await wait_for(
            actor.with_patience(ASKED_AGAIN).api,
            actor.clock,
            REPLICATED_VOLUMES,
            name,
            condition=lambda volume: volume is None or context.health.is_ready(volume),
            timeout=max(HEALING, until - actor.clock.now()),
        )
    except Unseen as unseen:
        actor.log(
            logging.WARNING,
            "whether it became ready again nobody could see",
            volume=name,
            why=str(unseen),
        )
        return None
    except TimeoutError:
        return False
    return True


# A run's right to chaos on clusters that others may reach: it holds a Lease in each while it
# lives. Two runs would clear each other's chaos away, and each would take the other's for an
# effect of its own. The Lease is beside the virtual machines of a parent, and where the chaos
# Jobs of a tested cluster are. A cluster of ours is its run's alone.


NAME = "chaos.kscen.io"
TAKEN = (
    "another run does chaos on {where}, or needs it calm: {holder} holds the Lease "
    "{lease} there: wait for its end, or end it; "
    "if it was killed, try again when {lasts:.0f} s are over"
)
FORBIDDEN = (
    "whether another run does chaos on {where} cannot be told: {error}. Our user needs "
    "get, create and update of "
    "leases.coordination.k8s.io in the namespace {namespace} there"
)
NOWHERE = "{where} has no namespace {namespace}: see --vm-namespace"


class ChaosLease:
    """One run's, from when it is claimed until it is given back."""

    def __init__(self, context: RunContext, begin: Begin) -> None:
        """`begin` has a coroutine live beside the run, which hears if that crashes: when a Lease
        is lost.
        """
        self._context = context
        self._begin = begin
        self._over = Signal()
        self._kept: list[asyncio.Task[None]] = []

    async def claim(self, word: Signal) -> None:
        """It is ours, or was, or a PreflightRefused says whose it is; or the word comes first."""
        if self._kept:
            return
        if not self._context.owned:
            await self._claim(self._context.api_for(NAME), NAMESPACE, "the tested cluster", word)
        parent = self._context.parent
        if parent and not parent.owned:
            await self._claim(parent.api_for(NAME), parent.namespace, "the parent cluster", word)

    async def _claim(self, api: Api, namespace: str, where: str, word: Signal) -> None:
        clock, who = self._context.clock, holder_name(f"run {self._context.run_id}")
        patient = RetryingApi(api, clock, self._context.chance.stream(f"lease of {where}"))
        lease = Lease(patient, clock, NAME, namespace, who)
        try:
            async with self._context.actor(NAME).doing("claim the Lease", where=where) as claim:
                if holder := await lease.claim(word):  # which may wait for one who was killed
                    claim.result = "stopped"
                if holder and not word.given:
                    raise PreflightRefused(
                        TAKEN.format(where=where, holder=holder, lease=lease, lasts=LASTS)
                    )
        except Forbidden as error:
            raise PreflightRefused(
                FORBIDDEN.format(where=where, namespace=namespace, error=error.message)
            ) from None
        except NotFound:
            raise PreflightRefused(NOWHERE.format(where=where, namespace=namespace)) from None
        if not holder:
            self._kept.append(
                self._begin(lease.hold(self._over.wait()), f"lease {lease} of {where}")
            )

    async def give_back(self) -> None:
        self._over.give()
        if self._kept:
            await asyncio.wait(self._kept)


class Companion(Protocol):
    """What a test has brought into the run besides its plan."""

    async def heal(self) -> None:
        """Take back what disturbs the cluster."""

    async def clear(self) -> None:
        """Leave nothing behind."""


class Life:
    """One run's actors."""

    def __init__(self, context: RunContext, plan: Plan) -> None:
        self.context = context
        self.season = RunPhases()
        self.by_hand: list[Incident] = []
        self._plan = plan
        self._director = context.actor("run")
        self.is_stopped = False
        self._calm, self._word = Signal(), Signal()
        self._crash: Exception | None = None
        self._chaos: list[asyncio.Task[Any]] = []
        self._others: list[asyncio.Task[Any]] = []
        self.companions: list[Companion] = []
        self._tenure = ChaosLease(context, self.begin_beside)
        context.journal.when_lost = self._hear_of_journal

    def stop(self) -> None:
        """End before the time."""
        self._director.note("stopped-early")
        self.is_stopped = True
        self._word.give()

    def hurry(self) -> None:
        """Leave volumes behind; chaos is still removed."""
        self._director.note("volumes-abandoned")
        self.season.abandoned.give()

    @property
    def goes_on(self) -> bool:
        """Whether nobody has said stop, and nobody has crashed."""
        return not self._word.given

    async def begin(self, duration: float | None, let_in: Callable[[], object]) -> None:
        """`let_in` hears that nothing refuses the run, before it does more than to hold a Lease."""
        watched = list(self.context.health.conditions)
        declared = {
            "churn": self._plan.churn is not None,
            "chaos": self._plan.declared,
            "conditions": watched,
            "link_profiles": [each.name for each in self._plan.profiles if each.cuts_links],
        }
        label = f"{RUN_LABEL}={self.context.run_id}"
        self._director.note(
            "run-started", seed=self.context.chance.seed, duration=duration, label=label, **declared
        )
        await preflight(self.context, self._plan)
        if not self.context.owned:
            await warn_of_strangers(self.context)
        may_shake = (
            self._plan.declared or self.context.parent
        )  # one that a test conducts may cause faults of which no plan tells
        if may_shake:
            await self.claim()
        let_in()
        if not self.goes_on:
            return
        if may_shake:
            await clear_before(self.context, everything=bool(self._plan.chaos))
        if self._plan.churn:
            self.start(multivolume(self.context, self._plan.churn, self.season), "multivolume")
        for profile in self._plan.chaos:
            self._chaos.append(self._begun(profile.run(self.context, self._calm), profile.name))

    async def claim(self) -> None:
        """Whoever does chaos does so alone."""
        await self._tenure.claim(self._word)

    async def break_off(self) -> None:
        """It could not begin: nobody acts for it any more."""
        begun = [*self._chaos, *self._others]
        for task in begun:
            task.cancel()
        if begun:
            await asyncio.wait(begun)
        await self._tenure.give_back()

    def start(self, coroutine: Coroutine[Any, Any, Any], name: str) -> None:
        self._others.append(self._begun(coroutine, name))

    def begin_beside(self, coroutine: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        """What lives as long as a companion of the run wants it to; its crash is the run's."""
        return self._begun(coroutine, name)

    def _begun(self, coroutine: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(coroutine, name=name)
        task.add_done_callback(self._heard_of)
        return task

    def _heard_of(self, task: asyncio.Task[Any]) -> None:
        """What an API refuses ends no actor; what does is a mistake of ours, and nothing that
        follows would mean anything.
        """
        if not task.cancelled() and (error := task.exception()):
            if not isinstance(error, Exception):
                raise error
            self._crashed(task.get_name(), error)
            self._word.give()

    def hear_of_cluster(self, crash: ActorCrashedError) -> None:
        """One of those who make up the cluster has crashed: what it did after that would mean
        nothing either.
        """
        self._crashed(CLUSTER, crash)
        self._word.give()

    def _hear_of_journal(self, lost: JournalLost) -> None:
        """What nobody can write down nobody can judge."""
        self._crashed("journal", lost)
        self._word.give()

    def _crashed(self, actor: str, error: Exception) -> None:
        self._crash = self._crash or error
        self._director.note("crashed", component=actor, error=repr(error))
        self._director.log(logging.ERROR, "crashed", who=actor, error=repr(error))

    async def last(self, seconds: float) -> None:
        """Let this much time pass, or less if the run does not go on."""
        if self.goes_on:
            await self._word.within(seconds)

    def raise_crash(self) -> None:
        if self._crash:
            raise self._crash

    async def end(self) -> None:
        self.season.frozen.give()
        for incident in self._lasting():
            self._director.note("incident-lasting", incident=incident.id)
        self._director.note("frozen")
        self._calm.give()
        if shaking := [*self._chaos, *self.season.shakers]:
            await asyncio.wait(shaking)
        for companion in self.companions:
            await self._try(f"healing {companion}", companion.heal())
        self._director.note("healed")
        await self._try("liveness", self._judge_liveness())
        for incident in reversed(self._lasting()):
            await self._try(f"end of {incident.id}", incident.end())
        self.season.over.give()
        if self._others:
            await asyncio.wait(self._others)
        try:
            await self._clear()
        finally:
            await self._tenure.give_back()
        self._director.note("run-ended")
        self.raise_crash()

    def _lasting(self) -> list[Incident]:
        """What was stated by hand and not taken back."""
        return [incident for incident in self.by_hand if incident.is_on]

    async def _try(self, what: str, coroutine: Coroutine[Any, Any, None]) -> None:
        """It may fail: what comes after it is tried all the same."""
        try:
            await coroutine
        except Exception as error:  # noqa: BLE001  # told, and raised when everything was tried
            self._crashed(what, error)

    async def _judge_liveness(self) -> None:
        """Whoever hurries does not wait for it, and it stays unknown."""
        found = await unless(self.season.abandoned, late(self.context, self.season.awaits))
        if found is not None:
            self._director.note("liveness", late=found)

    async def _clear(self) -> None:
        if self._plan.declared or self.context.parent or Observer.is_in(self.context):
            await unless(self.season.abandoned, Observer.of(self.context).settle())
            await self._try("clearing chaos away", clear_after(self.context))
        for companion in reversed(self.companions):
            await self._try(f"clearing {companion} away", companion.clear())
        if self._crash and not self.season.abandoned.given:
            await self._try("clearing volumes away", clear_volumes(self.context))
        await self._try("looking for leftovers", self._look_for_leftovers())

    async def _look_for_leftovers(self) -> None:
        found = await leftovers(
            self.context, self._director, HURRIED if self.season.abandoned.given else PATIENCE
        )
        self._director.note("leftovers", objects=found)
