"""Create and delete pods for an owner, record the Events, and build pods from templates.

The counterpart of Kubernetes' PodControl, used by the workload controllers and by simulated third
parties. Decides nothing about numbers.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pytest_kscen.chance import SUFFIX_ALPHABET
from pytest_kscen.embedded.controllers.ownership import reference_to
from pytest_kscen.objects.errors import ApiError, NotFound
from pytest_kscen.objects.resources import PODS

if TYPE_CHECKING:
    from pytest_kscen.embedded.controller import ControllerContext
    from pytest_kscen.objects.resources import Obj, Resource


NAMESPACE_TERMINATING = "NamespaceTerminating"


class PodControl:
    """Create and delete pods on behalf of an owner. Each success and each failure is recorded as an
    Event on the owner.

    Errors are raised after they are recorded; pods that are already gone are ignored.
    """

    def __init__(self, context: ControllerContext) -> None:
        self._context = context

    async def create(self, owner: Obj, pod: Obj) -> Obj:
        try:
            made = await self._context.api.create(PODS, pod, owner["metadata"]["namespace"])
        except ApiError as error:
            if not in_terminating_namespace(error):
                self._context.recorder.warning(
                    owner, "FailedCreate", f"Error creating: {error.message}"
                )
            raise
        self._context.recorder.normal(
            owner, "SuccessfulCreate", f"Created pod: {made['metadata']['name']}"
        )
        return made

    async def delete(self, owner: Obj, pod: Obj) -> None:
        name = pod["metadata"]["name"]
        try:
            await self._context.api.delete(
                PODS, name, pod["metadata"]["namespace"], precondition_uid=pod["metadata"]["uid"]
            )
        except NotFound:
            return
        except ApiError as error:
            self._context.recorder.warning(
                owner, "FailedDelete", f"Error deleting: {error.message}"
            )
            raise
        self._context.recorder.normal(owner, "SuccessfulDelete", f"Deleted pod: {name}")


def in_terminating_namespace(error: ApiError) -> bool:
    """Return True if the API refused because the namespace is terminating. Controllers ignore
    that error: nothing can or should be created there.
    """
    causes = (error.status.get("details") or {}).get("causes") or ()
    return any(cause.get("reason") == NAMESPACE_TERMINATING for cause in causes)


FNV_OFFSET, FNV_PRIME = 0x811C9DC5, 0x01000193
MAX_GENERATE_NAME = 58  # characters; Kubernetes appends five more


def pod_of(template: Obj, owner: Obj, resource: Resource) -> Obj:
    """Return a pod built from a template and controlled by the owner. The caller adds the name;
    creation adds the namespace.
    """
    metadata = template.get("metadata") or {}
    copied = {
        name: metadata[name]
        for name in ("labels", "annotations", "finalizers")
        if metadata.get(name)
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**copied, "ownerReferences": [reference_to(owner, resource)]},
        "spec": template["spec"],
    }


def short_hash(value: Any, collisions: int | None = None) -> str:
    """Return a hash in Kubernetes' safe alphabet, for names of ReplicaSets and revisions.

    FNV-1a (32 bits) of the canonical JSON, with the collision count appended if there is one.
    Differs from Kubernetes' value, which hashes Go structs.
    """
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    digest = FNV_OFFSET
    for byte in text.encode() + (b"" if collisions is None else collisions.to_bytes(8, "little")):
        digest = ((digest ^ byte) * FNV_PRIME) & 0xFFFFFFFF
    return "".join(SUFFIX_ALPHABET[ord(digit) % len(SUFFIX_ALPHABET)] for digit in str(digest))
