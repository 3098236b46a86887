"""The finalizer by which a job holds a pod until it has counted it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.kube.requests import STRATEGIC_PATCH
from pytest_kscen.objects.errors import Conflict, NotFound
from pytest_kscen.objects.resources import PODS

if TYPE_CHECKING:
    from pytest_kscen.kube.api import Api
    from pytest_kscen.objects.resources import Obj

FINALIZER = "batch.kubernetes.io/job-tracking"


def is_tracked(pod: Obj) -> bool:
    """Whether the job has not yet counted it for good."""
    return FINALIZER in (pod["metadata"].get("finalizers") or ())


async def untrack(api: Api, pod: Obj) -> Obj:
    """The pod as it is when its job has let go of it."""
    metadata = pod["metadata"]
    if not is_tracked(pod):
        return pod
    patch = {"metadata": {"uid": metadata["uid"], "$deleteFromPrimitiveList/finalizers": [FINALIZER]}}
    try:
        return await api.patch(PODS, metadata["name"], patch, metadata["namespace"], patch_type=STRATEGIC_PATCH)
    except (NotFound, Conflict):  # it is gone, or another has taken its name
        return pod
