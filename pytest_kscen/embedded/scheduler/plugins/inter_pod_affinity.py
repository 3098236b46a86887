"""Plugin InterPodAffinity: affinity and anti-affinity to other pods, and theirs to this pod.

Matching pods are summed by topology domain once per attempt, from counts that are kept up to date;
each node is then judged by its domains.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pytest_kscen.embedded.scheduler.framework.events import NODE, POD, Action, Interest, is_placed
from pytest_kscen.embedded.scheduler.framework.plugin import Plugin
from pytest_kscen.embedded.scheduler.framework.pods_and_nodes import PodInfo
from pytest_kscen.embedded.scheduler.framework.status import (
    SKIP,
    Status,
    unresolvable,
    unschedulable,
)
from pytest_kscen.embedded.scheduler.plugins.affinity_terms import (
    AffinityTerm,
    AffinityTermCounts,
    PodAffinityTerms,
    TermKind,
    terms_of,
)
from pytest_kscen.embedded.scheduler.plugins.pod_counts import (
    LabelRequirements,
    MatchingPodCounts,
    requirements_hold,
)
from pytest_kscen.embedded.scheduler.plugins.topology_counts import (
    DomainSums,
    TrialChanges,
    sum_by_domain,
)
from pytest_kscen.objects.resources import NAMESPACES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pytest_kscen.embedded.scheduler.framework.attempt import CycleState
    from pytest_kscen.embedded.scheduler.framework.handle import Handle
    from pytest_kscen.embedded.scheduler.framework.node_table import Mask, NodeTable, Rows, Scores
    from pytest_kscen.embedded.scheduler.framework.pods_and_nodes import NodeInfo
    from pytest_kscen.embedded.scheduler.plugins.pod_counts import PodSelector
    from pytest_kscen.embedded.scheduler.plugins.topology_counts import WeightedCounts
    from pytest_kscen.objects.resources import Obj

    TermSelector = tuple[str, PodSelector]


def affinity_interests() -> Sequence[Interest]:
    return (
        Interest(POD, Action.ADD | Action.POD_LABEL | Action.DELETE, _pod_changed),
        Interest(NODE, Action.ADD | Action.NODE_LABEL, _node_changed),
    )


def _pod_changed(pod: PodInfo, old: Obj | None, new: Obj | None) -> bool:
    if new and old and new["metadata"]["uid"] == pod.uid:
        return True
    if not all(is_placed(one) for one in (old, new) if one):
        return False
    terms = terms_of(pod)
    if new and old:
        near = not _matches_all(terms.required, old) and _matches_all(terms.required, new)
        return near or (
            _matches_all(terms.forbidden, old) and not _matches_all(terms.forbidden, new)
        )
    if new:
        return _matches_all(terms.required, new)
    if old is None:
        return False
    theirs = PodAffinityTerms.of(PodInfo(old)).forbidden if old["spec"].get("affinity") else ()
    return _matches_all(terms.forbidden, old) or (
        bool(theirs) and all(term.matches(pod.namespace, pod.labels, {}) for term in theirs)
    )


def _matches_all(terms: Sequence[AffinityTerm], pod: Obj | None) -> bool:
    """Return True if the pod matches all terms. As in kube-scheduler's hint, namespaces match by
    name, or by a selector that selects all.
    """
    if not terms or pod is None:
        return False
    metadata = pod["metadata"]
    return all(
        term.matches(metadata.get("namespace", ""), metadata.get("labels") or {}, {})
        for term in terms
    )


def _node_changed(pod: PodInfo, old: Obj | None, new: Obj | None) -> bool:
    if new is None:
        return False
    terms = terms_of(pod)
    now = new["metadata"].get("labels") or {}
    if old is None:
        return bool(terms.forbidden) or any(term.key in now for term in terms.required)
    before = old["metadata"].get("labels") or {}
    if any(term.key in now and now[term.key] != before.get(term.key) for term in terms.required):
        return True
    return any(
        term.key in before and now.get(term.key) != before[term.key] for term in terms.forbidden
    )


MAX_SCORE = 100
NAME, SCORES = "InterPodAffinity", "InterPodAffinity/scores"
AFFINITY_MISMATCH = unresolvable("node(s) didn't match pod affinity rules").by(NAME)
ANTI_AFFINITY_MISMATCH = unschedulable("node(s) didn't match pod anti-affinity rules").by(NAME)
EXISTING_ANTI_AFFINITY_MISMATCH = unschedulable(
    "node(s) didn't satisfy existing pods anti-affinity rules"
).by(NAME)


class DomainCounts:
    """Sums by topology key and domain for one pod, and trial changes of preemption on top."""

    def __init__(self, sums: dict[str, DomainSums], trial: TrialChanges | None = None) -> None:
        self.sums = sums
        self.trial = trial or TrialChanges()

    def at(self, key: str, value: str) -> int:
        return (self.sums[key].get(value) if key in self.sums else 0) + self.trial.get(key, value)

    def matches_domain_of(self, labels: Mapping[str, str]) -> bool:
        """Return True if there is a pod in any domain of a node with these labels."""
        return any(
            key in labels and self.at(key, labels[key]) > 0
            for key in {**self.sums, **self.trial.changes}
        )

    @property
    def is_empty(self) -> bool:
        return sum(sums.total for sums in self.sums.values()) + self.trial.total == 0

    def apply_change(self, key: str, labels: Mapping[str, str], amount: int) -> None:
        if key in labels:
            self.trial.add(key, labels[key], amount)

    def clone(self) -> DomainCounts:
        return DomainCounts(self.sums, self.trial.clone())


@dataclass(slots=True)
class AffinityState:
    """Cycle state of the filter. A term selector is a topology key with the pods that a term
    selects.
    """

    required: list[TermSelector]
    forbidden: list[TermSelector]
    namespace_labels: Mapping[str, str]
    """Labels of the pod's namespace."""
    affinity_counts: DomainCounts
    """Pods that match all required affinity terms."""
    anti_affinity_counts: DomainCounts
    existing_anti_affinity_counts: DomainCounts
    """Pods whose anti-affinity matches this pod."""

    def clone(self) -> AffinityState:
        return replace(
            self,
            affinity_counts=self.affinity_counts.clone(),
            anti_affinity_counts=self.anti_affinity_counts.clone(),
            existing_anti_affinity_counts=self.existing_anti_affinity_counts.clone(),
        )

    def matches_required(self, pod: PodInfo) -> bool:
        return bool(self.required) and all(
            selector.matches(pod.namespace, pod.labels) for _, selector in self.required
        )

    def is_first_of_group(self, pod: PodInfo) -> bool:
        """Return True if the pod matches its own required terms and no other pod does yet: the
        first pod of a group may run on any node.
        """
        return self.affinity_counts.is_empty and self.matches_required(pod)

    def apply_change(
        self, pod: PodInfo, other: PodInfo, labels: Mapping[str, str], amount: int
    ) -> None:
        """Count `amount` more pods like `other` on a node with these labels."""
        for term in terms_of(other).forbidden:
            if term.matches(pod.namespace, pod.labels, self.namespace_labels):
                self.existing_anti_affinity_counts.apply_change(term.key, labels, amount)
        if self.matches_required(other):
            for key, _ in self.required:
                self.affinity_counts.apply_change(key, labels, amount)
        for key, selector in self.forbidden:
            if selector.matches(other.namespace, other.labels):
                self.anti_affinity_counts.apply_change(key, labels, amount)


class InterPodAffinity(Plugin):
    """Filter by required terms of the pod and by anti-affinity of assigned pods; score by preferred
    terms of both.
    """

    reads = (NAMESPACES,)

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self._hard_affinity_weight: int = args.get("hardPodAffinityWeight", 1)
        self._ignore_existing_preferences: bool = args.get(
            "ignorePreferredTermsOfExistingPods", False
        )
        self._namespaces = handle.context.informers.of(NAMESPACES)
        self._snapshot = handle.snapshot
        self._term_counts = self._snapshot.shared(AffinityTermCounts)

    def pre_filter(
        self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]
    ) -> Status | None:
        terms, namespace_labels = terms_of(pod), self._labels_of_namespace(pod.namespace)
        kind = TermKind.ANTI_AFFINITY
        existing_anti_affinity_counts = DomainCounts(
            self._sums(
                (term.key, tally, 1)
                for term, tally in self._term_counts.candidates(pod, namespace_labels)
                if term.kind is kind
            )
        )
        if not terms.required and not terms.forbidden and existing_anti_affinity_counts.is_empty:
            return SKIP
        required, forbidden = (
            self._term_selectors(terms.required),
            self._term_selectors(terms.forbidden),
        )
        affinity_counts: dict[str, DomainSums] = {}
        if required:
            tally = self._pod_counts.tally(*(selector for _, selector in required))
            affinity_counts = self._sums((key, tally, 1) for key, _ in required)
        anti_affinity_counts = self._sums(
            (key, self._pod_counts.tally(selector), 1) for key, selector in forbidden
        )
        state[NAME] = AffinityState(
            required,
            forbidden,
            namespace_labels,
            DomainCounts(affinity_counts),
            DomainCounts(anti_affinity_counts),
            existing_anti_affinity_counts,
        )
        return None

    def add_pod(self, state: CycleState, pod: PodInfo, added: PodInfo, node: NodeInfo) -> None:
        state[NAME].apply_change(pod, added, node.labels, 1)

    def remove_pod(self, state: CycleState, pod: PodInfo, removed: PodInfo, node: NodeInfo) -> None:
        state[NAME].apply_change(pod, removed, node.labels, -1)

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        affinity: AffinityState = state[NAME]
        labels = node.labels
        if affinity.required and (
            any(key not in labels for key, _ in affinity.required)
            or not (
                all(
                    affinity.affinity_counts.at(key, labels[key]) > 0
                    for key, _ in affinity.required
                )
                or affinity.is_first_of_group(pod)
            )
        ):
            return AFFINITY_MISMATCH
        if affinity.anti_affinity_counts.matches_domain_of(node.labels):
            return ANTI_AFFINITY_MISMATCH
        return (
            EXISTING_ANTI_AFFINITY_MISMATCH
            if affinity.existing_anti_affinity_counts.matches_domain_of(node.labels)
            else None
        )

    def filter_many(
        self, state: CycleState, pod: PodInfo, table: NodeTable, rows: Rows
    ) -> Mask | None:
        affinity: AffinityState = state[NAME]
        wrong: Mask | None = None
        if affinity.required:
            first = affinity.is_first_of_group(pod)
            for key, sums in affinity.affinity_counts.sums.items():
                wrong = _or(
                    wrong, table.label(key).codes[rows] < 0 if first else sums.many(rows) <= 0
                )
        for counts in (affinity.anti_affinity_counts, affinity.existing_anti_affinity_counts):
            for sums in counts.sums.values():
                if sums.total:
                    wrong = _or(wrong, sums.many(rows) > 0)
        return wrong

    def pre_score(
        self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]
    ) -> Status | None:
        preferred = terms_of(pod).preferred
        if self._ignore_existing_preferences and not preferred:
            return SKIP
        own = [
            (
                term.key,
                self._pod_counts.tally(term.pod_selector(self._matching_namespaces)),
                term.weight,
            )
            for term in preferred
        ]
        existing: list[tuple[str, Any, int]] = []
        namespace_labels = self._labels_of_namespace(pod.namespace)
        for term, tally in self._term_counts.candidates(pod, namespace_labels):
            if term.kind is TermKind.PREFERENCE:
                existing.append((term.key, tally, term.weight))
            elif term.kind is TermKind.AFFINITY and self._hard_affinity_weight:
                existing.append((term.key, tally, self._hard_affinity_weight))
        found = [
            (key, tally, weight)
            for key, tally, weight in (*own, *existing)
            if any(node.obj is not None and key in node.labels for node in tally.on)
        ]
        if not found:
            return SKIP
        state[SCORES] = self._sums(found)
        return None

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        return sum(
            sums.get(node.labels[key]) for key, sums in state[SCORES].items() if key in node.labels
        )

    def score_many(self, state: CycleState, pod: PodInfo, table: NodeTable, rows: Rows) -> Scores:
        scores: Scores = 0 * rows
        for sums in state[SCORES].values():
            scores = scores + sums.many(rows)
        return scores

    def normalize(self, state: CycleState, pod: PodInfo, scores: list[int]) -> list[int]:
        low = min(scores, default=0)
        span = max(scores, default=0) - low
        return [int(MAX_SCORE * ((score - low) / span)) if span else 0 for score in scores]

    def normalize_many(self, state: CycleState, pod: PodInfo, scores: Scores) -> Scores:
        low = scores.min()
        span = scores.max() - low
        return (MAX_SCORE * ((scores - low) / span)).astype(scores.dtype) if span else 0 * scores

    @property
    def _pod_counts(self) -> MatchingPodCounts:
        return self._snapshot.shared(MatchingPodCounts)

    def _sums(self, parts: Iterable[tuple[str, Any, int]]) -> dict[str, DomainSums]:
        by_key: dict[str, list[WeightedCounts]] = {}
        for key, tally, weight in parts:
            by_key.setdefault(key, []).append((tally, weight))
        return {
            key: sum_by_domain(key, tallies, self._snapshot.table)
            for key, tallies in by_key.items()
        }

    def _term_selectors(self, terms: Sequence[AffinityTerm]) -> list[TermSelector]:
        return [(term.key, term.pod_selector(self._matching_namespaces)) for term in terms]

    def _labels_of_namespace(self, namespace: str) -> Mapping[str, str]:
        found = self._namespaces.get(namespace)
        labels: Mapping[str, str] = (found["metadata"].get("labels") if found else None) or {}
        return labels

    def _matching_namespaces(self, labels: LabelRequirements) -> list[str]:
        return [
            one["metadata"]["name"]
            for one in self._namespaces
            if requirements_hold(labels, one["metadata"].get("labels") or {})
        ]

    def events(self) -> Sequence[Interest]:
        return affinity_interests()


def _or(one: Mask | None, other: Mask) -> Mask:
    return other if one is None else one | other
