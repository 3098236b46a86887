"""Why something could not be done, in words."""

from __future__ import annotations

from pytest_kscen.objects.errors import ApiError

LONGEST_MESSAGE = 1000
MISREAD = (LookupError, TypeError, ValueError, AttributeError)
"""What comes of a template that nobody has validated."""


def words_of(error: Exception) -> str:
    """At a length that everybody takes."""
    words = error.message if isinstance(error, ApiError) else str(error) or repr(error)
    if isinstance(error, MISREAD) and not isinstance(error, UnicodeError):
        words = f"what its template says cannot be read: {error!r}"
    return words if len(words) <= LONGEST_MESSAGE else f"{words[:LONGEST_MESSAGE]}…"
