"""What must hold after everything is healed: volumes that are left become ready again, and nothing of ours stays behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.checks.verdict import INVALID, UNKNOWN, VALID, Finding

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pytest_kscen.journal import Entry


def judge(journal: Iterable[Entry]) -> Iterator[Finding]:
    judged, late, left = False, [], []
    for entry in journal:
        if entry.what == "liveness":
            judged = True
            late = entry.data["late"]
        elif entry.what == "leftovers":
            left = entry.data["objects"]
    if not judged:
        yield Finding("liveness", UNKNOWN, "the run ended before the volumes that were left could be judged")
    elif late:
        yield Finding("liveness", INVALID, f"not ready again although everything was healed: {', '.join(late)}")
    else:
        yield Finding("liveness", VALID)
    yield Finding("leftovers", INVALID, f"still there: {', '.join(left)}") if left else Finding("leftovers", VALID)


def leftovers(journal: Iterable[Entry]) -> list[str]:
    return [name for entry in journal if entry.what == "leftovers" for name in entry.data["objects"]]
