"""The append-only record of a run: what actors did and saw, in cluster time.

Checks read nothing else.
"""

from pytest_kscen.journal.journal import (
    Entry,
    Journal,
    JournalDamaged,
    JournalLost,
    JournalTaken,
    Relay,
    Witness,
    is_being_written,
    read,
    stored,
)

__all__ = [
    "Entry",
    "Journal",
    "JournalDamaged",
    "JournalLost",
    "JournalTaken",
    "Relay",
    "Witness",
    "is_being_written",
    "read",
    "stored",
]
