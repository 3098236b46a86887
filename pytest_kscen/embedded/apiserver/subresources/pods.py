"""Subresources of pods: binding, eviction and log; exec, attach and portforward are refused.

Messages and order of checks are kube-apiserver's. Called through `routing`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Never

from pytest_kscen.embedded.apiserver import decoding
from pytest_kscen.embedded.apiserver.admission import Review
from pytest_kscen.embedded.apiserver.core import key_of
from pytest_kscen.embedded.apiserver.decoding import decode
from pytest_kscen.embedded.apiserver.kinds import refuse_other_uid
from pytest_kscen.embedded.apiserver.verbs.deleting import admit, check_preconditions, execute
from pytest_kscen.embedded.apiserver.verbs.reading import stored_object
from pytest_kscen.kube.api import Answer, Options
from pytest_kscen.objects.conditions import condition, is_true, set_condition
from pytest_kscen.objects.errors import (
    ApiError,
    BadRequest,
    Cause,
    Conflict,
    ServiceUnavailable,
    TooManyRequests,
    forbidden,
    invalid,
    quoted,
)
from pytest_kscen.objects.resources import POD_DISRUPTION_BUDGETS, PODS, Obj, Resource
from pytest_kscen.objects.selectors import matches_selector

if TYPE_CHECKING:
    from pytest_kscen.embedded.apiserver.core import Core
    from pytest_kscen.embedded.apiserver.kinds import Kind
    from pytest_kscen.kube.api import Request


BINDING_STATUS: Obj = {
    "kind": "Status",
    "apiVersion": "v1",
    "metadata": {},
    "status": "Success",
    "code": 201,
}


async def bind_by_body(core: Core, _kind: Kind, request: Request) -> Answer:
    """Bind a pod by a Binding posted on its own, the older form.

    The pod's name comes from the body, and admission sees a write of pods/binding.
    """
    binding = decode(decoding.binding_kind(), request, request.body, None)
    name = binding["metadata"].get("name")
    if not name:
        raise BadRequest("Name parameter required.")
    request = replace(request, resource=PODS, name=name, subresource="binding")
    return await _bind(core, core.kind_of(request), request, binding)


async def bind(core: Core, kind: Kind, request: Request) -> Answer:
    binding = decode(decoding.binding_kind(), request, request.body, None)
    if binding["metadata"].get("name", "") != request.name:
        raise BadRequest("name in URL does not match name in Binding object")
    return await _bind(core, kind, request, binding)


async def _bind(core: Core, kind: Kind, request: Request, binding: Obj) -> Answer:
    target = binding.get("target") or {}
    if target.get("kind", "") not in {"", "Node"}:
        raise ApiError(
            f"target.kind: Unsupported value: {quoted(target['kind'])}: "
            'supported values: "Node", "<empty>"'
        )
    if not target.get("name"):
        raise ApiError("target.name: Required value")
    review = Review("CREATE", request, core, binding, None)
    await core.admission.admit(review)
    pod = stored_object(core, kind, request)
    refuse_other_uid(kind, request, binding["metadata"], pod)
    name, spec = pod["metadata"]["name"], pod["spec"]
    if pod["metadata"].get("deletionTimestamp"):
        why: str = f"pod {name} is being deleted, cannot be assigned to a host"
    elif spec.get("nodeName"):
        why = f"pod {name} is already assigned to node {quoted(spec['nodeName'])}"
    elif spec.get("schedulingGates"):
        why = f"pod {name} has non-empty .spec.schedulingGates"
    else:
        why = ""
    if why:
        message = f"Operation cannot be fulfilled on pods/binding {quoted(request.name)}: {why}"
        raise Conflict(message, details={"name": request.name, "kind": "pods/binding"})
    if not request.options.dry_run:
        metadata, status = dict(pod["metadata"]), dict(pod.get("status") or {})
        for field in ("annotations", "labels"):
            if given := binding["metadata"].get(field):
                metadata[field] = {**(metadata.get(field) or {}), **given}
        status.pop("nominatedNodeName", None)
        scheduled = {"type": "PodScheduled", "status": "True", "lastProbeTime": None}
        status["conditions"] = set_condition(status.get("conditions"), scheduled, core.now())
        bound = {**pod, "metadata": metadata, "spec": {**spec, "nodeName": target["name"]}}
        core.store.commit(key_of(kind, request, request.name), {**bound, "status": status})
    return Answer(BINDING_STATUS, 201)


MAX_DISRUPTED_PODS = 2000
VIOLATES = "Cannot evict pod as it would violate the pod's disruption budget."
EVICTION_STATUS: Obj = {
    "kind": "Status",
    "apiVersion": "v1",
    "metadata": {},
    "status": "Success",
    "code": 201,
}
DISRUPTION_TARGET = {
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
    eviction = decode(decoding.eviction_kind(), request, body, None)
    if eviction["metadata"].get("name", "") != request.name:
        raise BadRequest("name in URL does not match name in Eviction object")
    given = eviction.get("deleteOptions") or {}
    preconditions = given.get("preconditions") or {}
    options = Options(
        dry_run=request.options.dry_run or bool(given.get("dryRun")),
        grace_period=given.get("gracePeriodSeconds"),
        propagation=given.get("propagationPolicy") or "",
        orphan_dependents=given.get("orphanDependents"),
        precondition_uid=preconditions.get("uid") or "",
        precondition_version=preconditions.get("resourceVersion") or "",
    )
    review = Review("CREATE", request, core, eviction, None)
    await core.admission.admit(review)
    # Delete a pod if its disruption budget allows, and note the disruption in the budget.
    deletion = replace(request, verb="delete", subresource="", body=None, options=options)
    while True:
        pod = stored_object(core, kind, deletion)
        check_preconditions(kind, deletion.name, deletion.options, pod)
        _budget_of(core, pod)
        await admit(core, deletion, pod)
        if core.store.get(key_of(kind, deletion, deletion.name)) is pod:
            break
    budget = _budget_of(core, pod)
    if not deletion.options.dry_run:
        if budget:
            resource, metadata = POD_DISRUPTION_BUDGETS, budget["metadata"]
            core.store.commit(
                (resource.group, resource.plural, metadata["namespace"], metadata["name"]),
                _with_disruption(budget, deletion.name, core.now()),
            )
        status = {**(pod.get("status") or {})}
        conditions = set_condition(status.get("conditions"), DISRUPTION_TARGET, core.now())
        status["conditions"] = conditions
        pod = core.store.commit(
            key_of(kind, deletion, deletion.name),
            {**pod, "metadata": {**pod["metadata"]}, "status": status},
        )
    execute(core, kind, deletion, pod)
    return Answer(EVICTION_STATUS, 201)


def _budget_of(core: Core, pod: Obj) -> Obj | None:
    """Return the budget that the eviction is charged to, or None; refuse if it allows no
    disruption.
    """
    phase = (pod.get("status") or {}).get("phase")
    if phase in {"Succeeded", "Failed", "Pending"} or bool(
        pod["metadata"].get("deletionTimestamp")
    ):
        return None
    namespace = pod["metadata"]["namespace"]
    resource = POD_DISRUPTION_BUDGETS
    budgets = [
        budget
        for budget in core.store.all(resource.group, resource.plural, namespace)
        if matches_selector(budget["spec"].get("selector"), pod["metadata"].get("labels"))
    ]
    if len(budgets) > 1:
        raise ApiError(
            "This pod has more than one PodDisruptionBudget, which the eviction "
            "subresource does not support."
        )
    if not budgets:
        return None
    budget = budgets[0]
    metadata, status = budget["metadata"], budget.get("status") or {}
    if not is_true(pod, "Ready") and (
        budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow"
        or status.get("currentHealthy", 0) >= status.get("desiredHealthy", 0) > 0
    ):
        return None
    name, allowed = metadata["name"], status.get("disruptionsAllowed", 0)
    if status.get("observedGeneration", 0) < metadata.get("generation", 0):
        raise _violation(
            f"The disruption budget {name} is still being processed by the server.",
            retryAfterSeconds=10,
        )
    if len(status.get("disruptedPods") or ()) > MAX_DISRUPTED_PODS:
        why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
        raise forbidden(POD_DISRUPTION_BUDGETS._replace(plural="poddisruptionbudget"), name, why)
    if allowed == 0:
        raise _violation(_denial(name, budget))
    return budgets[0]


def _denial(name: str, budget: Obj) -> str:
    status, found = budget.get("status") or {}, condition(budget, "DisruptionAllowed") or {}
    desired, healthy = status.get("desiredHealthy", 0), status.get("currentHealthy", 0)
    message = found.get("message") if found.get("status") == "False" else ""
    if message and found.get("reason") == "SyncFailed":
        return (
            f"The disruption budget {name} does not allow evicting pods currently because it "
            f"failed sync: {message}"
        )
    if healthy <= desired:
        return (
            f"The disruption budget {name} needs {desired} healthy pods and has {healthy} currently"
        )
    reason = f" ({found['reason']}): {message}" if message else ""
    return f"The disruption budget {name} does not allow evicting pods currently{reason}"


def _violation(why: str, **more: int) -> TooManyRequests:
    return TooManyRequests(
        VIOLATES, details={"causes": [{"reason": "DisruptionBudget", "message": why}], **more}
    )


def _with_disruption(budget: Obj, pod: str, now: str) -> Obj:
    """Return the budget with one allowed disruption less, until its controller sees the
    pod leave.
    """
    status = dict(budget["status"])
    status["disruptionsAllowed"] -= 1
    status["disruptedPods"] = {**(status.get("disruptedPods") or {}), pod: now}
    if status["disruptionsAllowed"] == 0:
        generation = status.get("observedGeneration", 0)
        insufficient = {
            "type": "DisruptionAllowed",
            "status": "False",
            "observedGeneration": generation,
            "reason": "InsufficientPods",
            "message": "",
        }
        status["conditions"] = set_condition(status.get("conditions"), insufficient, now)
    return {**budget, "metadata": {**budget["metadata"]}, "status": status}


# Container logs, read from the kubelet; bad requests are refused without one.


LOG_OPTIONS = Resource("", "v1", "", "PodLogOptions")
LOG_CONTAINER_LISTS = (
    ("containers", ", choose one of: "),
    ("initContainers", " or one of the init containers: "),
    ("ephemeralContainers", " or one of the ephemeral containers: "),
)
LOG_MINIMUMS = {
    "tailLines": (0, "must be greater than or equal to 0"),
    "sinceSeconds": (1, "must be greater than 0"),
    "limitBytes": (1, "must be greater than 0"),
}


async def read_log(core: Core, kind: Kind, request: Request) -> Answer:
    options = dict(request.options.extra)
    causes = [
        Cause.invalid(name, value, why)
        for name, (least, why) in LOG_MINIMUMS.items()
        if name in options and (value := _parse_int(options[name])) < least
    ]
    if "sinceSeconds" in options and "sinceTime" in options:
        why = "at most one of `sinceTime` or `sinceSeconds` may be specified"
        causes.append(Cause.forbidden("[]", why))
    if options.get("stream"):
        causes.append(Cause.forbidden("stream", "may not be specified"))
    if causes:
        raise invalid(LOG_OPTIONS, request.name, causes)
    pod = stored_object(core, kind, request)
    container = container_of(pod, options.get("container", ""))
    if not pod["spec"].get("nodeName"):
        return Answer("", 204)
    if core.logs is None:
        raise ServiceUnavailable(
            f"no kubelet of this cluster keeps logs: the pod {request.name} has none to read"
        )
    if options.get("follow") in ("true", "1"):
        return Answer(core.logs.follow(request.namespace, request.name, container, options))
    return Answer(await core.logs.read(request.namespace, request.name, container, options))


def _parse_int(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise BadRequest(f"strconv.ParseInt: parsing {quoted(text)}: invalid syntax") from None


def container_of(pod: Obj, requested: str) -> str:
    """Return the requested container; a pod's only container need not be named."""
    name, spec = pod["metadata"]["name"], pod["spec"]
    found = {
        which: [each["name"] for each in spec.get(which) or ()] for which, _ in LOG_CONTAINER_LISTS
    }
    if requested:
        if not any(requested in names for names in found.values()):
            raise BadRequest(f"container {requested} is not valid for pod {name}")
        return requested
    if [len(names) for names in found.values()] == [1, 0, 0]:
        return str(found["containers"][0])
    choice = "".join(
        f"{words}[{' '.join(found[which])}]" for which, words in LOG_CONTAINER_LISTS if found[which]
    )
    raise BadRequest(f"a container name must be specified for pod {name}{choice}")


# exec, attach and portforward need a stream to a kubelet, which embedded kubelets do not serve.
# The refusals are those of an API server that cannot connect to its caller.


SIMULATED = (
    "a connection into a container needs its processes, and this cluster's are simulated: "
    "its log can be read"
)


async def refuse_upgrade(core: Core, kind: Kind, request: Request) -> Never:
    pod = stored_object(core, kind, request)
    if request.subresource != "portforward":
        container_of(pod, dict(request.options.extra).get("container", ""))
    if not pod["spec"].get("nodeName"):
        raise BadRequest(f"pod {request.name} does not have a host assigned")
    if "upgrade" in dict(request.options.extra):
        raise ServiceUnavailable(SIMULATED)
    raise BadRequest("Upgrade request required")
