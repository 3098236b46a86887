"""How much a volume can lose as it is now: counted from those who can be heard. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_kscen.simulation.storage.controller.view import Finding

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.simulation.storage.controller.layout import Layout, Quorum
    from pytest_kscen.simulation.storage.controller.view import Replica, View


@dataclass(frozen=True, slots=True)
class Effective:
    """The counts, and what follows from them. Below zero, so many are missing."""

    voters: int
    reachable: int
    up_to_date: int
    tie_breakers: int
    reachable_tie_breakers: int
    stale: int
    """Members that nobody speaks for."""
    votes_to_spare: int
    copies_to_spare: int

    @property
    def is_known(self) -> bool:
        return bool(self.voters) and self.stale < self.voters + self.tie_breakers

    @property
    def failures(self) -> int:
        """How many more may fail."""
        return min(self.votes_to_spare, self.copies_to_spare)

    @property
    def redundancy(self) -> int:
        """How many copies there are beside one."""
        return self.up_to_date - 1

    @property
    def message(self) -> str:
        words = f"{self.reachable} of {self.voters} voters reachable, {self.up_to_date} up to date"
        if self.tie_breakers:
            words += f"; {self.reachable_tie_breakers} of {self.tie_breakers} tie-breakers reachable"
        return words + (f"; {self.stale} not heard of" if self.stale else "")

    def told(self, layout: Layout) -> Obj:
        levels = {
            "failuresToTolerate": self.failures,
            "guaranteedMinimumDataRedundancy": min(self.redundancy, layout.redundancy - 1),
        }
        return {
            **(levels if self.is_known else {}),
            "totalVoters": self.voters,
            "reachableVoters": self.reachable,
            "upToDateVoters": self.up_to_date,
            "totalTieBreakers": self.tie_breakers,
            "reachableTieBreakers": self.reachable_tie_breakers,
            "staleAgents": self.stale,
            "message": self.message,
        }


def effective(view: View, quorum: Quorum) -> Effective:
    members, together = view.mesh, _largest_group(view.speaking)
    voters, reachable = _with_disks(members), _with_disks(together)
    ties = [replica for replica in members if replica.is_tie_breaker]
    held = [replica for replica in together if replica.is_tie_breaker]
    copies = sum(replica.up_to_date for replica in reachable)
    diskless = sum(not replica.is_diskful and replica.initialized for replica in members)  # each breaks ties once it has joined
    heard = len(together) - len(reachable)
    decides = (
        len(voters) % 2 == 0 and len(reachable) == quorum.votes - 1 and copies >= quorum.redundancy and 2 * heard > diskless > 0
    )
    spare = len(reachable) - quorum.votes
    if len(voters) % 2 == 0 and (decides or len(reachable) >= quorum.votes):
        spare += bool(heard)
    return Effective(
        voters=len(voters),
        reachable=len(reachable),
        up_to_date=copies,
        tie_breakers=len(ties),
        reachable_tie_breakers=len(held),
        stale=len(members) - len(view.speaking),
        votes_to_spare=spare,
        copies_to_spare=copies - quorum.redundancy,
    )


def _with_disks(replicas: Sequence[Replica]) -> list[Replica]:
    return [replica for replica in replicas if replica.is_diskful]


def _largest_group(replicas: Sequence[Replica]) -> list[Replica]:
    """Those who are connected with each other, by what they say of it; more disks before more replicas."""
    left = {replica.node: replica for replica in replicas}
    best: list[Replica] = []
    while left:
        group, open_ = [], [left.pop(next(iter(left)))]
        while open_:
            replica = open_.pop()
            group.append(replica)
            linked = [node for node, other in left.items() if other.name in replica.linked and replica.name in other.linked]
            open_ += [left.pop(node) for node in linked]
        best = max(best, group, key=lambda one: (len(_with_disks(one)), len(one)))
    return best


def readiness(view: View, now: Effective, *, formed: bool) -> Finding:
    """The first that fits."""
    rows: tuple[tuple[bool, bool | None, str, str], ...] = (
        (view.leaving, False, "Terminating", "the volume is being deleted"),
        (not formed, False, "Forming", "its replicas are being made"),
        (not now.is_known, None, "StatusUnknown", "no agent tells of it"),
        (now.votes_to_spare < 0, False, "QuorumLost", now.message),
        (now.copies_to_spare < 0, False, "InsufficientUpToDateReplicas", now.message),
    )
    return next((Finding(holds, reason, words) for fits, holds, reason, words in rows if fits), Finding(True, "Ready", now.message))


def resilience(layout: Layout, now: Effective, ready: Finding) -> Finding:
    """Whether as much may fail as the class promises."""
    if not ready.holds:
        return ready
    whole = now.failures >= layout.failures and now.redundancy >= layout.redundancy - 1
    return Finding(whole, "Resilient" if whole else "Degraded", now.message)
