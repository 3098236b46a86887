"""Completion indexes: where a pod carries its own, and sets of them as Kubernetes writes them (`1,3-5,7`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_kscen.objects.resources import Obj

INDEX = "batch.kubernetes.io/job-completion-index"
FAILURES = "batch.kubernetes.io/job-index-failure-count"
IGNORED_FAILURES = "batch.kubernetes.io/job-index-ignored-failure-count"

PAIR = 2  # two neighbours are written one by one, longer runs as an interval


def parse(text: str | None) -> list[int]:
    found: list[int] = []
    for part in filter(None, (text or "").split(",")):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found


def written(indexes: Iterable[int]) -> str:
    runs: list[list[int]] = []
    for index in sorted(dict.fromkeys(indexes)):
        if runs and index == runs[-1][-1] + 1:
            runs[-1].append(index)
        else:
            runs.append([index])
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > PAIR else ",".join(map(str, run)) for run in runs)


def index_of(pod: Obj, job: Obj) -> int | None:
    """The pod's index, if it is one of the job's."""
    number = _annotation(pod, INDEX)
    return number if number is not None and number < (job["spec"].get("completions") or 0) else None


def failures_of(pod: Obj) -> int:
    """How many pods of this index have failed before this one."""
    return _annotation(pod, FAILURES) or 0


def ignored_failures_of(pod: Obj) -> int:
    return _annotation(pod, IGNORED_FAILURES) or 0


def _annotation(pod: Obj, name: str) -> int | None:
    text = (pod["metadata"].get("annotations") or {}).get(name, "")
    return int(text) if text.isdecimal() else None
