"""One fault's life, as the journal keeps it: started on its targets, seen to have an effect or not, ended, recovered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_kscen.kube.actor import Actor


@dataclass(slots=True)
class Incident:
    """A fault that is on. Its actor says what becomes of it."""

    actor: Actor
    profile: str
    variant: str
    targets: Mapping[str, Sequence[str]]
    id: str = ""
    began: float = 0.0

    def start(self) -> None:
        self.id = f"{self.variant}-{self.actor.chance.suffix()}"
        self.began = self.actor.clock.now()
        self.actor.note(
            "incident-started",
            incident=self.id,
            profile=self.profile,
            variant=self.variant,
            targets={kind: list(names) for kind, names in self.targets.items()},
        )

    def has_effect(self, what: str) -> None:
        self.actor.note("incident-effect", incident=self.id, effect=what)

    def end(self) -> None:
        self.actor.note("incident-ended", incident=self.id, lasted=round(self.actor.clock.now() - self.began, 6))
