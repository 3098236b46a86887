"""The append-only record of a run: what actors did and saw, in cluster time. Checks read nothing else."""

from pytest_kscen.journal.journal import (
    Entry,
    Journal,
    JournalDamaged,
    JournalLost,
    JournalTaken,
    Witness,
    is_being_written,
    read,
    stored,
)
from pytest_kscen.journal.relay import Relay

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
