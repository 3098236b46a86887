"""Form of a probe: `clock: {before: "2030-01-01T00:00:00Z"}` passes while the cluster's time is
before that."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import ClassVar

from pytest_kscen.workflow.probes import ProbeOutcome


@dataclass(frozen=True, slots=True)
class ClockProbe:
    key: ClassVar[str] = "clock"
    patience: ClassVar[float] = 1.0
    before: str

    @classmethod
    def of(cls, part):
        part.only(("before",))
        return cls(part.text("before", required=True))

    async def ask(self, context, within):
        seconds = context.actor.clock.now()
        now = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return ProbeOutcome(now < self.before, f"it is {now}")
