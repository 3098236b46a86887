"""Which pods are meant: those of some namespaces with certain labels. Choices are values; equal ones share a count."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from pytest_kscen.objects.selectors import Requirement, requirements_of

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Mapping

    from pytest_kscen.objects.resources import Obj

T = TypeVar("T")
Labels = tuple[Requirement, ...]


def labels_of(selector: Obj | None) -> Labels | None:
    """A LabelSelector; None is one that matches nothing, as opposed to one that is empty and matches everything."""
    return None if selector is None else tuple(requirements_of(selector))


def hold(requirements: Labels | None, labels: Mapping[str, str]) -> bool:
    return requirements is not None and all(requirement.holds(labels) for requirement in requirements)


@dataclass(frozen=True, slots=True)
class Choice:
    """These pods."""

    namespaces: frozenset[str] | None
    """None: all of them."""
    labels: Labels | None
    living: bool = False
    """Not those that are being deleted."""

    def means(self, namespace: str, labels: Mapping[str, str], *, going: bool = False) -> bool:
        if self.living and going:
            return False
        return (self.namespaces is None or namespace in self.namespaces) and hold(self.labels, labels)


class Catalogue(Generic[T]):
    """Things that are about certain labels, found by those of a pod without looking at all of them."""

    def __init__(self) -> None:
        self._by_label: dict[tuple[str, str], dict[Hashable, T]] = {}
        self._others: dict[Hashable, T] = {}

    def add(self, key: Hashable, labels: Labels | None, thing: T) -> None:
        for shelf in self._shelves(labels):
            shelf[key] = thing

    def remove(self, key: Hashable, labels: Labels | None) -> None:
        for shelf in self._shelves(labels):
            shelf.pop(key, None)
        for label in _needed(labels) or ():
            if not self._by_label[label]:
                del self._by_label[label]

    def about(self, labels: Mapping[str, str]) -> Iterator[T]:
        """What may be about such a pod; whether it is, is still to be seen."""
        for label in labels.items():
            if label in self._by_label:
                yield from self._by_label[label].values()
        yield from self._others.values()

    def _shelves(self, labels: Labels | None) -> list[dict[Hashable, T]]:
        needed = _needed(labels)
        if needed is None:
            return [self._others]
        return [self._by_label.setdefault(label, {}) for label in needed]


def _needed(labels: Labels | None) -> list[tuple[str, str]] | None:
    """Labels of which a pod needs one, if the choice says so; they exclude each other."""
    for requirement in labels or ():
        if requirement.operator == "In":
            return [(requirement.key, value) for value in sorted(requirement.values)]
    return None
