"""What an actor is given: the API, the clock, chance of its own and a pen. It reaches the world through nothing else."""

from __future__ import annotations

import contextlib
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_kscen.kube.recording import RecordingApi
from pytest_kscen.kube.retrying import RetryingApi

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from pytest_kscen.chance import Chance, Stream
    from pytest_kscen.clock import Clock
    from pytest_kscen.journal import Journal, Witness
    from pytest_kscen.kube.api import Api

logger = logging.getLogger("pytest_kscen.actors")

RUN_LABEL = "kscen.io/run"


@dataclass(frozen=True, slots=True)
class Actor:
    """One actor's hands."""

    name: str
    api: Api
    clock: Clock
    chance: Stream
    witness: Witness
    labels: dict[str, str]
    """What every object that the actor makes must carry: the run's id."""

    def note(self, what: str, **data: Any) -> None:
        self.witness.note(what, **data)

    @contextlib.asynccontextmanager
    async def doing(self, action: str, **particulars: Any) -> AsyncIterator[None]:
        """Log and note that an action begins, and how it ended and how long it took."""
        began = self.clock.now()
        self.note("began", action=action, **particulars)
        logger.info("%s: %s begins", self.name, action, extra={"actor": self.name, "action": action, **particulars})
        result = "failed"
        try:
            yield
            result = "done"
        except BaseException as error:
            result = f"failed: {error!r}"
            raise
        finally:
            took = round(self.clock.now() - began, 6)
            self.note("ended", action=action, **particulars, result=result, took=took)
            logger.info(
                "%s: %s %s after %.3f s",
                self.name,
                action,
                result,
                took,
                extra={"actor": self.name, "action": action, "result": result, "took": took, **particulars},
            )


@dataclass(frozen=True, slots=True)
class Parent:
    """The cluster in which the tested one's nodes are virtual machines, and the namespace of those."""

    api_for: Callable[[str], Api]
    namespace: str
    owned: bool
    """Whether we made it, and may delete what we find in it."""


@dataclass(frozen=True, slots=True)
class Stage:
    """Where actors of one run get their hands."""

    api_for: Callable[[str], Api]
    clock: Clock
    chance: Chance
    journal: Journal
    run_id: str
    owned: bool = True
    """Whether the tested cluster is ours, and we may delete what we find in it."""
    parent: Parent | None = None

    def actor(self, name: str) -> Actor:
        return self._actor(name, self.api_for, self.journal.witness(name))

    def in_parent(self, name: str) -> Actor:
        """The same actor's hands in the parent cluster."""
        if self.parent is None:
            raise LookupError(f"{name} acts on virtual machines, and this run knows of no parent cluster that has them")
        return self._actor(name, self.parent.api_for, self.journal.witness(name).called("parent"))

    def _actor(self, name: str, api_for: Callable[[str], Api], witness: Witness) -> Actor:
        api = RecordingApi(api_for(name.partition("/")[0]), witness)
        patient = RetryingApi(api, self.clock, self.chance.stream(f"{name} tries again"))
        return Actor(name, patient, self.clock, self.chance.stream(name), witness, {RUN_LABEL: self.run_id})
