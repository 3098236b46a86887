"""Messages for unschedulable pods, byte-equal to kube-scheduler's."""

from __future__ import annotations

import collections
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_kscen.embedded.scheduler.framework.status import Status

NO_NODES = "no nodes available to schedule pods"
MAX_NOTE_LENGTH = 1024


def pre_filter_message(nodes: int, problem: str, rescue: str) -> str:
    """Return the message for a refusal of all nodes at once. `rescue` is the message of
    post_filter, if there is one.
    """
    return f"0/{nodes} nodes are available: {problem}." + (f" {rescue}" if rescue else "")


def fit_error_message(nodes: int, statuses: Iterable[Status], rescue: str = "") -> str:
    """Return the message that counts the refusals of single nodes by reason, as in `0/3 nodes are
    available: 3 Insufficient cpu.`
    """
    reasons = [reason for status in statuses for reason in status.reasons]
    words = f" {count_reasons(reasons)}." if reasons else ""
    return f"0/{nodes} nodes are available:{words}" + (f" {rescue}" if rescue else "")


def count_reasons(reasons: Iterable[str]) -> str:
    return ", ".join(
        sorted(f"{count} {reason}" for reason, count in collections.Counter(reasons).items())
    )


def shorten_note(message: str) -> str:
    """Return a message cut to the 1,024 characters that an event's note may have."""
    return message if len(message) <= MAX_NOTE_LENGTH else f"{message[: MAX_NOTE_LENGTH - 4]} ..."
