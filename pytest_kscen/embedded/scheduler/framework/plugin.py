"""Base class of scheduler plugins: one method for each extension point.

A class that overrides a method is called at that point; no further declaration is needed. The
tutorial is in `pytest_kscen.scheduler`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from pytest_kscen.embedded.scheduler.framework.events import EVERYTHING, Interest

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from pytest_kscen.embedded.scheduler.framework.attempt import CycleState
    from pytest_kscen.embedded.scheduler.framework.handle import Handle
    from pytest_kscen.embedded.scheduler.framework.node_table import Mask, NodeTable, Rows, Scores
    from pytest_kscen.embedded.scheduler.framework.pods_and_nodes import (
        NodeInfo,
        Nomination,
        PodInfo,
        QueuedPod,
    )
    from pytest_kscen.embedded.scheduler.framework.status import Status
    from pytest_kscen.objects.resources import Resource

POINTS = {
    "preEnqueue": "pre_enqueue",
    "queueSort": "sort_key",
    "preFilter": "pre_filter",
    "filter": "filter",
    "postFilter": "post_filter",
    "preScore": "pre_score",
    "score": "score",
    "reserve": "reserve",
    "permit": "permit",
    "preBind": "pre_bind",
    "bind": "bind",
    "postBind": "post_bind",
}
"""Extension points by their names in a configuration, with the method called at each."""


class Plugin:
    """Base of all scheduler plugins. Methods that a class does not override are never called.

    One object is made per profile and is used until the configuration changes. So results of one
    attempt belong in its `CycleState`, not in attributes.
    """

    name: str = ""
    """Name by which a configuration selects the plugin; defaults to the class' name. An instance
    has the name that its configuration used.
    """
    reads: ClassVar[Sequence[Resource]] = ()
    """Resources, besides nodes and pods, that the plugin reads from `handle.context.informers`.
    Their caches are synced before the first pod is scheduled.
    """

    def __init__(self, args: Any, handle: Handle) -> None:
        """Called once per profile; `args` are the configuration's pluginConfig args, or {}."""
        self.args = args
        self.handle = handle

    def __init_subclass__(cls) -> None:
        cls.name = cls.__dict__.get("name") or cls.__name__

    @classmethod
    def implements(cls, point: str) -> bool:
        """Return True if this class overrides the method of an extension point. The point goes by
        its name in a configuration, as in `preFilter`.
        """
        method = POINTS[point]
        return getattr(cls, method) is not getattr(Plugin, method)

    def events(self) -> Sequence[Interest]:
        """Return the cluster events that may make a pod schedulable which this plugin refused.

        By default any event does, and each retries all refused pods: narrow it down for speed.
        """
        return (Interest(EVERYTHING),)

    def close(self) -> None:
        """Stop watching; called when the configuration has changed and this object is no longer
        used.
        """

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        """Return a status to keep the pod out of the active queue. A gated pod is checked again
        when it changes or an event from `events` arrives.
        """

    def sort_key(self, queued: QueuedPod) -> Any:
        """Return the key by which queued pods are ordered, the smallest first. All profiles of a
        scheduler must enable the same plugin at this point.
        """
        raise NotImplementedError

    def pre_filter(
        self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]
    ) -> Status | Collection[str] | None:
        """Prepare the attempt; called once, before any node is filtered.

        Return SKIP to omit this plugin's filter, names of nodes to restrict the search to these, or
        any other status to refuse all nodes.
        """

    def add_pod(self, state: CycleState, pod: PodInfo, added: PodInfo, node: NodeInfo) -> None:
        """Update what pre_filter left in this cloned state as if `added` were on the node too.
        Called by preemption, and for pods nominated to the node.
        """

    def remove_pod(self, state: CycleState, pod: PodInfo, removed: PodInfo, node: NodeInfo) -> None:
        """Update what pre_filter left in this cloned state as if `removed` had left the node.
        Called by preemption for each victim it tries.
        """

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        """Return None if the pod can run on this node, otherwise a refusal."""

    def filter_many(
        self, state: CycleState, pod: PodInfo, table: NodeTable, rows: Rows
    ) -> Mask | None:
        """Return a mask of the rows that the pod cannot use; None if it can use all of them.

        Optional, for clusters of thousands of nodes. Reasons are still taken from `filter`, so both
        must agree on every node.
        """
        raise NotImplementedError

    async def post_filter(
        self, state: CycleState, pod: PodInfo, statuses: dict[str, Status]
    ) -> Nomination | Status | None:
        """Try to make room when no node passed; `statuses` has the refusal of each node by name.

        A Nomination means that pods are being deleted on that node in favour of this one.
        """

    def pre_score(
        self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]
    ) -> Status | None:
        """Prepare scoring; called once, with the nodes that passed. Return SKIP to omit this
        plugin's score for the pod.
        """

    def is_indifferent(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]) -> bool:
        """Return True if all these nodes get the same score. The framework then omits the plugin,
        unless results of the attempt are recorded.
        """
        return False

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        """Return the node's score; after `normalize` it must be from 0 to 100."""
        raise NotImplementedError

    def score_many(self, state: CycleState, pod: PodInfo, table: NodeTable, rows: Rows) -> Scores:
        """Return the scores of many rows at once. Optional, for large clusters; it must agree with
        `score` on every node.
        """
        raise NotImplementedError

    def normalize(self, state: CycleState, pod: PodInfo, scores: list[int]) -> list[int]:
        """Return the scores of all nodes, in the same order, scaled to 0 to 100."""
        return scores

    def normalize_many(self, state: CycleState, pod: PodInfo, scores: Scores) -> Scores:
        """Return the scaled scores of an array; must agree with `normalize`."""
        raise NotImplementedError

    def reserve(self, state: CycleState, pod: PodInfo, node: str) -> Status | None:
        """Set aside resources for the pod on the chosen node. A status refuses the node, and
        `unreserve` is called for all plugins.
        """

    def unreserve(self, state: CycleState, pod: PodInfo, node: str) -> None:
        """Release what reserve set aside, because the pod was not bound after all. Called in
        reverse order for all plugins at the reserve point, also those whose reserve was never
        called.
        """

    def permit(self, state: CycleState, pod: PodInfo, node: str) -> Status | None:
        """Return None to allow the binding, a refusal, or `wait(seconds)` to hold the pod."""

    def pre_bind_waits(self, state: CycleState, pod: PodInfo, node: str) -> bool:
        """Return True if pre_bind takes time for this pod. If no plugin's does, the pod is bound
        within the scheduling cycle instead of beside it.
        """
        return self.implements("preBind")

    async def pre_bind(self, state: CycleState, pod: PodInfo, node: str) -> Status | None:
        """Prepare the binding, for example by binding the pod's claims; a status aborts it."""

    async def bind(self, state: CycleState, pod: PodInfo, node: str) -> Status | None:
        """Bind the pod through the API. SKIP leaves it to the next plugin of the point."""

    def post_bind(self, state: CycleState, pod: PodInfo, node: str) -> None:
        """Observe the binding; the result is ignored."""


def overrides(plugin: Plugin, method: str) -> bool:
    return getattr(type(plugin), method) is not getattr(Plugin, method)
