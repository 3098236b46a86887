"""Verdicts (valid, invalid, unknown; merged by priority), names of actions, and their counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_kscen.journal import Entry


VALID, UNKNOWN, INVALID = "valid", "unknown", "invalid"
_PRIORITY = (VALID, UNKNOWN, INVALID)


@dataclass(frozen=True, slots=True)
class Finding:
    """Verdict of one check, with its reason; a valid finding may have none.

    `check` is a stable name such as `volumes` or `chaos:vm-reboot`, by which reports group
    findings.
    """

    check: str
    verdict: str
    why: str = ""


def merged(findings: Iterable[Finding]) -> str:
    return max((finding.verdict for finding in findings), key=_PRIORITY.index, default=VALID)


CREATE, READY, DELETE = "create the volume", "wait until the volume is ready", "delete the volume"
ATTACH, ATTACH_AT_FIRST = "attach", "attach at first"
DETACH, DETACH_EVERYWHERE = "detach", "detach everywhere"
RESIZE = "resize the volume"
TAKE = "delete a replica"
CLEAR = "clear away before the run"


@dataclass(slots=True)
class Tally:
    """Counts and times of one action of the run's actors.

    Times are seconds, of successful attempts only. `stopped` are attempts that the end of their
    actor cut short: neither successes nor failures.
    """

    done: int = 0
    failed: int = 0
    stopped: int = 0
    total: float = 0.0
    longest: float = 0.0
    refusal: str = ""
    """Result of its first failure."""

    @property
    def average(self) -> float:
        return self.total / self.done if self.done else 0.0

    def count(self, result: str, took: float) -> None:
        if result == "done":
            self.done += 1
            self.total += took
            self.longest = max(self.longest, took)
        elif result.startswith("stopped"):
            self.stopped += 1
        else:
            self.failed += 1
            self.refusal = self.refusal or result

    def as_json(self) -> dict[str, Any]:
        return {
            "done": self.done,
            "failed": self.failed,
            "stopped": self.stopped,
            "total": round(self.total, 3),
            "average": round(self.average, 3),
            "longest": round(self.longest, 3),
        }


def count_action(found: dict[str, Tally], entry: Entry) -> None:
    """Count an action that has ended; actions are in the order in which they first ended."""
    if entry.what == "ended":
        action = entry.data["action"]
        if action not in found:
            found[action] = Tally()
        found[action].count(entry.data["result"], entry.data["took"])
