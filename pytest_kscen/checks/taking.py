"""What the replica destroyer takes excuses its volume: until the journal says that it is replaced, or nobody has patience any more.

What has no data, or what a journal tells no patience of, is replaced at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from pytest_kscen.checks.excuses import CATCHING_UP

if TYPE_CHECKING:
    from pytest_kscen.journal import Entry

Span: TypeAlias = tuple[float, float]
"""Since when something excuses a volume, and until when."""


def spans_of(entry: Entry) -> tuple[Span, ...]:
    """What was refused was not done, unless an answer before that was lost; what was stopped may have been."""
    data = entry.data
    if data["result"].startswith("failed: ") and not data.get("perhaps_done"):
        return ()
    return ((entry.at - data["took"], entry.at + data.get("patience", CATCHING_UP)),)


def made_good(spans: tuple[Span, ...], at: float) -> tuple[Span, ...]:
    """From now on nothing is missing, but what waited for it needs a while."""
    return tuple((since, min(until, at + CATCHING_UP)) for since, until in spans)
