"""What an actor is given: the API, the clock, chance of its own and a pen. It reaches the world through nothing else."""

from __future__ import annotations

import contextlib
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_kscen.kube.recording import RecordingApi

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
class Stage:
    """Where actors of one run get their hands."""

    api_for: Callable[[str], Api]
    clock: Clock
    chance: Chance
    journal: Journal
    run_id: str

    def actor(self, name: str) -> Actor:
        witness = self.journal.witness(name)
        api = RecordingApi(self.api_for(name.partition("/")[0]), witness)
        return Actor(name, api, self.clock, self.chance.stream(name), witness, {RUN_LABEL: self.run_id})
