"""Terms of pod affinity: parsed once per pod, and counted per node over all assigned pods."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from pytest_kscen.embedded.scheduler.framework.snapshot import Watcher
from pytest_kscen.embedded.scheduler.plugins.pod_counts import (
    LabelIndex,
    LabelRequirements,
    PodCounts,
    PodSelector,
    requirements_hold,
    selector_requirements,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from pytest_kscen.embedded.scheduler.framework.pods_and_nodes import NodeInfo, PodInfo
    from pytest_kscen.objects.resources import Obj

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


class TermKind(enum.Enum):
    AFFINITY = enum.auto()
    ANTI_AFFINITY = enum.auto()
    PREFERENCE = enum.auto()
    """Preferred term; its weight is negative for anti-affinity."""


@dataclass(frozen=True, slots=True)
class AffinityTerm:
    """Term of a pod's affinity or anti-affinity to other pods. A value: equal terms share one
    count.
    """

    kind: TermKind
    key: str
    """Topology key of the domains in which the term holds."""
    namespaces: frozenset[str]
    namespace_selector: LabelRequirements | None
    """Requirements on labels of further namespaces."""
    labels: LabelRequirements | None
    weight: int = 0

    def matches(
        self, namespace: str, labels: Mapping[str, str], namespace_labels: Mapping[str, str]
    ) -> bool:
        """Return True for a pod with these labels in a namespace with `namespace_labels`."""
        return (
            namespace in self.namespaces
            or requirements_hold(self.namespace_selector, namespace_labels)
        ) and requirements_hold(self.labels, labels)

    def pod_selector(self, names: Callable[[LabelRequirements], Iterable[str]]) -> PodSelector:
        """Return the selector of the pods that it matches now; `names` returns the namespaces with
        certain labels.
        """
        if self.namespace_selector == ():
            return PodSelector(None, self.labels)
        return PodSelector(
            self.namespaces | frozenset(names(self.namespace_selector))
            if self.namespace_selector
            else self.namespaces,
            self.labels,
        )


class PodAffinityTerms(NamedTuple):
    required: tuple[AffinityTerm, ...]
    forbidden: tuple[AffinityTerm, ...]
    preferred: tuple[AffinityTerm, ...]

    @classmethod
    def of(cls, pod: PodInfo) -> PodAffinityTerms:
        affinity = pod.spec.get("affinity") or {}
        near, far = affinity.get("podAffinity") or {}, affinity.get("podAntiAffinity") or {}
        if not near and not far:
            return NO_TERMS
        return cls(
            tuple(
                _parse_term(TermKind.AFFINITY, term, pod.namespace)
                for term in near.get(REQUIRED) or ()
            ),
            tuple(
                _parse_term(TermKind.ANTI_AFFINITY, term, pod.namespace)
                for term in far.get(REQUIRED) or ()
            ),
            (
                *(
                    _parse_term(
                        TermKind.PREFERENCE, one["podAffinityTerm"], pod.namespace, one["weight"]
                    )
                    for one in near.get(PREFERRED) or ()
                ),
                *(
                    _parse_term(
                        TermKind.PREFERENCE, one["podAffinityTerm"], pod.namespace, -one["weight"]
                    )
                    for one in far.get(PREFERRED) or ()
                ),
            ),
        )


NO_TERMS = PodAffinityTerms((), (), ())


def terms_of(pod: PodInfo) -> PodAffinityTerms:
    return pod.memo("affinity terms", PodAffinityTerms.of)


def _parse_term(kind: TermKind, term: Obj, namespace: str, weight: int = 0) -> AffinityTerm:
    listed, namespace_selector = term.get("namespaces") or (), term.get("namespaceSelector")
    namespaces = (
        frozenset(listed) if listed or namespace_selector is not None else frozenset((namespace,))
    )
    return AffinityTerm(
        kind,
        term["topologyKey"],
        namespaces,
        selector_requirements(namespace_selector),
        selector_requirements(term.get("labelSelector")),
        weight,
    )


class AffinityTermCounts(Watcher):
    """Counts per node of the terms of assigned pods:
    `snapshot.shared(AffinityTermCounts).candidates(pod, namespace_labels)`.
    """

    def __init__(self) -> None:
        self._tallies: dict[AffinityTerm, PodCounts] = {}
        self._terms: LabelIndex[AffinityTerm] = LabelIndex()

    def candidates(
        self, pod: PodInfo, namespace_labels: Mapping[str, str]
    ) -> Iterator[tuple[AffinityTerm, PodCounts]]:
        """Yield terms of assigned pods that match this pod, with their counts by node."""
        for term in self._terms.candidates(pod.labels):
            if term.matches(pod.namespace, pod.labels, namespace_labels):
                yield term, self._tallies[term]

    def pod_added(self, pod: PodInfo, node: NodeInfo) -> None:
        for terms in terms_of(pod):
            for term in terms:
                if term not in self._tallies:
                    self._tallies[term] = PodCounts()
                    self._terms.add(term, term.labels, term)
                self._tallies[term].add(node, 1)

    def pod_removed(self, pod: PodInfo, node: NodeInfo) -> None:
        for terms in terms_of(pod):
            for term in terms:
                self._tallies[term].add(node, -1)
                if not self._tallies[term].on:
                    del self._tallies[term]
                    self._terms.remove(term, term.labels)
