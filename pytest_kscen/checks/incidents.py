"""The incidents that a journal tells of, and whether each declared profile has had any that did something."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pytest_kscen.checks.verdict import UNKNOWN, VALID, Finding

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pytest_kscen.journal import Entry


@dataclass(slots=True)
class IncidentRecord:
    """One incident; times are seconds since the run began."""

    id: str
    profile: str
    variant: str
    targets: dict[str, list[str]]
    started_at: float
    removed_at: float | None = None
    effects: list[str] = field(default_factory=list)

    @property
    def had_effect(self) -> bool:
        return bool(self.effects)

    def as_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "profile": self.profile,
            "variant": self.variant,
            "targets": self.targets,
            "started_at": self.started_at,
            "removed_at": self.removed_at,
            "effects": self.effects,
        }


def incidents(journal: Iterable[Entry]) -> list[IncidentRecord]:
    found: dict[str, IncidentRecord] = {}
    for entry in journal:
        data = entry.data
        if entry.what == "incident-started":
            found[data["incident"]] = IncidentRecord(data["incident"], data["profile"], data["variant"], data["targets"], entry.at)
        elif entry.what == "incident-effect":
            found[data["incident"]].effects.append(data["effect"])
        elif entry.what == "incident-ended":
            found[data["incident"]].removed_at = entry.at
    return list(found.values())


def judge(declared: Sequence[str], seen: Sequence[IncidentRecord]) -> Iterator[Finding]:
    """A profile that did nothing proves nothing."""
    for profile in declared:
        own = [incident for incident in seen if incident.profile == profile]
        if any(incident.had_effect for incident in own):
            yield Finding(f"chaos:{profile}", VALID)
        else:
            yield Finding(f"chaos:{profile}", UNKNOWN, f"none of the {len(own)} incidents of {profile} had an effect: run longer")
