"""Keep one pod of each DaemonSet on every node that it may run on.

Started by `actors`; decisions are in `daemonset_plan`. The scheduler binds the pods, by an affinity
to their node.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.embedded.controller import Reconciler, StatusWriter
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


class DaemonSets(Reconciler):
    """Reconcile each DaemonSet: place pods, roll out a new template, write the status, and truncate
    the revision history.

    At most `BURST` pods are created and deleted per reconciliation; a failure is raised after the
    status is written.
    """

    def __init__(self, context: ControllerContext) -> None:
        self._sets, self._nodes = context.informers.of(DAEMON_SETS), context.informers.of(NODES)
        pods, revisions = context.informers.of(PODS), context.informers.of(CONTROLLER_REVISIONS)
        self._ref_manager = ControllerRefManager(context, DAEMON_SETS, PODS)
        self._revisions = Revisions(context, DAEMON_SETS, HASH)
        self._pods = PodControl(context)
        self._failed_pod_backoff = FailedPodBackoff()
        self._eligibility = NodeEligibility(self._nodes)
        super().__init__(context, self._sets, self._nodes, pods, revisions)
        self._status_writer = StatusWriter(context, self._controller, DAEMON_SETS)
        # Binding is no change: the node of an unscheduled pod is read from its affinity.
        OwnerEnqueuer(
            self._controller.enqueue,
            self._sets,
            pods,
            relevant_state=lambda pod: (node_of(pod), *owner_relevant_state(pod)),
        )

        def set_changed(new: Obj | None, _: Obj | None) -> None:
            if new is None:
                self._eligibility.clear()

        def node_changed(new: Obj | None, old: Obj | None) -> None:
            # Heartbeats change nodes often and decide nothing.
            if new and old and _node_relevant_state(new) == _node_relevant_state(old):
                return
            self._eligibility.clear()
            for ref in self._sets.objects:
                self._controller.enqueue(ref)

        self._sets.on_change(set_changed)
        self._nodes.on_change(node_changed)

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
        pods: dict[str, list[Obj]] = {}
        for pod in await self._ref_manager.claim(owner):
            pods.setdefault(node_of(pod), []).append(pod)
        state = DaemonSetState(
            owner, self._eligibility.of(owner), pods, hash_of(latest), self._context.now()
        )
        failure, retry = None, None
        try:
            if not owner["metadata"].get("deletionTimestamp"):
                retry = await self._manage(state, latest)
        except ApiError as error:
            failure = None if in_terminating_namespace(error) else error
        failed = failure is not None
        status = status_of(state, collisions)
        if status != state.owner.get("status"):
            await self._status_writer.write(state.owner, status, failed=failed)
        hashes = {
            (pod["metadata"].get("labels") or {}).get(HASH)
            for pods in state.pods.values()
            for pod in pods
        }
        in_use = [
            revision["metadata"]["name"] for revision in history if hash_of(revision) in hashes
        ]
        await self._revisions.truncate_history(
            state.owner, history, [*in_use, latest["metadata"]["name"]]
        )
        if failure:
            raise failure
        # Reconcile again when the next ready pod becomes available.
        waits = [retry] if retry else []
        if min_ready := owner["spec"].get("minReadySeconds", 0):
            waits += [
                wait
                for pods_on_node in state.pods.values()
                for pod in pods_on_node
                if (wait := seconds_until_available(pod, min_ready, state.now))
            ]
        return min(waits, default=None)

    async def _manage(self, state: DaemonSetState, latest: Obj) -> float | None:
        plan = plan_placement(state)
        # Delete finished daemon pods, so that new ones are created; failed ones only after a
        # back-off.
        waits = []
        for pod, node in plan.failed:
            failed, name = (
                has_failed(pod),
                f"{pod['metadata']['namespace']}/{pod['metadata']['name']}",
            )
            wait = (
                self._failed_pod_backoff.wait(
                    (state.owner["metadata"]["uid"], node), self._context.now()
                )
                if failed
                else 0.0
            )
            if wait:
                waits.append(wait)
                continue
            if failed:
                message = f"Found failed daemon pod {name} on node {node}, will try to kill it"
                self._context.recorder.warning(state.owner, "FailedDaemonPod", message)
            else:
                message = f"Found succeeded daemon pod {name} on node {node}, will try to delete it"
                self._context.recorder.normal(state.owner, "SucceededDaemonPod", message)
            await self._pods.delete(state.owner, pod)
        retry = min(waits, default=None)
        await self._execute(state, plan, latest)
        rolling = (state.owner["spec"].get("updateStrategy") or {}).get(
            "type", "RollingUpdate"
        ) == "RollingUpdate"
        if rolling and not plan:
            await self._execute(state, plan_rollout(state), latest)
        return retry

    async def _execute(self, state: DaemonSetState, plan: DaemonSetPlan, latest: Obj) -> None:
        for pod in plan.delete[:BURST]:
            await self._pods.delete(state.owner, pod)
            gone = {
                **pod,
                "metadata": {**pod["metadata"], "deletionTimestamp": self._context.timestamp()},
            }
            pods_on_node = state.pods[node_of(pod)]
            pods_on_node[pods_on_node.index(pod)] = gone
        for node in plan.create[:BURST]:
            made = await self._pods.create(state.owner, build_pod(state.owner, node, latest))
            state.pods.setdefault(node, []).append(made)


class NodeEligibility:
    """Cache of the nodes each DaemonSet may run on, by uid and template.

    Computing it visits all nodes, so it is kept until `clear` is called, on a relevant change of a
    node or the deletion of a DaemonSet.
    """

    def __init__(self, nodes: Informer) -> None:
        self._nodes = nodes
        self._cache: dict[str, tuple[Obj, dict[str, tuple[bool, bool]]]] = {}

    def of(self, owner: Obj) -> dict[str, tuple[bool, bool]]:
        uid, template = owner["metadata"]["uid"], owner["spec"]["template"]
        before, places = self._cache.get(uid, (None, {}))
        if template is not before:
            places = {
                node["metadata"]["name"]: daemon_eligibility(owner, node) for node in self._nodes
            }
            self._cache[uid] = template, places
        return places

    def clear(self) -> None:
        self._cache.clear()


class FailedPodBackoff:
    """Delay before a failed daemon pod is replaced, by DaemonSet and node. It is 1 s, doubled on
    each failure up to 15 minutes.

    Forgotten after twice the longest delay without a failure.
    """

    def __init__(self) -> None:
        self._entries: dict[tuple[str, str], tuple[float, float]] = {}

    def wait(self, key: tuple[str, str], now: float) -> float:
        """Return the seconds that are left. 0 allows one replacement now and starts the next,
        longer delay.
        """
        delay, blocked_until = self._entries.get(key, (0.0, now))
        if now < blocked_until:
            return blocked_until - now
        has_recovered = now - blocked_until > 2 * LONGEST_BACKOFF
        delay = FIRST_BACKOFF if has_recovered or not delay else min(2 * delay, LONGEST_BACKOFF)
        self._entries[key] = (delay, now + delay)
        return 0.0


def _node_relevant_state(node: Obj) -> tuple[object, ...]:
    return node["metadata"].get("labels"), taints_of(node)
