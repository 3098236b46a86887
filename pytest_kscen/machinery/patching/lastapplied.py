"""kubectl's move from applying on the client's side to the server's: its annotation stands for what it owned."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from pytest_kscen.machinery.patching.comparing import compare
from pytest_kscen.machinery.patching.fields import difference, paths
from pytest_kscen.machinery.patching.merging import field_set

if TYPE_CHECKING:
    from pytest_kscen.machinery.patching.shapes import Shape
    from pytest_kscen.objects.resources import Obj

ANNOTATION = "kubectl.kubernetes.io/last-applied-configuration"


def allowed(shape: Shape, live: Obj) -> set[tuple[str, ...]]:
    """The fields that kubectl applied last and nobody has changed since: no conflict for it."""
    try:
        last: Any = orjson.loads(_annotations(live).get(ANNOTATION) or "null")
    except orjson.JSONDecodeError:
        return set()
    if not isinstance(last, dict) or last.get("apiVersion") != live.get("apiVersion"):
        return set()
    changes = compare(shape, last, live)
    return set(paths(difference(difference(field_set(shape, last), changes.touched), changes.removed)))


def brought_up_to_date(new: Obj, config: Obj) -> Obj:
    """The object with the annotation, if it has one, saying what was applied now."""
    annotations = _annotations(new)
    if not annotations.get(ANNOTATION):
        return new
    given = {name: value for name, value in _annotations(config).items() if name != ANNOTATION}
    metadata = {name: value for name, value in config["metadata"].items() if name != "annotations"}
    said = {**config, "metadata": {**metadata, "annotations": given} if given else metadata}
    text = orjson.dumps(said, option=orjson.OPT_SORT_KEYS).decode() + "\n"
    return {**new, "metadata": {**new["metadata"], "annotations": {**annotations, ANNOTATION: text}}}


def _annotations(obj: Obj) -> Obj:
    metadata = obj.get("metadata") or {}
    return metadata.get("annotations") or {}
