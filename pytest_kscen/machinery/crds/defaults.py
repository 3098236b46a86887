"""A schema's defaults must fit the schema themselves: nothing unknown in them, and nothing wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.machinery.schema.celvisits import rules_asker
from pytest_kscen.machinery.schema.embedded import embedded_faults
from pytest_kscen.machinery.schema.judging import UNKNOWN, judge_by
from pytest_kscen.machinery.schema.leaves import NOTHING
from pytest_kscen.machinery.schema.mismatch import Stranger, Unfit
from pytest_kscen.machinery.schema.structural import EMBEDDED, walk_by
from pytest_kscen.machinery.schema.verdicts import Verdict
from pytest_kscen.machinery.schema.visiting import visitor
from pytest_kscen.objects.errors import Cause

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kscen.objects.resources import Obj


def default_faults(schema: Obj, path: str) -> Iterator[Cause]:
    if schema.get("default") is not None:
        yield from _faults(schema, f"{path}.default")
    if isinstance(schema.get("items"), dict):
        yield from default_faults(schema["items"], f"{path}.items")
    for name, inner in (schema.get("properties") or NOTHING).items():
        yield from default_faults(inner, f"{path}.properties[{name}]")


def _faults(schema: Obj, path: str) -> Iterator[Cause]:
    default = schema["default"]
    try:
        walk_by(schema)(default, None)
    except Stranger:
        yield Cause.invalid(path, default, "must not have unknown fields")
    except Unfit as misfit:
        yield Cause.invalid(path, default, str(misfit))
        return
    embedded = visitor(schema, embedded_faults)
    if embedded and (wrong := list(embedded(default, path))):
        yield from wrong
        return
    verdict = Verdict()
    judge_by(schema)(default, "", UNKNOWN, verdict)
    yield from (cause(path) for cause in verdict.faults.values())
    if not verdict.faults and (ask := rules_asker(schema, is_root=bool(schema.get(EMBEDDED)))):
        yield from ask(default, path, UNKNOWN, None)
