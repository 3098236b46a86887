"""Hands that create and delete pods for an owner, and say so in the owner's events."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.objects.errors import ApiError, NotFound
from pytest_kscen.objects.resources import PODS

if TYPE_CHECKING:
    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.simulation.bench import Bench

TERMINATING = "NamespaceTerminating"


class Pods:
    """A controller's hands."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench

    async def create(self, owner: Obj, pod: Obj) -> Obj:
        try:
            made = await self._bench.api.create(PODS, pod, owner["metadata"]["namespace"])
        except ApiError as error:
            if not in_terminating_namespace(error):
                self._bench.recorder.warning(owner, "FailedCreate", f"Error creating: {error.message}")
            raise
        self._bench.recorder.normal(owner, "SuccessfulCreate", f"Created pod: {made['metadata']['name']}")
        return made

    async def delete(self, owner: Obj, pod: Obj) -> None:
        name = pod["metadata"]["name"]
        try:
            await self._bench.api.delete(PODS, name, pod["metadata"]["namespace"], precondition_uid=pod["metadata"]["uid"])
        except NotFound:
            return
        except ApiError as error:
            self._bench.recorder.warning(owner, "FailedDelete", f"Error deleting: {error.message}")
            raise
        self._bench.recorder.normal(owner, "SuccessfulDelete", f"Deleted pod: {name}")


def in_terminating_namespace(error: ApiError) -> bool:
    """Whether the API refused because the namespace is going away: nothing can be done, nor should be."""
    causes = (error.status.get("details") or {}).get("causes") or ()
    return any(cause.get("reason") == TERMINATING for cause in causes)
