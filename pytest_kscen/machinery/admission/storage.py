"""Defaults and protection for claims and volumes: a class for who names none, a finalizer for what is in use, no growth
where the class does not allow it. And a class for an ingress that names none, which goes by the same rule.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.objects import quantities

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pytest_kscen.machinery.admission.review import Review
    from pytest_kscen.objects.resources import Obj

GROUP, CLASSES = "storage.k8s.io", "storageclasses"
IS_DEFAULT = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")
BETA_CLASS = "volume.beta.kubernetes.io/storage-class"
IS_DEFAULT_INGRESS = ("ingressclass.kubernetes.io/is-default-class",)
INGRESS_CLASS = "kubernetes.io/ingress.class"
NOT_BOUND = "Only bound persistent volume claims can be expanded"
NO_GROWTH = "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize"


def default_class(review: Review) -> None:
    """DefaultStorageClass: the newest class that says it is the default."""
    assert review.new is not None
    spec = review.new["spec"]
    if spec.get("storageClassName") is not None or BETA_CLASS in _annotations(review.new):
        return
    if name := _default(review.core.store.all(GROUP, CLASSES), IS_DEFAULT):
        review.new["spec"] = {**spec, "storageClassName": name}


def default_ingress_class(review: Review) -> None:
    """DefaultIngressClass."""
    assert review.new is not None
    spec = review.new.get("spec") or {}
    if spec.get("ingressClassName") is not None or INGRESS_CLASS in _annotations(review.new):
        return
    if name := _default(review.core.store.all("networking.k8s.io", "ingressclasses"), IS_DEFAULT_INGRESS):
        review.new["spec"] = {**spec, "ingressClassName": name}


def _default(classes: Iterable[Obj], marks: tuple[str, ...]) -> str:
    """The name of the newest class with a mark; of those of one second the first by name."""
    marked = [each for each in classes if any(_annotations(each).get(mark) == "true" for mark in marks)]
    marked.sort(key=lambda each: str(each["metadata"]["name"]))
    newest = max(marked, key=lambda each: str(each["metadata"]["creationTimestamp"]), default=None)
    return str(newest["metadata"]["name"]) if newest else ""


def _annotations(obj: Obj) -> Obj:
    return obj["metadata"].get("annotations") or {}


def protected_by(finalizer: str) -> Callable[[Review], None]:
    """StorageObjectInUseProtection."""

    def protect(review: Review) -> None:
        assert review.new is not None
        metadata = review.new["metadata"]
        given = metadata.get("finalizers") or []
        if finalizer not in given:
            metadata["finalizers"] = [*given, finalizer]

    return protect


def allow_growth(review: Review) -> None:
    """PersistentVolumeClaimResize."""
    old, new = review.old, review.new
    if old is None or new is None or quantities.compare(_size(new), _size(old)) <= 0:
        return
    if (old.get("status") or {}).get("phase") != "Bound":
        raise review.forbidden(NOT_BOUND)
    name = _class_of(new)
    found = review.core.store.get((GROUP, CLASSES, "", name)) if name and name == _class_of(old) else None
    if found is None or not found.get("allowVolumeExpansion"):
        raise review.forbidden(NO_GROWTH)


def _size(claim: Obj) -> str:
    requests = (claim["spec"].get("resources") or {}).get("requests") or {}
    return str(requests.get("storage", "0"))


def _class_of(claim: Obj) -> str:
    return str(_annotations(claim).get(BETA_CLASS) or claim["spec"].get("storageClassName") or "")
