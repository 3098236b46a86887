"""Scores brought to 0 to 100 by the largest of them; in whole numbers, as the real scheduler does."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_kscen.simulation.scheduler.framework.table import Scores

BEST = 100


def scaled(scores: list[int]) -> list[int]:
    """More is better."""
    most = max(scores, default=0)
    return [BEST * score // most for score in scores] if most > 0 else scores


def turned(scores: list[int]) -> list[int]:
    """Fewer is better."""
    most = max(scores, default=0)
    return [BEST - BEST * score // most for score in scores] if most > 0 else [BEST] * len(scores)


def scaled_many(scores: Scores) -> Scores:
    most = scores.max(initial=0)
    return BEST * scores // most if most > 0 else scores


def turned_many(scores: Scores) -> Scores:
    most = scores.max(initial=0)
    return BEST - BEST * scores // most if most > 0 else scores * 0 + BEST
