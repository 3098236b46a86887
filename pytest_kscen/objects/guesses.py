"""What somebody may have meant who wrote a word that there is not."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def nearest(word: object, words: Iterable[str]) -> str:
    """A question for the end of a refusal; empty if nothing is near."""
    found = difflib.get_close_matches(str(word), list(words), 1)
    return f" (did you mean {found[0]!r}?)" if found else ""
