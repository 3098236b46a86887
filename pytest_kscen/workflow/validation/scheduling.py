"""Schedules: a cron line, what is made by it, and how many of them may be on at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kscen.objects.chaos_mesh import KINDS
from pytest_kscen.objects.cron import Cron, CronError
from pytest_kscen.objects.guesses import nearest
from pytest_kscen.workflow.validation.chaos import faults_of_chaos, is_one_shot
from pytest_kscen.workflow.validation.fault import Fault, error, warning
from pytest_kscen.workflow.validation.reading import map_in, text_in
from pytest_kscen.workflow.validation.shapes import Shape, a_record, anything, one_of, text, whole
from pytest_kscen.workflow.validation.texts import TEXT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pytest_kscen.objects.documents import Path
    from pytest_kscen.objects.resources import Obj

FORBID, ALLOW = "Forbid", "Allow"
CHAOS = {kind.kind: kind.key for kind in KINDS.values()}


def _cron(line: str) -> str:
    try:
        comes = Cron.of(line).next_after(0)
    except CronError as refusal:
        return str(refusal)
    return "" if comes is not None else f"{line!r} never comes: there is no such day"


FIELDS: dict[str, Shape] = {
    "schedule": text(_cron),
    "type": TEXT,
    "concurrencyPolicy": one_of(FORBID, ALLOW),
    "historyLimit": whole(1),
    "startingDeadlineSeconds": whole(0),
}


def faults_of_cron_workflow(spec: Any, path: Path) -> Iterator[Fault]:
    """What is around the workflow."""
    fields = {key: shape for key, shape in FIELDS.items() if key != "type"}
    yield from a_record({**fields, "workflow": anything}, "schedule", "workflow")(spec, path)


def faults_of_schedule(spec: Any, path: Path, more: Mapping[str, str] | None = None) -> Iterator[Fault]:
    """`more` are kinds that it may make beside chaos, by the key that holds theirs; whoever knows them judges them."""
    kinds = {**CHAOS, **(more or {})}
    yield from a_record({**FIELDS, **dict.fromkeys(kinds.values(), anything)}, "schedule", "type")(spec, path)
    if not isinstance(spec, dict) or not (kind := text_in(spec, "type")):
        return
    if kind not in kinds:
        yield error(
            (*path, "type"), f"there is no type {kind!r} to be scheduled: there are {', '.join(kinds)}{nearest(kind, kinds)}"
        )
        return
    if spec.get(kinds[kind]) is None:
        yield error(path, f"{kinds[kind]} is missing: it says what is made at each time")
    for key in kinds.values():
        if key != kinds[kind] and spec.get(key) not in (None, {}):
            yield warning((*path, key), f"{key} is ignored: the type is {kind}")
    if kind in CHAOS and spec.get(kinds[kind]) is not None:
        yield from _chaos(kind, spec, (*path, CHAOS[kind]))


def _chaos(kind: str, spec: Obj, path: Path) -> Iterator[Fault]:
    yield from faults_of_chaos(kind, spec[CHAOS[kind]], path)
    chaos = map_in(spec, CHAOS[kind])
    if chaos and not chaos.get("duration") and not is_one_shot(kind, chaos):
        forbids = spec.get("concurrencyPolicy") in (None, FORBID)
        then = "the first one stays, and forbids every other" if forbids else "each one stays, and more come"
        yield warning(path, f"duration is missing: {then}")
