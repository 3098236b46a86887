"""Which pods a label selector selects, found through an index instead of by asking every pod of the namespace."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.objects.selectors import matches_selector
from pytest_kscen.simulation.workloads.owners import namespaced

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

    from pytest_kscen.kube.informer import Informer
    from pytest_kscen.objects.resources import Obj


def _by_label(obj: Obj) -> Iterator[Hashable]:
    metadata = obj["metadata"]
    for key, value in (metadata.get("labels") or {}).items():
        yield metadata.get("namespace", ""), key, value


class Selection:
    """Answers for one resource."""

    def __init__(self, informer: Informer) -> None:
        self._by_namespace = namespaced(informer)
        self._by_label = informer.index("label", _by_label, lasting=True)

    def of(self, selector: Obj, namespace: str) -> list[Obj]:
        """The objects of a namespace that a LabelSelector selects; one equality, if it has any, narrows the search."""
        equal = selector.get("matchLabels") or {}
        if equal:
            key, value = next(iter(equal.items()))
            candidates = self._by_label.of((namespace, key, value))
        else:
            candidates = self._by_namespace.of(namespace)
        return [obj for obj in candidates if matches_selector(selector, obj["metadata"].get("labels"))]
