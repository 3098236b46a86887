"""Pods that want to be near other pods, or away from them; and those on the nodes that want it of
this one.

What there is in each domain is added up once for a pod, from counts that are kept (`counting`), and
asked for each node."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pytest_kscen.embedded.scheduler.framework.events import NODE, POD, Action, Interest
from pytest_kscen.embedded.scheduler.framework.plugin import Plugin
from pytest_kscen.embedded.scheduler.framework.pods_and_nodes import PodInfo
from pytest_kscen.embedded.scheduler.framework.status import (
    SKIP,
    Status,
    unresolvable,
    unschedulable,
)
from pytest_kscen.embedded.scheduler.plugins.affinity_terms import (
    Kind,
    Standing,
    Term,
    Terms,
    terms_of,
)
from pytest_kscen.embedded.scheduler.plugins.pod_counts import Crowd, Labels, hold
from pytest_kscen.embedded.scheduler.plugins.topology_counts import Sums, Thought, by_domain
from pytest_kscen.objects.resources import NAMESPACES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pytest_kscen.embedded.scheduler.framework.attempt import CycleState
    from pytest_kscen.embedded.scheduler.framework.handle import Handle
    from pytest_kscen.embedded.scheduler.framework.node_table import Rows, Scores, Table, Truths
    from pytest_kscen.embedded.scheduler.framework.pods_and_nodes import NodeInfo
    from pytest_kscen.embedded.scheduler.plugins.pod_counts import Choice
    from pytest_kscen.embedded.scheduler.plugins.topology_counts import Weighted
    from pytest_kscen.objects.resources import Obj

    Wish = tuple[str, Choice]


# What may help a pod that affinity has turned down.


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
        near = not _meets_all(terms.needs, old) and _meets_all(terms.needs, new)
        return near or (_meets_all(terms.forbids, old) and not _meets_all(terms.forbids, new))
    if new:
        return _meets_all(terms.needs, new)
    return old is not None and (_meets_all(terms.forbids, old) or _was_hostile(old, pod))


def is_placed(pod: Obj) -> bool:
    """It is on a node, or will be."""
    return bool(pod["spec"].get("nodeName") or (pod.get("status") or {}).get("nominatedNodeName"))


def _meets_all(terms: Sequence[Term], pod: Obj | None) -> bool:
    """As the real one's hint: a namespace is known by its name alone, and by a selector only if
    that selects all.
    """
    if not terms or pod is None:
        return False
    metadata = pod["metadata"]
    return all(
        term.means(metadata.get("namespace", ""), metadata.get("labels") or {}, {})
        for term in terms
    )


def _was_hostile(other: Obj, pod: PodInfo) -> bool:
    forbids = Terms.of(PodInfo(other)).forbids if other["spec"].get("affinity") else ()
    return bool(forbids) and all(term.means(pod.namespace, pod.labels, {}) for term in forbids)


def _node_changed(pod: PodInfo, old: Obj | None, new: Obj | None) -> bool:
    if new is None:
        return False
    terms = terms_of(pod)
    now = new["metadata"].get("labels") or {}
    if old is None:
        return bool(terms.forbids) or any(term.key in now for term in terms.needs)
    before = old["metadata"].get("labels") or {}
    if any(term.key in now and now[term.key] != before.get(term.key) for term in terms.needs):
        return True
    return any(
        term.key in before and now.get(term.key) != before[term.key] for term in terms.forbids
    )


BEST = 100
NAME, SCORES = "InterPodAffinity", "InterPodAffinity/scores"
NOT_NEAR = unresolvable("node(s) didn't match pod affinity rules").by(NAME)
TOO_NEAR = unschedulable("node(s) didn't match pod anti-affinity rules").by(NAME)
UNWELCOME = unschedulable("node(s) didn't satisfy existing pods anti-affinity rules").by(NAME)


class Around:
    """What is where, for one pod: sums by topology key, and what preemption thinks of on top of
    them.
    """

    def __init__(self, sums: dict[str, Sums], thought: Thought | None = None) -> None:
        self.sums = sums
        self.thought = thought or Thought()

    def at(self, key: str, value: str) -> int:
        return (self.sums[key].get(value) if key in self.sums else 0) + self.thought.get(key, value)

    def is_at(self, labels: Mapping[str, str]) -> bool:
        """Whether there is any in one of the domains of a node with these labels."""
        return any(
            key in labels and self.at(key, labels[key]) > 0
            for key in {**self.sums, **self.thought.changes}
        )

    @property
    def is_nowhere(self) -> bool:
        return sum(sums.total for sums in self.sums.values()) + self.thought.total == 0

    def think(self, key: str, labels: Mapping[str, str], amount: int) -> None:
        if key in labels:
            self.thought.add(key, labels[key], amount)

    def clone(self) -> Around:
        return Around(self.sums, self.thought.clone())


@dataclass(slots=True)
class Surroundings:
    """What an attempt knows. A wish is a topology key, and the pods that are meant."""

    needs: list[Wish]
    forbids: list[Wish]
    space: Mapping[str, str]
    """The labels of the pod's namespace."""
    wanted: Around
    """Pods that the pod needs near: such as meet all its wishes."""
    unwanted: Around
    hostile: Around
    """Pods that do not want this one near."""

    def clone(self) -> Surroundings:
        return replace(
            self,
            wanted=self.wanted.clone(),
            unwanted=self.unwanted.clone(),
            hostile=self.hostile.clone(),
        )

    def are_met_by(self, pod: PodInfo) -> bool:
        """Whether the pod meets all that is needed."""
        return bool(self.needs) and all(
            choice.means(pod.namespace, pod.labels) for _, choice in self.needs
        )

    def is_first(self, pod: PodInfo) -> bool:
        """The first of its kind may be anywhere: those that it needs are such as itself, and
        there are none yet.
        """
        return self.wanted.is_nowhere and self.are_met_by(pod)

    def think(self, pod: PodInfo, other: PodInfo, labels: Mapping[str, str], amount: int) -> None:
        """So many more such pods on a node with these labels."""
        for term in terms_of(other).forbids:
            if term.means(pod.namespace, pod.labels, self.space):
                self.hostile.think(term.key, labels, amount)
        if self.are_met_by(other):
            for key, _ in self.needs:
                self.wanted.think(key, labels, amount)
        for key, choice in self.forbids:
            if choice.means(other.namespace, other.labels):
                self.unwanted.think(key, labels, amount)


class InterPodAffinity(Plugin):
    reads = (NAMESPACES,)

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self._weight_of_needs: int = args.get("hardPodAffinityWeight", 1)
        self._ignores_likes: bool = args.get("ignorePreferredTermsOfExistingPods", False)
        self._namespaces = handle.context.informers.of(NAMESPACES)
        self._snapshot = handle.snapshot
        self._standing = self._snapshot.shared(Standing)

    # --- what must be, and what must not ---

    def pre_filter(
        self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]
    ) -> Status | None:
        terms, space = terms_of(pod), self._space(pod.namespace)
        kind = Kind.FORBIDS
        hostile = Around(
            self._sums(
                (term.key, tally, 1)
                for term, tally in [
                    (term, tally)
                    for term, tally in self._standing.about(pod, space)
                    if term.kind is kind
                ]
            )
        )
        if not terms.needs and not terms.forbids and hostile.is_nowhere:
            return SKIP
        needs, forbids = self._wishes(terms.needs), self._wishes(terms.forbids)
        wanted: dict[str, Sums] = {}
        if needs:
            tally = self._crowd.tally(*(choice for _, choice in needs))
            wanted = self._sums((key, tally, 1) for key, _ in needs)
        unwanted = self._sums((key, self._crowd.tally(choice), 1) for key, choice in forbids)
        state[NAME] = Surroundings(needs, forbids, space, Around(wanted), Around(unwanted), hostile)
        return None

    def add_pod(self, state: CycleState, pod: PodInfo, added: PodInfo, node: NodeInfo) -> None:
        state[NAME].think(pod, added, node.labels, 1)

    def remove_pod(self, state: CycleState, pod: PodInfo, removed: PodInfo, node: NodeInfo) -> None:
        state[NAME].think(pod, removed, node.labels, -1)

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        around: Surroundings = state[NAME]
        if around.needs and not _is_near(around, pod, node.labels):
            return NOT_NEAR
        if around.unwanted.is_at(node.labels):
            return TOO_NEAR
        return UNWELCOME if around.hostile.is_at(node.labels) else None

    def filter_many(
        self, state: CycleState, pod: PodInfo, table: Table, rows: Rows
    ) -> Truths | None:
        around: Surroundings = state[NAME]
        wrong: Truths | None = None
        if around.needs:
            first = around.is_first(pod)
            for key, sums in around.wanted.sums.items():
                wrong = _either(
                    wrong, table.label(key).codes[rows] < 0 if first else sums.many(rows) <= 0
                )
        for shunned in (around.unwanted, around.hostile):
            for sums in shunned.sums.values():
                if sums.total:
                    wrong = _either(wrong, sums.many(rows) > 0)
        return wrong

    # --- what would be liked ---

    def pre_score(
        self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]
    ) -> Status | None:
        likes = terms_of(pod).likes
        if self._ignores_likes and not likes:
            return SKIP
        own = [
            (term.key, self._crowd.tally(term.choice(self._names)), term.weight) for term in likes
        ]
        found = [
            (key, tally, weight)
            for key, tally, weight in (*own, *self._opinions(pod))
            if _is_anywhere(tally.on, key)
        ]
        if not found:
            return SKIP
        state[SCORES] = self._sums(found)
        return None

    def _opinions(self, pod: PodInfo) -> Iterable[tuple[str, Any, int]]:
        """What those on the nodes would say to this pod."""
        space = self._space(pod.namespace)
        for term, tally in self._standing.about(pod, space):
            if term.kind is Kind.LIKES:
                yield term.key, tally, term.weight
            elif term.kind is Kind.NEEDS and self._weight_of_needs:
                yield term.key, tally, self._weight_of_needs

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        return sum(
            sums.get(node.labels[key]) for key, sums in state[SCORES].items() if key in node.labels
        )

    def score_many(self, state: CycleState, pod: PodInfo, table: Table, rows: Rows) -> Scores:
        scores: Scores = 0 * rows
        for sums in state[SCORES].values():
            scores = scores + sums.many(rows)
        return scores

    def normalize(self, state: CycleState, pod: PodInfo, scores: list[int]) -> list[int]:
        low = min(scores, default=0)
        span = max(scores, default=0) - low
        return [int(BEST * ((score - low) / span)) if span else 0 for score in scores]

    def normalize_many(self, state: CycleState, pod: PodInfo, scores: Scores) -> Scores:
        low = scores.min()
        span = scores.max() - low
        return (BEST * ((scores - low) / span)).astype(scores.dtype) if span else 0 * scores

    # --- counting ---

    @property
    def _crowd(self) -> Crowd:
        return self._snapshot.shared(Crowd)

    def _sums(self, parts: Iterable[tuple[str, Any, int]]) -> dict[str, Sums]:
        by_key: dict[str, list[Weighted]] = {}
        for key, tally, weight in parts:
            by_key.setdefault(key, []).append((tally, weight))
        return {
            key: by_domain(key, tallies, self._snapshot.table) for key, tallies in by_key.items()
        }

    def _wishes(self, terms: Sequence[Term]) -> list[Wish]:
        return [(term.key, term.choice(self._names)) for term in terms]

    def _space(self, namespace: str) -> Mapping[str, str]:
        found = self._namespaces.get(namespace)
        labels: Mapping[str, str] = (found["metadata"].get("labels") if found else None) or {}
        return labels

    def _names(self, labels: Labels) -> list[str]:
        """The namespaces with such labels."""
        return [
            one["metadata"]["name"]
            for one in self._namespaces
            if hold(labels, one["metadata"].get("labels") or {})
        ]

    def events(self) -> Sequence[Interest]:
        return affinity_interests()


def _is_near(around: Surroundings, pod: PodInfo, labels: Mapping[str, str]) -> bool:
    if any(key not in labels for key, _ in around.needs):
        return False
    return all(
        around.wanted.at(key, labels[key]) > 0 for key, _ in around.needs
    ) or around.is_first(pod)


def _either(one: Truths | None, other: Truths) -> Truths:
    return other if one is None else one | other


def _is_anywhere(on: Mapping[NodeInfo, int], key: str) -> bool:
    return any(node.obj is not None and key in node.labels for node in on)
