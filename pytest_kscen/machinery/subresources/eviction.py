"""eviction: a deletion of a pod that asks its disruption budget first, and notes there that the pod is going."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_kscen.kube.requests import Answer, Options
from pytest_kscen.machinery.admission import Review
from pytest_kscen.machinery.bodies import decode
from pytest_kscen.machinery.core import key_of
from pytest_kscen.machinery.deleting import admit, carry_out, check_preconditions
from pytest_kscen.machinery.reading import current
from pytest_kscen.machinery.subresources import kinds
from pytest_kscen.objects.conditions import condition, is_true, set_condition
from pytest_kscen.objects.errors import ApiError, BadRequest, TooManyRequests, forbidden
from pytest_kscen.objects.resources import POD_DISRUPTION_BUDGETS, Obj
from pytest_kscen.objects.selectors import matches_selector

if TYPE_CHECKING:
    from pytest_kscen.kube.requests import Request
    from pytest_kscen.machinery.core import Core
    from pytest_kscen.machinery.kinds import Kind
    from pytest_kscen.machinery.store import Key

MOST_DISRUPTED = 2000
VIOLATES = "Cannot evict pod as it would violate the pod's disruption budget."
EVICTED: Obj = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
GOING = {
    "type": "DisruptionTarget",
    "status": "True",
    "lastProbeTime": None,
    "reason": "EvictionByEvictionAPI",
    "message": "Eviction API: evicting",
}


async def evict(core: Core, kind: Kind, request: Request) -> Answer:
    body = request.body
    if isinstance(body, dict) and body.get("apiVersion") == "policy/v1beta1":
        body = {**body, "apiVersion": "policy/v1"}
    eviction = decode(kinds.eviction(), request, body, None)
    if eviction["metadata"].get("name", "") != request.name:
        raise BadRequest("name in URL does not match name in Eviction object")
    options = _delete_options(request, eviction.get("deleteOptions") or {})
    review = Review("CREATE", request, core, eviction, None)
    await core.admission.admit(review)
    await _end(core, kind, replace(request, verb="delete", subresource="", body=None, options=options))
    return Answer(EVICTED, 201)


async def _end(core: Core, kind: Kind, deletion: Request) -> None:
    """Nothing is written before all have agreed; the budget is asked again then, for a gatekeeper may have taken his time."""
    while True:
        pod = current(core, kind, deletion)
        check_preconditions(kind, deletion.name, deletion.options, pod)
        _budget_of(core, pod)
        await admit(core, deletion, pod)
        if core.store.get(key_of(kind, deletion, deletion.name)) is pod:
            break
    budget = _budget_of(core, pod)
    if not deletion.options.dry_run:
        if budget:
            core.store.commit(_key(budget), _with_disruption(budget, deletion.name, core.now()))
        pod = core.store.commit(key_of(kind, deletion, deletion.name), _going(pod, core.now()))
    carry_out(core, kind, deletion, pod)


def _key(budget: Obj) -> Key:
    resource, metadata = POD_DISRUPTION_BUDGETS, budget["metadata"]
    return resource.group, resource.plural, metadata["namespace"], metadata["name"]


def _going(pod: Obj, now: str) -> Obj:
    status = {**(pod.get("status") or {})}
    status["conditions"] = set_condition(status.get("conditions"), GOING, now)
    return {**pod, "metadata": {**pod["metadata"]}, "status": status}


def _delete_options(request: Request, given: Obj) -> Options:
    preconditions = given.get("preconditions") or {}
    return Options(
        dry_run=request.options.dry_run or bool(given.get("dryRun")),
        grace_period=given.get("gracePeriodSeconds"),
        propagation=given.get("propagationPolicy") or "",
        orphan_dependents=given.get("orphanDependents"),
        precondition_uid=preconditions.get("uid") or "",
        precondition_version=preconditions.get("resourceVersion") or "",
    )


def _is_unprotected(pod: Obj) -> bool:
    phase = (pod.get("status") or {}).get("phase")
    return phase in {"Succeeded", "Failed", "Pending"} or bool(pod["metadata"].get("deletionTimestamp"))


def _budget_of(core: Core, pod: Obj) -> Obj | None:
    """The budget that the eviction is charged to, if there is one; a refusal if it does not allow it."""
    if _is_unprotected(pod):
        return None
    namespace = pod["metadata"]["namespace"]
    resource = POD_DISRUPTION_BUDGETS
    budgets = [
        budget
        for budget in core.store.all(resource.group, resource.plural, namespace)
        if matches_selector(budget["spec"].get("selector"), pod["metadata"].get("labels"))
    ]
    if len(budgets) > 1:
        raise ApiError("This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.")
    if not budgets or (not is_true(pod, "Ready") and _lets_unhealthy_go(budgets[0])):
        return None
    _refuse_violation(budgets[0])
    return budgets[0]


def _lets_unhealthy_go(budget: Obj) -> bool:
    status = budget.get("status") or {}
    desired = status.get("desiredHealthy", 0)
    always = bool(budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow")
    return always or bool(status.get("currentHealthy", 0) >= desired > 0)


def _refuse_violation(budget: Obj) -> None:
    metadata, status = budget["metadata"], budget.get("status") or {}
    name, allowed = metadata["name"], status.get("disruptionsAllowed", 0)
    if status.get("observedGeneration", 0) < metadata.get("generation", 0):
        raise _violation(f"The disruption budget {name} is still being processed by the server.", retryAfterSeconds=10)
    if len(status.get("disruptedPods") or ()) > MOST_DISRUPTED:
        why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
        raise forbidden(POD_DISRUPTION_BUDGETS._replace(plural="poddisruptionbudget"), name, why)
    if allowed == 0:
        raise _violation(_why_none_is_allowed(name, budget))


def _why_none_is_allowed(name: str, budget: Obj) -> str:
    status, found = budget.get("status") or {}, condition(budget, "DisruptionAllowed") or {}
    desired, healthy = status.get("desiredHealthy", 0), status.get("currentHealthy", 0)
    message = found.get("message") if found.get("status") == "False" else ""
    if message and found.get("reason") == "SyncFailed":
        return f"The disruption budget {name} does not allow evicting pods currently because it failed sync: {message}"
    if healthy <= desired:
        return f"The disruption budget {name} needs {desired} healthy pods and has {healthy} currently"
    reason = f" ({found['reason']}): {message}" if message else ""
    return f"The disruption budget {name} does not allow evicting pods currently{reason}"


def _violation(why: str, **more: int) -> TooManyRequests:
    return TooManyRequests(VIOLATES, details={"causes": [{"reason": "DisruptionBudget", "message": why}], **more})


def _with_disruption(budget: Obj, pod: str, now: str) -> Obj:
    """The budget with one disruption less to allow, until its controller has seen the pod go."""
    status = dict(budget["status"])
    status["disruptionsAllowed"] -= 1
    status["disruptedPods"] = {**(status.get("disruptedPods") or {}), pod: now}
    if status["disruptionsAllowed"] == 0:
        generation = status.get("observedGeneration", 0)
        insufficient = {"type": "DisruptionAllowed", "status": "False", "observedGeneration": generation,
                        "reason": "InsufficientPods", "message": ""}  # fmt: skip
        status["conditions"] = set_condition(status.get("conditions"), insufficient, now)
    return {**budget, "metadata": {**budget["metadata"]}, "status": status}
