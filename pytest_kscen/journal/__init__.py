"""Journal: the append-only record of a run, in cluster time. Checks read nothing else.

Actors write through `ActorJournal`; reports follow it; `judge` reads it from a file. Imports
`clock` and `objects` alone.

  journal   write, read, follow; the order that a stored file must have
  changes   the record of changes of the cluster's objects, beside the journal
  schema    version of the format, and the upgrade of older entries
"""

from pytest_kscen.journal.changes import Change, ChangeRecord, RecordDamaged, stored_changes
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
    "Change",
    "ChangeRecord",
    "Entry",
    "Journal",
    "JournalDamaged",
    "JournalLost",
    "JournalSwitch",
    "JournalTaken",
    "RecordDamaged",
    "is_being_written",
    "read",
    "stored",
    "stored_changes",
]
