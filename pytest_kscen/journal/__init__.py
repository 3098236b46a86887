"""The append-only record of a run: what actors did and saw, in cluster time. Checks read nothing else."""

from pytest_kscen.journal.journal import Entry, Journal, Witness, read, stored

__all__ = ["Entry", "Journal", "Witness", "read", "stored"]
