"""Who controls what: controller references, and the way from a changed dependent to the owners that must look."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.kube.informer import Ref
from pytest_kscen.objects.selectors import matches_selector

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator

    from pytest_kscen.kube.informer import Index, Informer
    from pytest_kscen.objects.resources import Obj, Resource


def controller_of(obj: Obj | None) -> Obj | None:
    """The owner reference of whoever controls it."""
    for reference in (obj or {}).get("metadata", {}).get("ownerReferences") or ():
        if reference.get("controller"):
            return reference  # type: ignore[no-any-return]
    return None


def has_same_owners(new: Obj, old: Obj) -> bool:
    """Told at a glance: what no write has touched is the same object."""
    return new["metadata"].get("ownerReferences") is old["metadata"].get("ownerReferences")


def is_controlled_by(obj: Obj, owner: Obj) -> bool:
    reference = controller_of(obj)
    return reference is not None and reference["uid"] == owner["metadata"]["uid"]


def reference_to(owner: Obj, resource: Resource) -> Obj:
    """The reference that makes this owner the controller."""
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def by_controller(obj: Obj) -> Iterator[Hashable]:
    """Keys of an index: the controller's uid; of those who have none their namespace, alone and with each of their labels."""
    reference, metadata = controller_of(obj), obj["metadata"]
    if reference:
        yield reference["uid"]
        return
    namespace = metadata.get("namespace", "")
    yield "orphans", namespace
    for label in (metadata.get("labels") or {}).items():
        yield "orphans", namespace, label


def orphans(index: Index, namespace: str, selector: Obj) -> list[Obj]:
    """Those without a controller that a selector selects; one equality, if it has any, narrows the search."""
    label = next(iter((selector.get("matchLabels") or {}).items()), None)
    candidates = index.of(("orphans", namespace, label) if label else ("orphans", namespace))
    return [obj for obj in candidates if matches_selector(selector, obj["metadata"].get("labels"))]


def by_namespace(obj: Obj) -> Iterator[Hashable]:
    yield obj["metadata"].get("namespace", "")


def controlled(informer: Informer) -> Index:
    return informer.index("controller", by_controller, lasting=True)


def namespaced(informer: Informer) -> Index:
    return informer.index("namespace", by_namespace, lasting=True)


class Dependents:
    """Wakes the owners of what has changed: the controller, a former one, or all that might adopt an orphan."""

    def __init__(
        self,
        enqueue: Callable[[Ref], None],
        owners: Informer,
        dependents: Informer,
        *,
        matters: Callable[[Obj], object] | None = None,
    ) -> None:
        """`matters` is all that an owner looks at in a dependent of its own; without it, every change counts."""
        self._enqueue = enqueue
        self._owners = owners
        self._matters = matters
        self._by_namespace = namespaced(owners)
        dependents.on_change(self.see)

    def see(self, new: Obj | None, old: Obj | None) -> None:
        before = controller_of(old)
        now = before if new and old and has_same_owners(new, old) else controller_of(new)
        if now and now is before:
            if now["kind"] == self._owners.resource.kind and not self._says_nothing(new, old):
                self._wake(new, now)
            return
        if before and (not now or before["uid"] != now["uid"]):
            self._wake(old, before)
        if now:
            self._wake(new, now)
        elif new and (old is None or before or old["metadata"].get("labels") != new["metadata"].get("labels")):
            self._wake_adopters(new)

    def _says_nothing(self, new: Obj | None, old: Obj | None) -> bool:
        return bool(new and old and self._matters and self._matters(new) == self._matters(old))

    def _wake(self, dependent: Obj | None, reference: Obj) -> None:
        if reference["kind"] != self._owners.resource.kind or dependent is None:
            return
        ref = Ref(dependent["metadata"].get("namespace", ""), reference["name"])
        owner = self._owners.objects.get(ref)
        if owner and owner["metadata"]["uid"] == reference["uid"]:
            self._enqueue(ref)

    def _wake_adopters(self, orphan: Obj) -> None:
        metadata = orphan["metadata"]
        for owner in self._by_namespace.of(metadata.get("namespace", "")):
            if matches_selector(owner["spec"].get("selector"), metadata.get("labels")):
                self._enqueue(Ref.of(owner))
