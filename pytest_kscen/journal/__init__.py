"""The append-only record of a run: what actors did and saw, in cluster time.

Checks read nothing else.
"""

from pytest_kscen.journal.journal import (
    ActorJournal,
    Entry,
    Journal,
    JournalDamaged,
    JournalLost,
    JournalSwitch,
    JournalTaken,
    is_being_written,
    read,
    stored,
)

__all__ = [
    "ActorJournal",
    "Entry",
    "Journal",
    "JournalDamaged",
    "JournalLost",
    "JournalSwitch",
    "JournalTaken",
    "is_being_written",
    "read",
    "stored",
]
