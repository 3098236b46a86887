"""The delete and deletecollection verbs: admit and commit the plan of module `deletion`.

Answers with the object or a Status, as Kubernetes does for each kind.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_kscen.embedded.apiserver.core import key_of
from pytest_kscen.embedded.apiserver.deletion import (
    NAMESPACES,
    DeletionPlan,
    begin_termination,
    plan_deletion,
)
from pytest_kscen.embedded.apiserver.verbs.reading import list_, stored_object
from pytest_kscen.embedded.apiserver.verbs.updating import equal_json, remove_object
from pytest_kscen.kube.api import Answer
from pytest_kscen.objects.errors import NotFound, about, conflict

if TYPE_CHECKING:
    from pytest_kscen.embedded.apiserver.core import Core
    from pytest_kscen.embedded.apiserver.kinds import Kind
    from pytest_kscen.kube.api import Options, Request
    from pytest_kscen.objects.resources import Obj

ANSWERED_WITH_OBJECT = {
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
"""Kinds whose deletion is answered with the object; others answer with a Status."""
JOBS = ("batch", "jobs")
JOB_PODS_WARNING = (
    "child pods are preserved by default when jobs are deleted; set "
    "propagationPolicy=Background to remove them or set "
    "propagationPolicy=Orphan to suppress this warning"
)


async def delete(core: Core, kind: Kind, request: Request) -> Answer:
    _warn(kind, request)
    while True:
        old = stored_object(core, kind, request)
        check_preconditions(kind, request.name, request.options, old)
        await admit(core, request, kind.to_served(old))
        if core.store.get(key_of(kind, request, request.name)) is old:
            return _answer(kind, request, *execute(core, kind, request, old))


async def delete_collection(core: Core, kind: Kind, request: Request) -> Answer:
    """Delete the objects that a list returns, one by one; objects gone meanwhile are skipped."""
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
        and JOB_PODS_WARNING not in request.warnings
    ):
        request.warnings.append(JOB_PODS_WARNING)


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


def execute(core: Core, kind: Kind, request: Request, old: Obj) -> tuple[Obj, DeletionPlan]:
    """Plan and commit a deletion; return the object's last state and the plan.

    Must run without waiting after the last check, so that the object cannot change in between.
    """
    key, dry = key_of(kind, request, request.name), request.options.dry_run
    options = request.options
    now = core.clock.now()
    if kind.rules.terminate and not old["metadata"].get("deletionTimestamp"):
        planned: DeletionPlan = DeletionPlan(kind.rules.terminate(old, options, now), removed=False)
    elif kind.home != NAMESPACES:
        planned = plan_deletion(kind, old, options, now)
    elif not old["metadata"].get("deletionTimestamp"):
        planned = DeletionPlan(begin_termination(old, options, now), removed=False)
    else:
        planned = (
            DeletionPlan(old, removed=False)
            if old["spec"].get("finalizers")
            else plan_deletion(kind, old, options, now)
        )
    state = old
    if planned.marked and not equal_json(planned.marked, old):
        state = planned.marked if dry else core.store.commit(key, planned.marked)
    if planned.removed and not dry:
        state = remove_object(core, kind, key)
    return state, planned


def _answer(kind: Kind, request: Request, state: Obj, planned: DeletionPlan) -> Answer:
    code = 202 if not planned.removed and request.options.orphan_dependents is False else 200
    if kind.home in ANSWERED_WITH_OBJECT or (planned.marked and not planned.removed):
        return Answer(kind.to_served(state), code)
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
