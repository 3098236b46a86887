"""status.conditions: reading them, and writing them as Kubernetes' own controllers do."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_kscen.objects.resources import Obj


def condition(obj: Obj | None, type_: str) -> Obj | None:
    for found in ((obj or {}).get("status") or {}).get("conditions") or ():
        if found.get("type") == type_:
            return found  # type: ignore[no-any-return]
    return None


def is_true(obj: Obj | None, type_: str) -> bool:
    found = condition(obj, type_)
    return found is not None and found.get("status") == "True"


def set_condition(conditions: Iterable[Obj] | None, new: Obj, now: str) -> list[Obj]:
    """The list with this condition in its place; lastTransitionTime moves only when the status does."""
    kept = list(conditions or ())
    for place, old in enumerate(kept):
        if old["type"] == new["type"]:
            since = old.get("lastTransitionTime", now) if old["status"] == new["status"] else now
            kept[place] = {**new, "lastTransitionTime": since}
            return kept
    return [*kept, {**new, "lastTransitionTime": now}]
