"""Hands that create and delete pods for an owner, and say so in the owner's events."""

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
    """A controller's hands."""

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
    """Whether the API refused because the namespace is going away: nothing can be done, nor
    should be.
    """
    causes = (error.status.get("details") or {}).get("causes") or ()
    return any(cause.get("reason") == NAMESPACE_TERMINATING for cause in causes)


FNV_OFFSET, FNV_PRIME = 0x811C9DC5, 0x01000193
MAX_GENERATE_NAME = (
    58  # of a generated name: Kubernetes cuts there, to leave room for five characters
)


def pod_of(template: Obj, owner: Obj, resource: Resource) -> Obj:
    """A new pod, not named yet."""
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
    """A hash in Kubernetes' alphabet: FNV-1a of the canonical JSON, and of the number of
    collisions so far.
    """
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    digest = FNV_OFFSET
    for byte in text.encode() + (b"" if collisions is None else collisions.to_bytes(8, "little")):
        digest = ((digest ^ byte) * FNV_PRIME) & 0xFFFFFFFF
    return "".join(SUFFIX_ALPHABET[ord(digit) % len(SUFFIX_ALPHABET)] for digit in str(digest))
