"""What came of asking: whether it is as it should be, and in which words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pytest_kscen.workflow.probes.probe import Probe


class Outcome(NamedTuple):
    """Of one question."""

    passed: bool
    message: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Of a probe at an edge, after as many attempts as it has."""

    probe: Probe
    passed: bool
    message: str = ""

    @property
    def stops(self) -> bool:
        """Whether what is being probed has failed by it."""
        return not self.passed and self.probe.stop_on_failure
