"""What somebody may have meant who wrote a word that there is not."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def nearest(word: object, words: Iterable[str]) -> str:
    """A question for the end of a refusal; empty if nothing is near."""
    found = near(str(word), words)
    return f" (did you mean {found!r}?)" if found else ""


def near(word: str, words: Iterable[str]) -> str | None:
    return next(iter(difflib.get_close_matches(word, list(words), 1)), None)
