"""Findings about the storage: state, attach, detach, resize and deletion of volumes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.judge.verdict import INVALID, UNKNOWN, VALID, Finding
from pytest_kscen.judge.volumes import BROKEN, INTERRUPTED, REQUIRED_TIME

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_kscen.judge.volumes import FailedOperation, OverdueDeletion, VolumeRecord

MIN_INTERRUPTED = 5  # volumes without a condition; fewer may all have lacked time


def judge(seen: Sequence[VolumeRecord], *, churn: bool, refusal: str) -> Iterator[Finding]:
    """Judge all operations, in the order of the report: state, attach, detach, resize, delete.

    Churn without a volume proves nothing; `refusal` is its first creation error. A deletion
    that took too long is valid if an incident tolerates it; the finding still names it.
    """
    if churn and not seen:
        yield Finding("volumes", UNKNOWN, f"churn made no volume: {refusal or 'run longer'}")
    else:
        broken = [
            f"{volume.name} (gone at {volume.lost_at:g} s, not deleted by the run)"
            if volume.lost_at is not None
            else f"{volume.name} (never ready)"
            if volume.ready_at is None
            else volume.name
            for volume in seen
            if volume.verdict == BROKEN
        ]
        unknown = [
            f"{volume.name} ({volume.unjudged})" for volume in seen if volume.verdict == UNKNOWN
        ]
        interrupted = [volume for volume in seen if volume.verdict == INTERRUPTED]
        conditions = dict.fromkeys(name for volume in seen for name in volume.transitions)
        not_returned = [
            condition
            for condition in conditions
            if sum(volume.lacks(condition) for volume in interrupted) >= MIN_INTERRUPTED
            and not any(volume.has_returned(condition) for volume in seen)
        ]
        reasons = []
        if broken:
            reasons.append(
                f"{len(broken)} of {len(seen)} volumes did not keep their guaranteed "
                f"state: {', '.join(broken)}"
            )
        if unknown:
            reasons.append(
                f"{len(unknown)} of {len(seen)} volumes could not be judged: {', '.join(unknown)}"
            )
        if not_returned:
            reasons.append(
                f"{len(interrupted)} of {len(seen)} volumes were interrupted, and no volume "
                f"regained {' or '.join(not_returned)}: run longer"
            )
        yield Finding(
            "volumes",
            INVALID if broken else UNKNOWN if unknown or not_returned else VALID,
            "; ".join(reasons),
        )
    yield from _attachments(seen)
    yield from _in_time("detachments", [one for volume in seen for one in volume.undetached])
    yield from _in_time("resizes", [one for volume in seen for one in volume.unresized])
    stuck = {
        volume.name: volume.overdue_deletions[-1] for volume in seen if volume.overdue_deletions
    }
    failures = {
        volume.name: one for volume in seen for one in volume.overdue_deletions if not one.excused
    }
    if failures:
        yield Finding("deletion", INVALID, _describe_overdue(failures))
    elif stuck:
        yield Finding(
            "deletion",
            VALID,
            f"{_describe_overdue(stuck)}; tolerated, because of incidents on their nodes",
        )


def _attachments(seen: Sequence[VolumeRecord]) -> Iterator[Finding]:
    """Judge attachments.

    A refused or tolerated attachment is counted as an error only. A run in which no attachment
    succeeded has a separate finding.
    """
    unfinished = [one for volume in seen for one in volume.unattached]
    found = list(_in_time("attachments", unfinished))
    failed = [one for one in unfinished if not one.cut]
    unanswered = sum(volume.unanswered for volume in seen)
    if any(volume.attached for volume in seen) or not (found or failed or unanswered):
        yield from found
        return
    why = "; ".join(
        [*(finding.why for finding in found), *([failed[0].why] if failed and not found else [])]
    )
    summary = f"none of the {len(unfinished) + unanswered} requested attachments succeeded"
    verdict = found[0].verdict if found else UNKNOWN
    yield Finding("attachments", verdict, f"{summary}: {why or 'each had enough time'}")


def _in_time(check: str, unfinished: Sequence[FailedOperation]) -> Iterator[Finding]:
    """Judge operations that were not done in time.

    One failure with REQUIRED_TIME undisturbed is enough for invalid; one such operation that was
    cut short is enough for unknown.
    """
    failed, cut = ([one for one in unfinished if one.cut is so] for so in (False, True))
    if failures := [one for one in failed if one.is_failure]:
        why = (
            f"{len(failures)} of {len(failed)} that failed had at least {REQUIRED_TIME:g} s "
            f"undisturbed: {failures[0].why}"
        )
        yield Finding(check, INVALID, why)
    elif interrupted_operations := [one for one in cut if one.is_failure]:
        why = (
            f"{len(interrupted_operations)} were cut short after at least {REQUIRED_TIME:g} s "
            "undisturbed: let volumes live longer"
        )
        yield Finding(check, UNKNOWN, why)


def _describe_overdue(stuck: dict[str, OverdueDeletion]) -> str:
    return "; ".join(
        f"{name} was not deleted {one.waited:g} s after its deletion began"
        f"{f': {one.why}' if one.why else ''}"
        for name, one in stuck.items()
    )
