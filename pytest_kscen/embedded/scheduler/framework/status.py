"""What a plugin answers: nothing when all is well, otherwise a status that says what and why."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Code(enum.Enum):
    """The kinds of answers, named as Kubernetes names them."""

    ERROR = "Error"
    UNSCHEDULABLE = "Unschedulable"
    UNRESOLVABLE = "UnschedulableAndUnresolvable"
    WAIT = "Wait"
    SKIP = "Skip"
    PENDING = "Pending"


REJECTIONS = frozenset((Code.UNSCHEDULABLE, Code.UNRESOLVABLE, Code.PENDING))


@dataclass(frozen=True, slots=True)
class Status:
    """An answer other than yes. Success is None."""

    code: Code
    reasons: tuple[str, ...] = ()
    plugin: str = ""
    """Who said so; the framework fills it in."""
    seconds: float = 0.0
    """How long a WAIT may take."""

    @property
    def message(self) -> str:
        return ", ".join(self.reasons)

    @property
    def rejects(self) -> bool:
        return self.code in REJECTIONS

    def by(self, plugin: str) -> Status:
        return self if self.plugin else Status(self.code, self.reasons, plugin, self.seconds)


SKIP = Status(Code.SKIP)
"""From pre_filter or pre_score: my filter or my score has nothing to say about this pod.

From bind: not my pod.
"""


def unschedulable(*reasons: str) -> Status:
    """No; it might be yes if other pods were sent away."""
    return Status(Code.UNSCHEDULABLE, reasons)


def unresolvable(*reasons: str) -> Status:
    """No, whoever is sent away."""
    return Status(Code.UNRESOLVABLE, reasons)


def pending(*reasons: str) -> Status:
    """No, until something that this plugin waits for has happened; then at once."""
    return Status(Code.PENDING, reasons)


def wait(seconds: float, *reasons: str) -> Status:
    """From permit: hold the pod until somebody allows or rejects it, or so much time has passed."""
    return Status(Code.WAIT, reasons, seconds=seconds)


def failure(*reasons: str) -> Status:
    """Something is broken: the pod is tried again later."""
    return Status(Code.ERROR, reasons)
