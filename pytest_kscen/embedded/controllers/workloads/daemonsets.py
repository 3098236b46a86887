"""DaemonSets: one pod on every node that it may run on.

The scheduler places it, by an affinity to that one node.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.embedded.controller import StatusWriter
from pytest_kscen.embedded.controllers.ownership import ControllerRefManager, OwnerEnqueuer
from pytest_kscen.embedded.controllers.pod_control import PodControl, in_terminating_namespace
from pytest_kscen.embedded.controllers.pod_state import (
    owner_relevant_state,
    seconds_until_available,
)
from pytest_kscen.embedded.controllers.workloads.daemonset_plan import (
    HASH,
    DaemonSetPlan,
    DaemonSetState,
    build_pod,
    daemon_eligibility,
    has_failed,
    node_of,
    plan_placement,
    plan_rollout,
    status_of,
)
from pytest_kscen.embedded.controllers.workloads.revisions import Revisions, hash_of
from pytest_kscen.embedded.node_matching import taints_of
from pytest_kscen.objects.errors import ApiError
from pytest_kscen.objects.resources import CONTROLLER_REVISIONS, DAEMON_SETS, NODES, PODS

if TYPE_CHECKING:
    from pytest_kscen.embedded.controller import ControllerContext
    from pytest_kscen.kube.cache import Ref
    from pytest_kscen.kube.informer import Informer
    from pytest_kscen.objects.resources import Obj


FIRST_BACKOFF, LONGEST_BACKOFF = 1.0, 900.0
BURST = 250


class DaemonSets:
    """The controller."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._sets, self._nodes = context.informers.of(DAEMON_SETS), context.informers.of(NODES)
        pods, revisions = context.informers.of(PODS), context.informers.of(CONTROLLER_REVISIONS)
        self._claims = ControllerRefManager(context, DAEMON_SETS, PODS)
        self._revisions = Revisions(context, DAEMON_SETS, HASH)
        self._pods = PodControl(context)
        self._retries = FailedPodBackoff()
        self._places = NodeEligibility(self._nodes)
        self._controller = context.controller(
            self._reconcile, self._sets, self._nodes, pods, revisions
        )
        self._telling = StatusWriter(context, self._controller, DAEMON_SETS)
        OwnerEnqueuer(self._controller.enqueue, self._sets, pods, matters=_daemon_relevant_state)
        self._sets.on_change(self._set_changed)
        self._nodes.on_change(self._node_changed)

    async def run(self) -> None:
        await self._controller.run()

    def _set_changed(self, new: Obj | None, _: Obj | None) -> None:
        if new is None:
            self._places.forget()

    def _node_changed(self, new: Obj | None, old: Obj | None) -> None:
        """Heartbeats change nodes all the time; only what decides where a daemon may run
        matters.
        """
        if new and old and _node_relevant_state(new) == _node_relevant_state(old):
            return
        self._places.forget()
        for ref in self._sets.objects:
            self._controller.enqueue(ref)

    async def _reconcile(self, ref: Ref) -> float | None:
        owner = self._sets.objects.get(ref)
        if owner is None:
            return None
        if owner["spec"].get("selector") == {}:
            message = "This daemon set is selecting all pods. A non-empty selector is required."
            self._context.recorder.warning(owner, "SelectingAll", message)
            return None
        history = await self._revisions.of(owner)
        latest, collisions = await self._revisions.latest(owner, history)
        view = await self._look(owner, latest)
        failure, retry = None, None
        try:
            if not owner["metadata"].get("deletionTimestamp"):
                retry = await self._act(view, latest)
        except ApiError as error:
            failure = None if in_terminating_namespace(error) else error
        await self._tell(view, collisions, failed=failure is not None)
        hashes = {
            (pod["metadata"].get("labels") or {}).get(HASH)
            for pods in view.pods.values()
            for pod in pods
        }
        in_use = [
            revision["metadata"]["name"] for revision in history if hash_of(revision) in hashes
        ]
        await self._revisions.forget(view.owner, history, [*in_use, latest["metadata"]["name"]])
        if failure:
            raise failure
        return min(filter(None, (retry, self._next_available(view))), default=None)

    async def _look(self, owner: Obj, latest: Obj) -> DaemonSetState:
        pods: dict[str, list[Obj]] = {}
        for pod in await self._claims.of(owner):
            pods.setdefault(node_of(pod), []).append(pod)
        return DaemonSetState(
            owner, self._places.of(owner), pods, hash_of(latest), self._context.now()
        )

    async def _act(self, view: DaemonSetState, latest: Obj) -> float | None:
        plan = plan_placement(view)
        retry = await self._delete_finished(view, plan)
        await self._follow(view, plan, latest)
        rolling = (view.owner["spec"].get("updateStrategy") or {}).get(
            "type", "RollingUpdate"
        ) == "RollingUpdate"
        if rolling and not plan:
            await self._follow(view, plan_rollout(view), latest)
        return retry

    async def _follow(self, view: DaemonSetState, plan: DaemonSetPlan, latest: Obj) -> None:
        for pod in plan.delete[:BURST]:
            await self._pods.delete(view.owner, pod)
            gone = {
                **pod,
                "metadata": {**pod["metadata"], "deletionTimestamp": self._context.timestamp()},
            }
            siblings = view.pods[node_of(pod)]
            siblings[siblings.index(pod)] = gone
        for node in plan.create[:BURST]:
            made = await self._pods.create(view.owner, build_pod(view.owner, node, latest))
            view.pods.setdefault(node, []).append(made)

    async def _delete_finished(self, view: DaemonSetState, plan: DaemonSetPlan) -> float | None:
        """A daemon has no business finishing: it goes, and another comes; one that fails again
        and again after a while.
        """
        waits = []
        for pod, node in plan.failed:
            failed, name = (
                has_failed(pod),
                f"{pod['metadata']['namespace']}/{pod['metadata']['name']}",
            )
            wait = (
                self._retries.wait((view.owner["metadata"]["uid"], node), self._context.now())
                if failed
                else 0.0
            )
            if wait:
                waits.append(wait)
                continue
            if failed:
                message = f"Found failed daemon pod {name} on node {node}, will try to kill it"
                self._context.recorder.warning(view.owner, "FailedDaemonPod", message)
            else:
                message = f"Found succeeded daemon pod {name} on node {node}, will try to delete it"
                self._context.recorder.normal(view.owner, "SucceededDaemonPod", message)
            await self._pods.delete(view.owner, pod)
        return min(waits, default=None)

    async def _tell(self, view: DaemonSetState, collisions: int, *, failed: bool) -> None:
        status = status_of(view, collisions)
        if status != view.owner.get("status"):
            await self._telling.tell(view.owner, status, failed=failed)

    @staticmethod
    def _next_available(view: DaemonSetState) -> float | None:
        min_ready = view.owner["spec"].get("minReadySeconds", 0)
        if not min_ready:
            return None
        pods = (pod for siblings in view.pods.values() for pod in siblings)
        return min(
            (wait for pod in pods if (wait := seconds_until_available(pod, min_ready, view.now))),
            default=None,
        )


class NodeEligibility:
    """Where daemons should run: found once for each template, until a node is not what it was,
    or a DaemonSet goes.
    """

    def __init__(self, nodes: Informer) -> None:
        self._nodes = nodes
        self._known: dict[str, tuple[Obj, dict[str, tuple[bool, bool]]]] = {}

    def of(self, owner: Obj) -> dict[str, tuple[bool, bool]]:
        uid, template = owner["metadata"]["uid"], owner["spec"]["template"]
        before, places = self._known.get(uid, (None, {}))
        if template is not before:
            places = {
                node["metadata"]["name"]: daemon_eligibility(owner, node) for node in self._nodes
            }
            self._known[uid] = template, places
        return places

    def forget(self) -> None:
        self._known.clear()


class FailedPodBackoff:
    """How long a node has to wait for its next daemon: longer after each failure, anew after a
    long calm.
    """

    def __init__(self) -> None:
        self._entries: dict[tuple[str, str], tuple[float, float]] = {}

    def wait(self, key: tuple[str, str], now: float) -> float:
        """The seconds that are left; 0 allows one more try, and counts it."""
        pause, until = self._entries.get(key, (0.0, now))
        if now < until:
            return until - now
        calm = now - until > 2 * LONGEST_BACKOFF
        pause = FIRST_BACKOFF if calm or not pause else min(2 * pause, LONGEST_BACKOFF)
        self._entries[key] = (pause, now + pause)
        return 0.0


def _daemon_relevant_state(pod: Obj) -> tuple[object, ...]:
    """As of any owner's pod, and where it is, or is meant to be: that it is bound there is no
    change.
    """
    return node_of(pod), *owner_relevant_state(pod)


def _node_relevant_state(node: Obj) -> tuple[object, ...]:
    return node["metadata"].get("labels"), taints_of(node)
