"""Resources inside custom objects: they say what they are, and their metadata is Kubernetes' own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kscen.machinery.metadata import wrong_annotations, wrong_labels
from pytest_kscen.machinery.schema.structural import EMBEDDED
from pytest_kscen.objects.errors import Cause
from pytest_kscen.objects.names import dns1035_label, path_segment

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kscen.machinery.schema.visiting import Visit
    from pytest_kscen.objects.resources import Obj


def embedded_faults(schema: Obj) -> Visit | None:
    return _visit if schema.get(EMBEDDED) else None


def _visit(value: Any, path: str) -> Iterator[Cause]:
    if not isinstance(value, dict):
        return
    for name in ("apiVersion", "kind"):
        if name not in value:
            yield Cause.required(f"{path}.{name}")
    for name, part in value.items():
        if name in FAULTS:
            yield from FAULTS[name](part, f"{path}.{name}")


def _of_version(value: Any, path: str) -> Iterator[Cause]:
    if not value:
        yield Cause.invalid(path, value, "must not be empty")
    elif value.count("/") > 1:
        yield Cause.invalid(path, value, f"unexpected GroupVersion string: {value}")


def _of_kind(value: Any, path: str) -> Iterator[Cause]:
    if not value:
        yield Cause.invalid(path, value, "must not be empty")
    elif wrong := dns1035_label(value.lower()):
        yield Cause.invalid(path, value, f"may have mixed case, but should otherwise match: {','.join(wrong)}")


def _of_metadata(value: Any, path: str) -> Iterator[Cause]:
    if name := value.get("name"):
        for words in path_segment(name):
            yield Cause.invalid(f"{path}.name", name, words)
    yield from wrong_labels(f"{path}.labels", value.get("labels") or {})
    yield from wrong_annotations(f"{path}.annotations", value.get("annotations") or {})


FAULTS = {"apiVersion": _of_version, "kind": _of_kind, "metadata": _of_metadata}
