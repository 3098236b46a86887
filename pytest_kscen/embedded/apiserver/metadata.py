"""Validation of ObjectMeta with Kubernetes' messages; kinds differ only in the rule of names.

Called by the verbs. Returns errors as causes and warnings as texts; stores nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kscen.objects.errors import Cause, quoted
from pytest_kscen.objects.names import as_prefix, dns1123_label, label_key, label_value

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pytest_kscen.embedded.apiserver.kinds import Kind
    from pytest_kscen.objects.resources import Obj

ANNOTATIONS_LIMIT = 256 * 1024
WELL_KNOWN_FINALIZERS = frozenset(["kubernetes", "orphan", "foregroundDeletion"])
OWNER_REFERENCE_FIELDS = ("apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion")
IMMUTABLE = (
    "name",
    "namespace",
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)
UNVALIDATED = dict.fromkeys(("resourceVersion", "managedFields"))
DUPLICATE_OWNERS = (
    ".metadata.ownerReferences contains duplicate entries{}; API server dedups owner "
    "references in 1.20+, and may reject "
    "such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}"
)


def metadata_errors(kind: Kind, metadata: Obj) -> Iterator[Cause]:
    yield from _name_errors(kind, metadata)
    yield from _common_errors(metadata, _map_and_owner_errors(metadata))
    yield from _unqualified_finalizers(kind, metadata)


def metadata_update_errors(
    kind: Kind, new: Obj, old: Obj, subresource: str = ""
) -> Iterator[Cause]:
    """Yield the errors of updated metadata, in Kubernetes' order and number.

    Kubernetes validates metadata once as new, once as a change for all kinds, and once more for the
    kind itself, so some errors come twice.
    """
    yield from _name_errors(kind, new, lenient=True)
    maps_and_owners = list(_map_and_owner_errors(new))
    yield from _common_errors(new, maps_and_owners)
    yield from [*_change_errors(new, old), *maps_and_owners] * 2
    part = kind.rules.parts.get(subresource)
    if part is None or part.validates_finalizers:
        yield from _unqualified_finalizers(kind, new)


def is_unchanged(new: Obj, old: Obj) -> bool:
    """Return True if all validated fields are as stored, so that they need no validation."""
    return {**new, **UNVALIDATED} == {**old, **UNVALIDATED}


def finalizer_warnings(kind: Kind, new: Obj, old: Obj | None) -> Iterator[str]:
    """Yield a warning for each unqualified finalizer that a write adds to a custom resource."""
    if not kind.custom or not (finalizers := new["metadata"].get("finalizers")):
        return
    before = (old["metadata"].get("finalizers") if old else None) or ()
    if before is finalizers:
        return
    for finalizer in sorted({*finalizers}):
        if finalizer in before or "/" in finalizer or finalizer in WELL_KNOWN_FINALIZERS:
            continue
        form = "finalizer name including a path (/)" if "." in finalizer else "finalizer name"
        why = (
            f"prefer a domain-qualified {form} to avoid accidental conflicts with other "
            "finalizer writers"
        )
        yield f"metadata.finalizers: {quoted(finalizer)}: {why}"


def drop_duplicate_owners(metadata: Obj, warnings: list[str], *, after_admission: bool) -> None:
    """Keep each owner reference once, and append Kubernetes' warning if any was repeated."""
    references = metadata.get("ownerReferences")
    if not references or len(references) == 1:
        return
    kept: list[Obj] = []
    repeated: dict[str, None] = {}
    for reference in references:
        if reference in kept:
            repeated[reference["uid"]] = None
        else:
            kept.append(reference)
    if repeated:
        metadata["ownerReferences"] = kept
        warnings.append(
            DUPLICATE_OWNERS.format(
                " after mutating admission happens" * after_admission, ", ".join(repeated)
            )
        )


def _name_errors(kind: Kind, metadata: Obj, *, lenient: bool = False) -> Iterator[Cause]:
    check = kind.rules.name
    if prefix := metadata.get("generateName"):
        for words in () if lenient else check(as_prefix(prefix)):
            yield Cause.invalid("metadata.generateName", prefix, words)
    if name := metadata.get("name"):
        for words in () if lenient else check(name):
            yield Cause.invalid("metadata.name", name, words)
    else:
        yield Cause.required("metadata.name", "name or generateName is required")
    if kind.resource.namespaced:
        for words in dns1123_label(metadata["namespace"]):
            yield Cause.invalid("metadata.namespace", metadata["namespace"], words)


def _common_errors(metadata: Obj, maps_and_owners: Iterable[Cause]) -> Iterator[Cause]:
    generation = metadata.get("generation", 0)
    if generation < 0:
        yield Cause.invalid("metadata.generation", generation, "must be greater than or equal to 0")
    yield from maps_and_owners
    if finalizers := metadata.get("finalizers"):
        for finalizer in finalizers:
            for words in label_key(finalizer):
                yield Cause.invalid("metadata.finalizers", finalizer, words)
        if "orphan" in finalizers and "foregroundDeletion" in finalizers:
            yield Cause.invalid(
                "metadata.finalizers",
                finalizers,
                "finalizer orphan and foregroundDeletion cannot be both set",
            )


def _map_and_owner_errors(metadata: Obj) -> Iterator[Cause]:
    if labels := metadata.get("labels"):
        yield from label_errors("metadata.labels", labels)
    if annotations := metadata.get("annotations"):
        yield from annotation_errors("metadata.annotations", annotations)
    if references := metadata.get("ownerReferences"):
        controller = ""
        for reference in references:
            version = reference.get("apiVersion", "")
            if not version.strip("/") or version.count("/") > 1 or version.endswith("/"):
                why = "version must not be empty"
                yield Cause.invalid("metadata.ownerReferences.apiVersion", version, why)
            yield from (
                Cause.invalid(f"metadata.ownerReferences.{part}", "", "must not be empty")
                for part in ("kind", "name", "uid")
                if not reference.get(part)
            )
            if (version, reference.get("kind")) == ("v1", "Event"):
                yield Cause.invalid(
                    "metadata.ownerReferences",
                    _ordered_reference(reference),
                    "/v1, Kind=Event is disallowed from being an owner",
                )
            if reference.get("controller"):
                name = f"{reference.get('kind', '')}/{reference.get('name', '')}"
                if controller:
                    why = (
                        'Only one reference can have Controller set to true. Found "true" in '
                        f"references for {controller} and {name}"
                    )
                    yield Cause.invalid(
                        "metadata.ownerReferences",
                        [_ordered_reference(each) for each in references],
                        why,
                    )
                controller = controller or name


def label_errors(field: str, labels: Mapping[str, str]) -> Iterator[Cause]:
    for key, value in labels.items():
        for words in label_key(key):
            yield Cause.invalid(field, key, words)
        for words in label_value(value):
            yield Cause.invalid(field, value, words)


def annotation_errors(field: str, annotations: Mapping[str, str]) -> Iterator[Cause]:
    size = 0
    for key, value in annotations.items():
        size += len(key.encode()) + len(value.encode())
        for words in label_key(key.lower()):
            yield Cause.invalid(field, key, words)
    if size > ANNOTATIONS_LIMIT:
        yield Cause.too_long(field, ANNOTATIONS_LIMIT)


def _ordered_reference(reference: Obj) -> dict[str, Any]:
    return {name: reference[name] for name in OWNER_REFERENCE_FIELDS if name in reference}


def _unqualified_finalizers(kind: Kind, metadata: Obj) -> Iterator[Cause]:
    if kind.rules.qualified_finalizers:
        for number, finalizer in enumerate(metadata.get("finalizers") or ()):
            yield from finalizer_errors(f"metadata.finalizers[{number}]", finalizer)


def finalizer_errors(field: str, finalizer: str) -> Iterator[Cause]:
    if "/" not in finalizer and finalizer not in WELL_KNOWN_FINALIZERS:
        yield Cause.invalid(
            field, finalizer, "name is neither a standard finalizer name nor is it fully qualified"
        )


def _change_errors(new: Obj, old: Obj) -> Iterator[Cause]:
    if old.get("deletionTimestamp"):
        before = old.get("finalizers") or ()
        if added := sorted({*(new.get("finalizers") or ())} - {*before}):
            listed = ", ".join(map(quoted, added))
            why = (
                "no new finalizers can be added if the object is being deleted, found new "
                "finalizers"
            )
            yield Cause.forbidden("metadata.finalizers", f"{why} []string{{{listed}}}")
    if new.get("generation", 0) < old.get("generation", 0):
        yield Cause.invalid(
            "metadata.generation", new.get("generation", 0), "must not be decremented"
        )
    for name in IMMUTABLE:
        if new.get(name) != old.get(name):
            yield Cause.invalid(f"metadata.{name}", new.get(name), "field is immutable")
