"""What is wrong with an object's metadata, in Kubernetes' words; the same for every kind but for
the name's form.
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
REFERENCE = ("apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion")
NEVER_CHANGES = (
    "name",
    "namespace",
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)
NOT_JUDGED = dict.fromkeys(("resourceVersion", "managedFields"))
REPEATED = (
    ".metadata.ownerReferences contains duplicate entries{}; API server dedups owner "
    "references in 1.20+, and may reject "
    "such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}"
)


def wrong_in_new(kind: Kind, metadata: Obj) -> Iterator[Cause]:
    yield from _wrong_name(kind, metadata)
    yield from _wrong_anywhere(metadata, _wrong_maps_and_owners(metadata))
    yield from _unqualified(kind, metadata)


def wrong_in_update(kind: Kind, new: Obj, old: Obj, subresource: str = "") -> Iterator[Cause]:
    """Kubernetes judges an update's metadata once as new, once as a change for all kinds, and
    once more for its own.
    """
    yield from _wrong_name(kind, new, lenient=True)
    anyhow = list(_wrong_maps_and_owners(new))
    yield from _wrong_anywhere(new, anyhow)
    yield from [*_wrong_change(new, old), *anyhow] * 2
    part = kind.rules.parts.get(subresource)
    if part is None or part.judges_finalizers:
        yield from _unqualified(kind, new)


def is_untouched(new: Obj, old: Obj) -> bool:
    """Whether all that is judged was let through before."""
    return {**new, **NOT_JUDGED} == {**old, **NOT_JUDGED}


def doubtful_finalizers(kind: Kind, new: Obj, old: Obj | None) -> Iterator[str]:
    """Custom resources may have odd finalizers; who adds one is warned."""
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


def without_repetition(metadata: Obj, warnings: list[str], *, after_admission: bool) -> None:
    """Each owner once; who repeats one is warned."""
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
            REPEATED.format(
                " after mutating admission happens" * after_admission, ", ".join(repeated)
            )
        )


def _wrong_name(kind: Kind, metadata: Obj, *, lenient: bool = False) -> Iterator[Cause]:
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


def _wrong_anywhere(metadata: Obj, maps_and_owners: Iterable[Cause]) -> Iterator[Cause]:
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


def _wrong_maps_and_owners(metadata: Obj) -> Iterator[Cause]:
    if labels := metadata.get("labels"):
        yield from wrong_labels("metadata.labels", labels)
    if annotations := metadata.get("annotations"):
        yield from wrong_annotations("metadata.annotations", annotations)
    if references := metadata.get("ownerReferences"):
        controller = ""
        for reference in references:
            yield from _wrong_owner(reference)
            if reference.get("controller"):
                name = f"{reference.get('kind', '')}/{reference.get('name', '')}"
                if controller:
                    why = (
                        'Only one reference can have Controller set to true. Found "true" in '
                        f"references for {controller} and {name}"
                    )
                    yield Cause.invalid(
                        "metadata.ownerReferences", [_in_order(each) for each in references], why
                    )
                controller = controller or name


def wrong_labels(field: str, labels: Mapping[str, str]) -> Iterator[Cause]:
    for key, value in labels.items():
        for words in label_key(key):
            yield Cause.invalid(field, key, words)
        for words in label_value(value):
            yield Cause.invalid(field, value, words)


def wrong_annotations(field: str, annotations: Mapping[str, str]) -> Iterator[Cause]:
    size = 0
    for key, value in annotations.items():
        size += len(key.encode()) + len(value.encode())
        for words in label_key(key.lower()):
            yield Cause.invalid(field, key, words)
    if size > ANNOTATIONS_LIMIT:
        yield Cause.too_long(field, ANNOTATIONS_LIMIT)


def _wrong_owner(reference: Obj) -> Iterator[Cause]:
    field = "metadata.ownerReferences"
    version = reference.get("apiVersion", "")
    if not version.strip("/") or version.count("/") > 1 or version.endswith("/"):
        yield Cause.invalid(f"{field}.apiVersion", version, "version must not be empty")
    for name in ("kind", "name", "uid"):
        if not reference.get(name):
            yield Cause.invalid(f"{field}.{name}", "", "must not be empty")
    if (version, reference.get("kind")) == ("v1", "Event"):
        yield Cause.invalid(
            field, _in_order(reference), "/v1, Kind=Event is disallowed from being an owner"
        )


def _in_order(reference: Obj) -> dict[str, Any]:
    return {name: reference[name] for name in REFERENCE if name in reference}


def _unqualified(kind: Kind, metadata: Obj) -> Iterator[Cause]:
    if kind.rules.qualified_finalizers:
        for number, finalizer in enumerate(metadata.get("finalizers") or ()):
            yield from unqualified_finalizer(f"metadata.finalizers[{number}]", finalizer)


def unqualified_finalizer(field: str, finalizer: str) -> Iterator[Cause]:
    if "/" not in finalizer and finalizer not in WELL_KNOWN_FINALIZERS:
        yield Cause.invalid(
            field, finalizer, "name is neither a standard finalizer name nor is it fully qualified"
        )


def _wrong_change(new: Obj, old: Obj) -> Iterator[Cause]:
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
    for name in NEVER_CHANGES:
        if new.get(name) != old.get(name):
            yield Cause.invalid(f"metadata.{name}", new.get(name), "field is immutable")
