"""The finalizer by which a job holds a pod until it has counted it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.objects.errors import NotFound
from pytest_kscen.objects.resources import PODS

if TYPE_CHECKING:
    from pytest_kscen.kube.api import Api
    from pytest_kscen.objects.resources import Obj

FINALIZER = "batch.kubernetes.io/job-tracking"


def is_tracked(pod: Obj) -> bool:
    """Whether the job has not yet counted it for good."""
    return FINALIZER in (pod["metadata"].get("finalizers") or ())


async def untrack(api: Api, pod: Obj) -> Obj:
    """The pod as it is when its job has let go of it; a Conflict if it has just changed."""
    metadata = pod["metadata"]
    if not is_tracked(pod):
        return pod
    left = [name for name in metadata["finalizers"] if name != FINALIZER]
    patch = {"metadata": {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"], "finalizers": left}}
    try:
        return await api.patch(PODS, metadata["name"], patch, metadata["namespace"])
    except NotFound:
        return pod
