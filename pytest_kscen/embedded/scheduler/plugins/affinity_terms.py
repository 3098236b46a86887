"""What the pods on nodes want of others: each wish once, with how many pods have it on each node.

A pod that looks for a node asks which wishes are about it.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from pytest_kscen.embedded.scheduler.framework.snapshot import Watcher
from pytest_kscen.embedded.scheduler.plugins.pod_counts import (
    Catalogue,
    Choice,
    Labels,
    Tally,
    hold,
    labels_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from pytest_kscen.embedded.scheduler.framework.pods_and_nodes import NodeInfo, PodInfo
    from pytest_kscen.objects.resources import Obj

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


class Kind(enum.Enum):
    """What a term is for."""

    NEEDS = enum.auto()
    FORBIDS = enum.auto()
    LIKES = enum.auto()
    """With a weight, which is negative for anti-affinity."""


@dataclass(frozen=True, slots=True)
class Term:
    """One term of a pod's affinity to other pods, or of its anti-affinity."""

    kind: Kind
    key: str
    """The topology in which it holds."""
    namespaces: frozenset[str]
    spaces: Labels | None
    """Namespaces with such labels as well."""
    labels: Labels | None
    weight: int = 0

    def means(self, namespace: str, labels: Mapping[str, str], space: Mapping[str, str]) -> bool:
        """A pod of this namespace, which has the labels `space`."""
        return (namespace in self.namespaces or hold(self.spaces, space)) and hold(
            self.labels, labels
        )

    def choice(self, names: Callable[[Labels], Iterable[str]]) -> Choice:
        """The pods that it means among those that are there; `names` are the namespaces with
        certain labels.
        """
        if self.spaces == ():
            return Choice(None, self.labels)
        return Choice(
            self.namespaces | frozenset(names(self.spaces)) if self.spaces else self.namespaces,
            self.labels,
        )


class Terms(NamedTuple):
    """All that a pod has."""

    needs: tuple[Term, ...]
    forbids: tuple[Term, ...]
    likes: tuple[Term, ...]

    @classmethod
    def of(cls, pod: PodInfo) -> Terms:
        affinity = pod.spec.get("affinity") or {}
        near, far = affinity.get("podAffinity") or {}, affinity.get("podAntiAffinity") or {}
        if not near and not far:
            return NONE
        return cls(
            tuple(_term(Kind.NEEDS, term, pod.namespace) for term in near.get(REQUIRED) or ()),
            tuple(_term(Kind.FORBIDS, term, pod.namespace) for term in far.get(REQUIRED) or ()),
            (
                *(
                    _term(Kind.LIKES, one["podAffinityTerm"], pod.namespace, one["weight"])
                    for one in near.get(PREFERRED) or ()
                ),
                *(
                    _term(Kind.LIKES, one["podAffinityTerm"], pod.namespace, -one["weight"])
                    for one in far.get(PREFERRED) or ()
                ),
            ),
        )


NONE = Terms((), (), ())


def terms_of(pod: PodInfo) -> Terms:
    return pod.memo("affinity terms", Terms.of)


def _term(kind: Kind, term: Obj, namespace: str, weight: int = 0) -> Term:
    listed, spaces = term.get("namespaces") or (), term.get("namespaceSelector")
    namespaces = frozenset(listed) if listed or spaces is not None else frozenset((namespace,))
    return Term(
        kind,
        term["topologyKey"],
        namespaces,
        labels_of(spaces),
        labels_of(term.get("labelSelector")),
        weight,
    )


class Standing(Watcher):
    """`snapshot.shared(Standing).about(pod, space)`."""

    def __init__(self) -> None:
        self._tallies: dict[Term, Tally] = {}
        self._terms: Catalogue[Term] = Catalogue()

    def about(self, pod: PodInfo, space: Mapping[str, str]) -> Iterator[tuple[Term, Tally]]:
        """The terms of others that mean this pod, whose namespace has the labels `space`."""
        for term in self._terms.about(pod.labels):
            if term.means(pod.namespace, pod.labels, space):
                yield term, self._tallies[term]

    def pod_added(self, pod: PodInfo, node: NodeInfo) -> None:
        for terms in terms_of(pod):
            for term in terms:
                if term not in self._tallies:
                    self._tallies[term] = Tally()
                    self._terms.add(term, term.labels, term)
                self._tallies[term].add(node, 1)

    def pod_removed(self, pod: PodInfo, node: NodeInfo) -> None:
        for terms in terms_of(pod):
            for term in terms:
                self._tallies[term].add(node, -1)
                if not self._tallies[term].on:
                    del self._tallies[term]
                    self._terms.remove(term, term.labels)
