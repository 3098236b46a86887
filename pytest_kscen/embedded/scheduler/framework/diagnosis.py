"""Why there was no node for a pod, in the real scheduler's words."""

from __future__ import annotations

import collections
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_kscen.embedded.scheduler.framework.status import Status

NO_NODES = "no nodes available to schedule pods"
LONGEST_NOTE = 1024


def of_problem(nodes: int, problem: str, rescue: str) -> str:
    """What keeps the pod from every node."""
    return f"0/{nodes} nodes are available: {problem}." + (f" {rescue}" if rescue else "")


def of_refusals(nodes: int, statuses: Iterable[Status], rescue: str = "") -> str:
    """Why each node will not do."""
    reasons = [reason for status in statuses for reason in status.reasons]
    words = f" {counted(reasons)}." if reasons else ""
    return f"0/{nodes} nodes are available:{words}" + (f" {rescue}" if rescue else "")


def counted(reasons: Iterable[str]) -> str:
    return ", ".join(
        sorted(f"{count} {reason}" for reason, count in collections.Counter(reasons).items())
    )


def noted(message: str) -> str:
    """As much of it as an event may say."""
    return message if len(message) <= LONGEST_NOTE else f"{message[: LONGEST_NOTE - 4]} ..."
