"""Compute how many pods each PodDisruptionBudget allows to be evicted now.

Writes the budget's status only; the eviction itself is decided by the API server, which reads that
status.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_kscen.clock import epoch_of
from pytest_kscen.embedded.controller import Reconciler, follow
from pytest_kscen.embedded.controllers.ownership import (
    LabelSelectorIndex,
    controller_of,
    namespace_index,
)
from pytest_kscen.embedded.controllers.pod_state import is_ready, scaled_int_or_percent
from pytest_kscen.kube.cache import Ref
from pytest_kscen.objects.conditions import condition, set_condition
from pytest_kscen.objects.errors import MethodNotAllowed, NotFound
from pytest_kscen.objects.resources import (
    DEPLOYMENTS,
    POD_DISRUPTION_BUDGETS,
    PODS,
    REPLICA_SETS,
    STATEFUL_SETS,
)
from pytest_kscen.objects.selectors import matches_selector

if TYPE_CHECKING:
    from pytest_kscen.embedded.controller import ControllerContext
    from pytest_kscen.objects.resources import Obj


DELETION_TIMEOUT = 120.0  # seconds from an eviction until the pod must be under deletion


@dataclass(frozen=True, slots=True)
class BudgetTarget:
    """Number of pods that a budget expects, and how many of them have to be healthy.

    Computed once per reconciliation from the budget's spec; a budget that expects no pods allows no
    disruption.
    """

    expected: int
    healthy: int


def needs_owner_sizes(budget: Obj) -> bool:
    """Return True if the budget depends on the sizes of the workloads behind its pods.

    It does not if `minAvailable` is a plain number: then only pods are counted.
    """
    spec = budget["spec"]
    return spec.get("maxUnavailable") is not None or isinstance(spec.get("minAvailable"), str)


def budget_target(budget: Obj, pods: int, owners: int) -> BudgetTarget:
    """Return the expected and the healthy number of pods of a budget.

    `owners` is the sum of the sizes of the workloads that own the pods; percentages refer to it and
    are rounded up.
    """
    spec = budget["spec"]
    if (most := spec.get("maxUnavailable")) is not None:
        return BudgetTarget(owners, max(0, owners - scaled_int_or_percent(most, owners, up=True)))
    least = spec.get("minAvailable", 0)
    return (
        BudgetTarget(owners, scaled_int_or_percent(least, owners, up=True))
        if isinstance(least, str)
        else BudgetTarget(pods, least)
    )


def split_evicted(budget: Obj, pods: list[Obj], now: float) -> tuple[dict[str, str], list[Obj]]:
    """Split evictions that are not yet visible as deletions into waiting ones and overdue ones.

    Return the recorded eviction time by pod name for the waiting ones, and the pods whose eviction
    is older than `DELETION_TIMEOUT`.
    """
    listed = (budget.get("status") or {}).get("disruptedPods") or {}
    waiting, overdue = {}, []
    for pod in pods:
        name = pod["metadata"]["name"]
        if pod["metadata"].get("deletionTimestamp") or name not in listed:
            continue
        if epoch_of(listed[name]) + DELETION_TIMEOUT < now:
            overdue.append(pod)
        else:
            waiting[name] = listed[name]
    return waiting, overdue


def count_healthy(pods: list[Obj], evicted: dict[str, str]) -> int:
    staying = (pod for pod in pods if not pod["metadata"].get("deletionTimestamp"))
    return sum(is_ready(pod) and pod["metadata"]["name"] not in evicted for pod in staying)


def status_of(
    budget: Obj, target: BudgetTarget, current: int, evicted: dict[str, str], now: str
) -> Obj:
    allowed = max(0, current - target.healthy) if target.expected > 0 else 0
    generation = budget["metadata"].get("generation", 1)
    return {
        "conditions": _allowed_conditions(
            budget, "SufficientPods" if allowed else "InsufficientPods", now
        ),
        "currentHealthy": current,
        "desiredHealthy": target.healthy,
        **({"disruptedPods": evicted} if evicted else {}),
        "disruptionsAllowed": allowed,
        "expectedPods": target.expected,
        "observedGeneration": generation,
    }


def failed_status(budget: Obj, message: str, now: str) -> Obj:
    """Return the status of a budget whose pods cannot be counted: no disruption is allowed.

    All other fields keep their last values, as the real controller's fail-safe does.
    """
    conditions = _allowed_conditions(budget, "SyncFailed", now, message)
    return {**(budget.get("status") or {}), "disruptionsAllowed": 0, "conditions": conditions}


def _allowed_conditions(budget: Obj, reason: str, now: str, message: str = "") -> list[Obj]:
    fields = {
        "type": "DisruptionAllowed",
        "status": "True" if reason == "SufficientPods" else "False",
        "reason": reason,
        "message": message,
        "observedGeneration": budget["metadata"].get("generation", 1),
    }
    old = condition(budget, "DisruptionAllowed")
    if old and all(old.get(name, "") == value for name, value in fields.items()):
        return list(budget["status"]["conditions"])
    return set_condition((budget.get("status") or {}).get("conditions"), fields, now)


UNMANAGED = (
    "Pods selected by this PodDisruptionBudget (selector: {}) were found to be "
    "unmanaged. As a result, the status of the PDB "
    "cannot be calculated correctly, which may result in undefined behavior. To account "
    "for these pods please set "
    '".spec.minAvailable" field of the PDB to an integer value.'
)


class UnscalableError(Exception):
    """Owner of a selected pod whose size cannot be determined: it is not served, or has no
    scale subresource.
    """


class DisruptionBudgets(Reconciler):
    """Keep the status of every budget equal to what its pods and their owners are.

    Wakes on every change of a selected pod that can alter the count, and again when an eviction
    becomes overdue.
    """

    def __init__(self, context: ControllerContext) -> None:
        self._budgets, pods = (
            context.informers.of(POD_DISRUPTION_BUDGETS),
            context.informers.of(PODS),
        )
        self._scalables = {
            row.kind: context.informers.of(row)
            for row in (REPLICA_SETS, DEPLOYMENTS, STATEFUL_SETS)
        }
        self._by_namespace, self._selection = (
            namespace_index(self._budgets),
            LabelSelectorIndex(pods),
        )
        super().__init__(context, self._budgets, pods, *self._scalables.values())
        follow(self._controller, self._budgets)

        def pod_changed(new: Obj | None, old: Obj | None) -> None:
            budgets = self._by_namespace.of((new or old or {})["metadata"].get("namespace", ""))
            if not budgets or (
                new and old and _budget_relevant_state(new) == _budget_relevant_state(old)
            ):
                return
            for budget in budgets:
                selector = budget["spec"].get("selector")
                if any(
                    pod and matches_selector(selector, pod["metadata"].get("labels"))
                    for pod in (new, old)
                ):
                    self._controller.enqueue(Ref.of(budget))

        pods.on_change(pod_changed)

    async def _reconcile(self, ref: Ref) -> float | None:
        budget = self._budgets.objects.get(ref)
        if budget is None:
            return None
        selector = budget["spec"].get("selector")
        pods = self._selection.select(selector, ref.namespace) if selector is not None else []
        if not pods:
            self._context.recorder.normal(budget, "NoPods", "No matching pods found")
        evicted, overdue = split_evicted(budget, pods, self._context.now())
        for pod in overdue:
            message = (
                f"Pod was expected by PDB {ref.namespace}/{ref.name} to be deleted but it wasn't"
            )
            self._context.recorder.warning(pod, "NotDeleted", message)
        try:
            owners = await self._size_of_owners(budget, pods) if needs_owner_sizes(budget) else 0
        except UnscalableError as error:
            message = f"Failed to calculate the number of expected pods: {error}"
            self._context.recorder.warning(budget, "CalculateExpectedPodCountFailed", message)
            failure = failed_status(budget, str(error), self._context.timestamp())
            await self._write_status(budget, failure)
            return None
        target = budget_target(budget, len(pods), owners)
        current = count_healthy(pods, evicted)
        await self._write_status(
            budget, status_of(budget, target, current, evicted, self._context.timestamp())
        )
        return min(
            (
                epoch_of(since) + DELETION_TIMEOUT - self._context.now()
                for since in evicted.values()
            ),
            default=None,
        )

    async def _write_status(self, budget: Obj, status: Obj) -> None:
        if status != budget.get("status"):
            await self._context.api.update(
                POD_DISRUPTION_BUDGETS, {**budget, "status": status}, subresource="status"
            )

    async def _size_of_owners(self, budget: Obj, pods: list[Obj]) -> int:
        sizes: dict[str, int] = {}
        known: list[str] = []
        unmanaged = 0
        for pod in pods:
            reference = controller_of(pod)
            if reference is None:
                unmanaged += 1
            elif reference["uid"] not in known:
                size, root = await self._size_of(reference, pod["metadata"]["namespace"])
                sizes[root] = size
                known.append(reference["uid"])
        if unmanaged:
            selector = budget["spec"]["selector"]
            labels = "".join(
                f"{key}: {value},"
                for key, value in sorted((selector.get("matchLabels") or {}).items())
            )
            parts = "".join(
                f"LabelSelectorRequirement{{Key:{part['key']},Operator:{part['operator']},"
                f"Values:[{' '.join(part.get('values') or ())}],}},"
                for part in selector.get("matchExpressions") or ()
            )
            self._context.recorder.warning(
                budget,
                "UnmanagedPods",
                UNMANAGED.format(
                    f"&LabelSelector{{MatchLabels:map[string]string{{{labels}}},"
                    f"MatchExpressions:[]LabelSelectorRequirement{{{parts}}},}}"
                ),
            )
        return sum(sizes.values())

    async def _size_of(self, reference: Obj, namespace: str) -> tuple[int, str]:
        """Return the size of a workload and the uid of the object that sets it.

        A ReplicaSet's size is its Deployment's, so several ReplicaSets of one rollout count once.
        Kinds that are not cached cost one request for their scale.
        """
        informer = self._scalables.get(reference["kind"])
        if informer is None or informer.resource.api_version != reference["apiVersion"]:
            try:
                resource = await self._context.api.resource_of(
                    reference["apiVersion"], reference["kind"]
                )
            except NotFound as error:
                raise UnscalableError(error.message) from error
            try:
                scale = await self._context.api.get(
                    resource, reference["name"], namespace, subresource="scale"
                )
            except (NotFound, MethodNotAllowed) as error:
                raise UnscalableError(
                    f"{resource.qualified} does not implement the scale subresource"
                ) from error
            return int((scale.get("spec") or {}).get("replicas", 0)), reference["uid"]
        owner = informer.get(reference["name"], namespace)
        if owner is None or owner["metadata"]["uid"] != reference["uid"]:
            return 0, reference["uid"]
        above = controller_of(owner)
        if above and above["kind"] == DEPLOYMENTS.kind:
            return await self._size_of(above, namespace)
        return owner["spec"].get("replicas", 1), reference["uid"]


def _budget_relevant_state(pod: Obj) -> tuple[object, ...]:
    metadata = pod["metadata"]
    return (
        metadata.get("labels"),
        bool(metadata.get("deletionTimestamp")),
        is_ready(pod),
        controller_of(pod),
    )
