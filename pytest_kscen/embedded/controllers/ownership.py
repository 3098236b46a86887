"""Controller references: who owns an object, adoption and release, and lookups by owner or label.

Used by every controller that has dependents. All lookups use shared informer indexes, so none scans
a namespace.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.kube.api import STRATEGIC_PATCH
from pytest_kscen.kube.cache import Ref
from pytest_kscen.objects.errors import Conflict, Invalid, NotFound
from pytest_kscen.objects.selectors import matches_selector

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator

    from pytest_kscen.embedded.controller import ControllerContext
    from pytest_kscen.kube.cache import Index
    from pytest_kscen.kube.informer import Informer
    from pytest_kscen.objects.resources import Obj, Resource


def controller_of(obj: Obj | None) -> Obj | None:
    """Return the owner reference with `controller: true`, or None. An object has at most one
    controller; None may be passed for a missing object.
    """
    for reference in (obj or {}).get("metadata", {}).get("ownerReferences") or ():
        if reference.get("controller"):
            return reference  # type: ignore[no-any-return]
    return None


def has_same_owners(new: Obj, old: Obj) -> bool:
    """Return True if both versions share the same list of owner references.

    Compares identity: parts that a write did not touch are the same object in the store, so the
    check costs nothing.
    """
    return new["metadata"].get("ownerReferences") is old["metadata"].get("ownerReferences")


def is_controlled_by(obj: Obj, owner: Obj) -> bool:
    reference = controller_of(obj)
    return reference is not None and reference["uid"] == owner["metadata"]["uid"]


def reference_to(owner: Obj, resource: Resource) -> Obj:
    """Return the owner reference that makes this object the controller of a dependent. It also
    blocks the owner's foreground deletion until the dependent is gone.
    """
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def by_controller(obj: Obj) -> Iterator[Hashable]:
    """Yield the index keys of an object: its controller's uid, or its namespace with each of its
    labels.

    Orphans have several keys, so that `find_orphans` can search by any one label.
    """
    reference, metadata = controller_of(obj), obj["metadata"]
    if reference:
        yield reference["uid"]
        return
    namespace = metadata.get("namespace", "")
    yield "orphans", namespace
    for label in (metadata.get("labels") or {}).items():
        yield "orphans", namespace, label


def find_orphans(index: Index, namespace: str, selector: Obj) -> list[Obj]:
    """Return the objects of a namespace without a controller that a selector selects.

    One `matchLabels` entry, if there is one, narrows the index lookup; the selector is then
    evaluated on those candidates only.
    """
    label = next(iter((selector.get("matchLabels") or {}).items()), None)
    candidates = index.of(("orphans", namespace, label) if label else ("orphans", namespace))
    return [obj for obj in candidates if matches_selector(selector, obj["metadata"].get("labels"))]


def by_namespace(obj: Obj) -> Iterator[Hashable]:
    yield obj["metadata"].get("namespace", "")


def controller_index(informer: Informer) -> Index:
    return informer.index("controller", by_controller, stable=True)


def namespace_index(informer: Informer) -> Index:
    return informer.index("namespace", by_namespace, stable=True)


class OwnerEnqueuer:
    """Enqueue the owners of changed dependents: the current controller, a former one, or every
    owner that may adopt an orphan.

    Registers itself with the dependents' informer; one instance serves one kind of owner and one
    kind of dependent.
    """

    def __init__(
        self,
        enqueue: Callable[[Ref], None],
        owners: Informer,
        dependents: Informer,
        *,
        relevant_state: Callable[[Obj], object] | None = None,
    ) -> None:
        """Register for changes of `dependents`.

        `relevant_state` returns the part of a dependent that its owner depends on; changes that
        leave it equal are ignored. Without it, every change enqueues the owner.
        """
        self._enqueue = enqueue
        self._owners = owners
        self._relevant_state = relevant_state
        self._by_namespace = namespace_index(owners)
        dependents.on_change(self.dependent_changed)

    def dependent_changed(self, new: Obj | None, old: Obj | None) -> None:
        before = controller_of(old)
        now = before if new and old and has_same_owners(new, old) else controller_of(new)
        if now and now is before:
            if now["kind"] == self._owners.resource.kind:
                relevant = self._relevant_state
                if not (new and old and relevant and relevant(new) == relevant(old)):
                    self._enqueue_owner(new, now)
            return
        if before and (not now or before["uid"] != now["uid"]):
            self._enqueue_owner(old, before)
        if now:
            self._enqueue_owner(new, now)
        elif new and (
            old is None or before or old["metadata"].get("labels") != new["metadata"].get("labels")
        ):
            metadata = new["metadata"]
            for owner in self._by_namespace.of(metadata.get("namespace", "")):
                if matches_selector(owner["spec"].get("selector"), metadata.get("labels")):
                    self._enqueue(Ref.of(owner))

    def _enqueue_owner(self, dependent: Obj | None, reference: Obj) -> None:
        if reference["kind"] != self._owners.resource.kind or dependent is None:
            return
        ref = Ref(dependent["metadata"].get("namespace", ""), reference["name"])
        owner = self._owners.objects.get(ref)
        if owner and owner["metadata"]["uid"] == reference["uid"]:
            self._enqueue(ref)


class ControllerRefManager:
    """Adopt and release dependents of one kind for owners of one kind, as Kubernetes'
    ControllerRefManager does.

    `finalizers` are added on adoption and removed on release. Failed patches are ignored: another
    owner was faster, or the dependent is gone.
    """

    def __init__(
        self,
        context: ControllerContext,
        owners: Resource,
        dependents: Resource,
        *,
        finalizers: tuple[str, ...] = (),
    ) -> None:
        self._context = context
        self._owners = owners
        self._dependents = dependents
        self._finalizers = finalizers
        self._index = controller_index(context.informers.of(dependents))

    async def claim(
        self, owner: Obj, *, adoptable: Callable[[Obj], bool] = lambda _: True
    ) -> list[Obj]:
        """Return all dependents of the owner after adopting and releasing.

        Dependents that no longer match the selector are released; matching orphans that pass
        `adoptable` are adopted. An owner under deletion does neither.
        """
        metadata, selector = owner["metadata"], owner["spec"].get("selector")
        is_deleting, kept = bool(metadata.get("deletionTimestamp")), []
        for dependent in self._index.of(metadata["uid"]):
            labels = dependent["metadata"].get("labels") or {}
            # A selector with `matchLabels` only takes the short path without parsing.
            if selector is not None and (
                matches_selector(selector, labels)
                if selector.get("matchExpressions")
                else (selector.get("matchLabels") or {}).items() <= labels.items()
            ):
                kept.append(dependent)
            elif not is_deleting:
                gone = {"$patch": "delete", "uid": owner["metadata"]["uid"]}
                finalizers = (
                    {"$deleteFromPrimitiveList/finalizers": list(self._finalizers)}
                    if self._finalizers
                    else {}
                )
                await self._patch(dependent, {"ownerReferences": [gone], **finalizers})
        if is_deleting or not selector:
            return kept
        found = find_orphans(self._index, metadata["namespace"], selector)
        adopted_candidates = [
            orphan
            for orphan in found
            if not orphan["metadata"].get("deletionTimestamp") and adoptable(orphan)
        ]
        if adopted_candidates:
            # Adopt only if the API, not the cache, shows the owner as not under deletion.
            try:
                live = await self._context.api.get(
                    self._owners, metadata["name"], metadata["namespace"]
                )
            except NotFound:
                return kept
            if live["metadata"]["uid"] != metadata["uid"] or live["metadata"].get(
                "deletionTimestamp"
            ):
                return kept
            adoption: Obj = {"ownerReferences": [reference_to(owner, self._owners)]}
            if self._finalizers:
                adoption["finalizers"] = list(self._finalizers)
            kept += [
                adopted
                for orphan in adopted_candidates
                if (adopted := await self._patch(orphan, adoption))
            ]
        return kept

    async def _patch(self, dependent: Obj, change: Obj) -> Obj | None:
        metadata = dependent["metadata"]
        patch = {"metadata": {"uid": metadata["uid"], **change}}
        place = (metadata["name"], patch, metadata["namespace"])
        try:
            return await self._context.api.patch(
                self._dependents, *place, patch_type=STRATEGIC_PATCH
            )
        except (
            NotFound,
            Conflict,
            Invalid,
        ):  # gone, replaced by a namesake, or adopted by another owner
            return None


def _by_label(obj: Obj) -> Iterator[Hashable]:
    metadata = obj["metadata"]
    for key, value in (metadata.get("labels") or {}).items():
        yield metadata.get("namespace", ""), key, value


class LabelSelectorIndex:
    """Find objects of one resource by namespace and label selector. Uses two informer indexes
    that live as long as the informer.
    """

    def __init__(self, informer: Informer) -> None:
        self._by_namespace = namespace_index(informer)
        self._by_label = informer.index("label", _by_label, stable=True)

    def select(self, selector: Obj, namespace: str) -> list[Obj]:
        """Return the objects of a namespace that a LabelSelector selects. One `matchLabels`
        entry, if there is one, narrows the candidates.
        """
        equal = selector.get("matchLabels") or {}
        if equal:
            key, value = next(iter(equal.items()))
            candidates = self._by_label.of((namespace, key, value))
        else:
            candidates = self._by_namespace.of(namespace)
        return [
            obj for obj in candidates if matches_selector(selector, obj["metadata"].get("labels"))
        ]
