"""How often a node may be tried again, and after how long: a template may say so."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.objects.durations import seconds_of_text
from pytest_kscen.workflow.events import Happening

if TYPE_CHECKING:
    from pytest_kscen.workflow.trees import Node


def may_retry(node: Node) -> bool:
    """Whether a node that fails by its own fault, and has left nothing behind, has another attempt."""
    retry = node.template.body.get("retry") or {}
    return node.ending in (None, Happening.FAULT) and node.attempt <= int(retry.get("limit", 0))


def delay_before(node: Node) -> float:
    """Seconds before the next attempt."""
    backoff = (node.template.body.get("retry") or {}).get("backoff") or {}
    first = seconds_of_text(backoff["duration"]) if "duration" in backoff else 0.0
    delay = first * float(backoff.get("factor", 1)) ** min(node.attempt - 1, 64)
    return min(delay, seconds_of_text(backoff["maxDuration"])) if "maxDuration" in backoff else delay
