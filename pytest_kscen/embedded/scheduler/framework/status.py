"""Results of plugin methods: None for success, otherwise a `Status` with code and reasons.

Used by plugins and by the framework; must not import any other scheduler module.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Code(enum.Enum):
    """Codes of Kubernetes' framework.Code that a plugin can return; the values are Kubernetes' own
    names. Success has no code: it is None.
    """

    ERROR = "Error"
    UNSCHEDULABLE = "Unschedulable"
    UNRESOLVABLE = "UnschedulableAndUnresolvable"
    WAIT = "Wait"
    SKIP = "Skip"
    PENDING = "Pending"


REJECTIONS = frozenset((Code.UNSCHEDULABLE, Code.UNRESOLVABLE, Code.PENDING))


@dataclass(frozen=True, slots=True)
class Status:
    """Result of a plugin method other than success, which is None. Immutable, so plugins may keep
    ready-made statuses as constants and return them for many pods.
    """

    code: Code
    reasons: tuple[str, ...] = ()
    plugin: str = ""
    """Name of the plugin that returned it; set by the framework."""
    seconds: float = 0.0
    """Maximum time that a WAIT may hold the pod, in seconds."""

    @property
    def message(self) -> str:
        return ", ".join(self.reasons)

    @property
    def rejects(self) -> bool:
        return self.code in REJECTIONS

    def by(self, plugin: str) -> Status:
        """Return this status attributed to a plugin; a status that names one already stays
        unchanged.
        """
        return self if self.plugin else Status(self.code, self.reasons, plugin, self.seconds)


SKIP = Status(Code.SKIP)
"""Status with code Skip.

Returned by pre_filter or pre_score, it omits this plugin's filter or score for the pod. Returned by
bind, it passes the pod to the next bind plugin.
"""


def unschedulable(*reasons: str) -> Status:
    """Return a refusal of one node that could be resolved by preemption, that is, by deleting pods
    of lower priority. `reasons` are counted by text in the pod's event.
    """
    return Status(Code.UNSCHEDULABLE, reasons)


def unresolvable(*reasons: str) -> Status:
    """Return a refusal that preemption cannot resolve, as a wrong node name or a missing claim. The
    framework then never tries the node for preemption.
    """
    return Status(Code.UNRESOLVABLE, reasons)


def pending(*reasons: str) -> Status:
    """Return a refusal until an event arrives that this plugin registered for in `events`. The pod
    is then retried without back-off.
    """
    return Status(Code.PENDING, reasons)


def wait(seconds: float, *reasons: str) -> Status:
    """Return a permit result that holds the pod until each waiting plugin allows it, one rejects
    it, or `seconds` of cluster time have passed.
    """
    return Status(Code.WAIT, reasons, seconds=seconds)


def failure(*reasons: str) -> Status:
    """Return an error: the attempt ends, and the pod is retried after its back-off, whatever events
    arrive.
    """
    return Status(Code.ERROR, reasons)
