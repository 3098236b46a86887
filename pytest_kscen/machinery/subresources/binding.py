"""binding: a scheduler's word that a pod runs on a node. A pod is bound once."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_kscen.kube.requests import Answer
from pytest_kscen.machinery.admission import Review
from pytest_kscen.machinery.bodies import decode
from pytest_kscen.machinery.core import key_of
from pytest_kscen.machinery.reading import current
from pytest_kscen.machinery.registry import refuse_other_uid
from pytest_kscen.machinery.subresources import kinds
from pytest_kscen.objects.conditions import set_condition
from pytest_kscen.objects.errors import ApiError, BadRequest, Conflict, quoted
from pytest_kscen.objects.resources import PODS, Obj

if TYPE_CHECKING:
    from pytest_kscen.kube.requests import Request
    from pytest_kscen.machinery.core import Core
    from pytest_kscen.machinery.kinds import Kind

BOUND: Obj = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


async def bind_by_body(core: Core, _kind: Kind, request: Request) -> Answer:
    """The older way: a Binding on its own names the pod."""
    binding = decode(kinds.binding(), request, request.body, None)
    name = binding["metadata"].get("name")
    if not name:
        raise BadRequest("Name parameter required.")
    request = replace(request, resource=PODS, name=name, subresource="binding")
    return await _bind(core, core.kind_of(request), request, binding)


async def bind(core: Core, kind: Kind, request: Request) -> Answer:
    binding = decode(kinds.binding(), request, request.body, None)
    if binding["metadata"].get("name", "") != request.name:
        raise BadRequest("name in URL does not match name in Binding object")
    return await _bind(core, kind, request, binding)


async def _bind(core: Core, kind: Kind, request: Request, binding: Obj) -> Answer:
    _refuse_odd_target(binding.get("target") or {})
    review = Review("CREATE", request, core, binding, None)
    await core.admission.admit(review)
    pod = current(core, kind, request)
    refuse_other_uid(kind, request, binding["metadata"], pod)
    if why := _why_not(pod):
        message = f"Operation cannot be fulfilled on pods/binding {quoted(request.name)}: {why}"
        raise Conflict(message, details={"name": request.name, "kind": "pods/binding"})
    if not request.options.dry_run:
        core.store.commit(key_of(kind, request, request.name), _bound(pod, binding, core.now()))
    return Answer(BOUND, 201)


def _refuse_odd_target(target: Obj) -> None:
    kind = target.get("kind", "")
    if kind not in {"", "Node"}:
        raise ApiError(f'target.kind: Unsupported value: {quoted(kind)}: supported values: "Node", "<empty>"')
    if not target.get("name"):
        raise ApiError("target.name: Required value")


def _why_not(pod: Obj) -> str:
    name, spec = pod["metadata"]["name"], pod["spec"]
    if pod["metadata"].get("deletionTimestamp"):
        return f"pod {name} is being deleted, cannot be assigned to a host"
    if spec.get("nodeName"):
        return f"pod {name} is already assigned to node {quoted(spec['nodeName'])}"
    if spec.get("schedulingGates"):
        return f"pod {name} has non-empty .spec.schedulingGates"
    return ""


def _bound(pod: Obj, binding: Obj, now: str) -> Obj:
    metadata = dict(pod["metadata"])
    for name in ("annotations", "labels"):
        if given := binding["metadata"].get(name):
            metadata[name] = {**(metadata.get(name) or {}), **given}
    status = dict(pod.get("status") or {})
    status.pop("nominatedNodeName", None)
    scheduled = {"type": "PodScheduled", "status": "True", "lastProbeTime": None}
    status["conditions"] = set_condition(status.get("conditions"), scheduled, now)
    return {**pod, "metadata": metadata, "spec": {**pod["spec"], "nodeName": binding["target"]["name"]}, "status": status}
