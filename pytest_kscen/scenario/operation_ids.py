"""Generate ids for operations without one, from their step, kind and object. An id does not depend
on the place in the list.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_kscen.objects.resources import Obj

KINDS = ("create", "patch", "delete", "done")


def filled(scenario: Obj) -> list[Any]:
    """Return the operations with missing ids filled in; empty if all have one.

    Entries that are no operations are left to the schema.
    """
    operations = _part(scenario, "spec").get("operations")
    if not isinstance(operations, list) or not any(map(_needs_id, operations)):
        return []
    taken = {str(each.get("id")) for each in operations if isinstance(each, dict)}
    return [_with_id(each, taken) if _needs_id(each) else each for each in operations]


def patch(scenario: Obj) -> list[Obj]:
    """Return the JSON patch that fills in missing ids, for the admission webhook; empty if all
    operations have one.
    """
    operations = filled(scenario)
    return (
        [{"op": "replace", "path": "/spec/operations", "value": operations}] if operations else []
    )


def _needs_id(operation: Any) -> bool:
    return isinstance(operation, dict) and not operation.get("id")


def _with_id(operation: Obj, taken: set[str]) -> Obj:
    # Example: `step 1: create Pod default/a`.
    kinds = [kind for kind in KINDS if operation.get(f"{kind}Operation") is not None]
    words = [f"step {operation.get('step')}:", *(kinds or ("nothing",))]
    if "create" in kinds:
        obj = _part(operation, "createOperation", "object")
        words += [str(obj.get("kind")), _object_name(_part(obj, "metadata"))]
    elif changed := _part(operation, "patchOperation") or _part(operation, "deleteOperation"):
        words += [
            str(_part(changed, "typeMeta").get("kind")),
            _object_name(_part(changed, "objectMeta")),
        ]
    # A taken id gets a number: `step 1: create Pod default/a (2)`.
    plain = " ".join(words)
    names = itertools.chain([plain], (f"{plain} ({number})" for number in itertools.count(2)))
    name = next(each for each in names if each not in taken)
    taken.add(name)
    return {"id": name, **{key: value for key, value in operation.items() if key != "id"}}


def _object_name(metadata: Obj) -> str:
    return "/".join(
        str(each)
        for each in (
            metadata.get("namespace"),
            metadata.get("name") or metadata.get("generateName"),
        )
        if each
    )


def _part(obj: Any, *path: str) -> Obj:
    """Return the object at this path within another; an empty one if a part of the path is missing
    or of another type.
    """
    for name in path:
        obj = obj.get(name) if isinstance(obj, dict) else None
    return obj if isinstance(obj, dict) else {}
