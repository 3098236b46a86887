"""valid, invalid or unknown: never a bare bool. Verdicts merge by priority, the worst first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

VALID, UNKNOWN, INVALID = "valid", "unknown", "invalid"
_PRIORITY = (VALID, UNKNOWN, INVALID)


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check says, and why."""

    check: str
    verdict: str
    why: str = ""


def merged(findings: Iterable[Finding]) -> str:
    return max((finding.verdict for finding in findings), key=_PRIORITY.index, default=VALID)
