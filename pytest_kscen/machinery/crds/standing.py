"""What a definition must not lose: versions that are stored, and Kubernetes' approval of its own domains."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pytest_kscen.objects.errors import Cause

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kscen.objects.resources import Obj

APPROVED = "api-approved.kubernetes.io"
APPROVAL = "see https://github.com/kubernetes/enhancements/pull/1111"
STILL_STORED = (
    "missing from spec.versions; {0} was previously a storage version, and must remain in spec.versions until a storage "
    "migration ensures no data remains persisted in {0} and removes {0} from status.storedVersions"
)


def stored_version_faults(definition: Obj) -> Iterator[Cause]:
    stored, path = (definition.get("status") or {}).get("storedVersions") or [], "status.storedVersions"
    if not stored:
        yield Cause.invalid(path, None, "must have at least one stored version")
        return
    versions = definition["spec"].get("versions") or []
    for version in versions:
        if version.get("storage") and version["name"] not in stored:
            yield Cause.invalid(path, stored, f"must have the storage version {version['name']}")
    known = {version["name"] for version in versions}
    for place, name in enumerate(stored):
        if name not in known:
            yield Cause.invalid(f"{path}[{place}]", name, STILL_STORED.format(name))


def approval_faults(definition: Obj, old: Obj | None = None) -> Iterator[Cause]:
    """Kubernetes' own domains need its approval."""
    group = definition["spec"].get("group", "")
    if not f".{group}".endswith((".k8s.io", ".kubernetes.io")):
        return
    annotation = _annotation(definition)
    if old is not None and _state(_annotation(old)) == _state(annotation):
        return
    field = f"metadata.annotations[{APPROVED}]"
    if not annotation:
        yield Cause.required(field, f'protected groups must have approval annotation "{APPROVED}", {APPROVAL}')
    elif _state(annotation) == "invalid":
        why = (
            f'protected groups must have approval annotation "{APPROVED}" with either a URL or a reason starting with "unapproved"'
        )
        yield Cause.invalid(field, annotation, f"{why}, {APPROVAL}")


def _annotation(definition: Obj) -> str:
    return str((definition["metadata"].get("annotations") or {}).get(APPROVED, ""))


def _state(annotation: str) -> str:
    if not annotation or annotation.startswith("unapproved"):
        return annotation and "bypassed"
    url = urlsplit(annotation)
    return "approved" if url.scheme and url.netloc else "invalid"
