"""What a plugin may implement: the extension points of the scheduling framework, each a method.

A class that overrides a method stands at that point; nothing else has to be declared. See the
package's docstring."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from pytest_kscen.embedded.scheduler.framework.events import EVERYTHING, Interest

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from pytest_kscen.embedded.scheduler.framework.attempt import CycleState
    from pytest_kscen.embedded.scheduler.framework.handle import Handle
    from pytest_kscen.embedded.scheduler.framework.node_table import Rows, Scores, Table, Truths
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
"""The points by their names in the configuration, and the methods that stand at them."""


class Plugin:
    """The base of every plugin. What it does not override does not concern it."""

    name: str = ""
    """How it can be called once it is registered; the class' name, if left empty.

    One that is made has its configuration's.
    """
    reads: ClassVar[Sequence[Resource]] = ()
    """Of what it looks at `handle.context.informers`' pictures, besides nodes and pods: they are
    there before the first pod.
    """

    def __init__(self, args: Any, handle: Handle) -> None:
        """Made once for each profile; `args` is what the configuration's pluginConfig says, or
        {}.
        """
        self.args = args
        self.handle = handle

    def __init_subclass__(cls) -> None:
        cls.name = cls.__dict__.get("name") or cls.__name__

    @classmethod
    def stands_at(cls, point: str) -> bool:
        method = POINTS[point]
        return getattr(cls, method) is not getattr(Plugin, method)

    def events(self) -> Sequence[Interest]:
        """What may help a pod that this plugin has turned down.

        Everything, unless it says more exactly.
        """
        return (Interest(EVERYTHING),)

    def close(self) -> None:
        """The configuration has changed and this plugin is not used any longer: stop watching."""

    # --- the queue ---

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        """May the pod be looked at?

        One that may not is asked again when it, or something of interest, changes.
        """

    def sort_key(self, queued: QueuedPod) -> Any:
        """Who is next: the smallest key. All profiles need the same plugin here."""
        raise NotImplementedError

    # --- where the pod can be ---

    def pre_filter(
        self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]
    ) -> Status | Collection[str] | None:
        """Once for an attempt, before any node is looked at.

        SKIP: my filter has nothing to say. Names: only these nodes. Any other status: no node at
        all."""

    def add_pod(self, state: CycleState, pod: PodInfo, added: PodInfo, node: NodeInfo) -> None:
        """What if this other pod were on the node too?

        Bring up to date what pre_filter wrote into this (cloned) state.
        """

    def remove_pod(self, state: CycleState, pod: PodInfo, removed: PodInfo, node: NodeInfo) -> None:
        """What if this other pod were not on the node?"""

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        """Can the pod be on this node?"""

    def filter_many(
        self, state: CycleState, pod: PodInfo, table: Table, rows: Rows
    ) -> Truths | None:
        """The same for many nodes at once: true where it cannot; None if it can everywhere.

        Optional, for large clusters. Why a node will not do is asked of `filter`, so both must
        agree."""
        raise NotImplementedError

    async def post_filter(
        self, state: CycleState, pod: PodInfo, statuses: dict[str, Status]
    ) -> Nomination | Status | None:
        """No node will do: can something be done about it? `statuses` says why, by node.

        A nomination: pods are being sent away from that node for this one.
        """

    # --- where it is best ---

    def pre_score(
        self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]
    ) -> Status | None:
        """Once, with the nodes that will do. SKIP: my score has nothing to say."""

    def is_indifferent(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]) -> bool:
        """Whether all these nodes get one and the same score: then nobody asks for it, unless
        results are recorded.
        """
        return False

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        """How good is this node? From 0 to 100 after `normalize`."""
        raise NotImplementedError

    def score_many(self, state: CycleState, pod: PodInfo, table: Table, rows: Rows) -> Scores:
        """The same for many nodes at once. Optional, for large clusters; both must agree."""
        raise NotImplementedError

    def normalize(self, state: CycleState, pod: PodInfo, scores: list[int]) -> list[int]:
        """All scores together, to be brought to 0 to 100."""
        return scores

    def normalize_many(self, state: CycleState, pod: PodInfo, scores: Scores) -> Scores:
        """The same for an array."""
        raise NotImplementedError

    # --- taking it ---

    def reserve(self, state: CycleState, pod: PodInfo, node: str) -> Status | None:
        """The pod will be there: set aside what it needs."""

    def unreserve(self, state: CycleState, pod: PodInfo, node: str) -> None:
        """It will not: give it back.

        Asked in reverse order, of those as well that were not asked to reserve.
        """

    def permit(self, state: CycleState, pod: PodInfo, node: str) -> Status | None:
        """Last chance to refuse, or to `wait`."""

    def pre_bind_waits(self, state: CycleState, pod: PodInfo, node: str) -> bool:
        """Whether pre_bind has something to do that takes time; if nobody has, the binding is
        part of the cycle.
        """
        return self.stands_at("preBind")

    async def pre_bind(self, state: CycleState, pod: PodInfo, node: str) -> Status | None:
        """What must be done before the pod is bound."""

    async def bind(self, state: CycleState, pod: PodInfo, node: str) -> Status | None:
        """Bind the pod; SKIP leaves it to the next plugin."""

    def post_bind(self, state: CycleState, pod: PodInfo, node: str) -> None:
        """The pod is bound."""


def overrides(plugin: Plugin, method: str) -> bool:
    return getattr(type(plugin), method) is not getattr(Plugin, method)
