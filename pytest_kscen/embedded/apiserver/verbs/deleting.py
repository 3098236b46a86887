"""delete and deletecollection: what `graceful` plans is admitted and committed, and answered as
Kubernetes does.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_kscen.embedded.apiserver.core import key_of
from pytest_kscen.embedded.apiserver.deletion import NAMESPACES, Plan, begin_termination, plan
from pytest_kscen.embedded.apiserver.verbs.reading import current, list_
from pytest_kscen.embedded.apiserver.verbs.updating import alike, remove
from pytest_kscen.kube.api import Answer
from pytest_kscen.objects.errors import NotFound, about, conflict

if TYPE_CHECKING:
    from pytest_kscen.embedded.apiserver.core import Core
    from pytest_kscen.embedded.apiserver.kinds import Kind
    from pytest_kscen.kube.api import Options, Request
    from pytest_kscen.objects.resources import Obj

SHOWN_WHEN_GONE = {
    ("", "namespaces"), ("", "persistentvolumeclaims"), ("", "persistentvolumes"), ("", "pods"),
    ("", "podtemplates"),
    ("", "resourcequotas"), ("", "serviceaccounts"), ("", "services"),
    ("resource.k8s.io", "deviceclasses"),
    ("resource.k8s.io", "resourceclaims"), ("resource.k8s.io", "resourceclaimtemplates"),
    ("resource.k8s.io", "resourceslices"), ("storage.k8s.io", "csidrivers"),
    ("storage.k8s.io", "csinodes"),
    ("storage.k8s.io", "storageclasses"), ("storage.k8s.io", "volumeattachments"),
    ("storage.k8s.io", "volumeattributesclasses"),
}  # fmt: skip
"""Whose deletion is answered with the object; the others' with a Status."""
JOBS = ("batch", "jobs")
PODS_STAY = (
    "child pods are preserved by default when jobs are deleted; set "
    "propagationPolicy=Background to remove them or set "
    "propagationPolicy=Orphan to suppress this warning"
)


async def delete(core: Core, kind: Kind, request: Request) -> Answer:
    _warn(kind, request)
    while True:
        old = current(core, kind, request)
        check_preconditions(kind, request.name, request.options, old)
        await admit(core, request, kind.shown(old))
        if core.store.get(key_of(kind, request, request.name)) is old:
            return _answer(kind, request, *carry_out(core, kind, request, old))


async def delete_collection(core: Core, kind: Kind, request: Request) -> Answer:
    """Delete what a list finds, one by one; what has gone meanwhile is no error."""
    found = (await list_(core, kind, replace(request, verb="list"))).body
    _warn(kind, request)
    options = replace(
        request.options, labels="", fields="", limit=0, continue_token="", resource_version=""
    )
    for item in found["items"]:
        name, namespace = item["metadata"]["name"], item["metadata"].get("namespace", "")
        try:
            await delete(
                core,
                kind,
                replace(request, verb="delete", name=name, namespace=namespace, options=options),
            )
        except NotFound:
            continue
    return Answer(found)


def _warn(kind: Kind, request: Request) -> None:
    options = request.options
    if (
        kind.home == JOBS
        and not options.propagation
        and options.orphan_dependents is None
        and PODS_STAY not in request.warnings
    ):
        request.warnings.append(PODS_STAY)


def check_preconditions(kind: Kind, name: str, options: Options, old: Obj) -> None:
    if not (options.precondition_uid or options.precondition_version):
        return
    uid, version = old["metadata"]["uid"], old["metadata"]["resourceVersion"]
    resource = kind.resource._replace(plural=kind.resource.kind)
    if options.precondition_uid not in {"", uid}:
        why = (
            f"the UID in the precondition ({options.precondition_uid}) does not match the UID "
            f"in record ({uid})."
        )
        raise conflict(
            resource, name, f"{why} The object might have been deleted and then recreated"
        )
    if options.precondition_version not in {"", version}:
        why = (
            f"the ResourceVersion in the precondition ({options.precondition_version}) does "
            "not match the ResourceVersion"
        )
        raise conflict(
            resource, name, f"{why} in record ({version}). The object might have been modified"
        )


async def admit(core: Core, request: Request, old: Obj) -> None:
    if review := core.admission.review("DELETE", request, core, None, old):
        await core.admission.admit(review)


def carry_out(core: Core, kind: Kind, request: Request, old: Obj) -> tuple[Obj, Plan]:
    """The object's last state, and what was planned for it."""
    key, dry = key_of(kind, request, request.name), request.options.dry_run
    options = request.options
    now = core.clock.now()
    if kind.rules.terminate and not old["metadata"].get("deletionTimestamp"):
        planned: Plan = Plan(kind.rules.terminate(old, options, now), goes=False)
    elif kind.home != NAMESPACES:
        planned = plan(kind, old, options, now)
    elif not old["metadata"].get("deletionTimestamp"):
        planned = Plan(begin_termination(old, options, now), goes=False)
    else:
        planned = (
            Plan(old, goes=False)
            if old["spec"].get("finalizers")
            else plan(kind, old, options, now)
        )
    state = old
    if planned.marked and not alike(planned.marked, old):
        state = planned.marked if dry else core.store.commit(key, planned.marked)
    if planned.goes and not dry:
        state = remove(core, kind, key)
    return state, planned


def _answer(kind: Kind, request: Request, state: Obj, planned: Plan) -> Answer:
    code = 202 if not planned.goes and request.options.orphan_dependents is False else 200
    if kind.home in SHOWN_WHEN_GONE or (planned.marked and not planned.goes):
        return Answer(kind.shown(state), code)
    details = about(kind.resource, state["metadata"]["name"], uid=state["metadata"]["uid"])
    return Answer(
        {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Success",
            "details": details,
        },
        code,
    )
