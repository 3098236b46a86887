"""pod-failure: every container's image is swapped for one in which nothing of it can run, and later swapped back.

The images that were there before are kept in the pod's annotations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson

from pytest_kscen.kube.requests import STRATEGIC_PATCH
from pytest_kscen.objects.chaos_mesh import GROUP
from pytest_kscen.objects.conditions import is_true
from pytest_kscen.objects.errors import Conflict, NotFound
from pytest_kscen.objects.resources import PODS
from pytest_kscen.simulation.chaos_mesh.effects.containers import status_of
from pytest_kscen.simulation.chaos_mesh.effects.effect import GONE, Gone, Wait

if TYPE_CHECKING:
    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.simulation.bench import Bench
    from pytest_kscen.simulation.chaos_mesh.targets import Target
    from pytest_kscen.simulation.images import ContainerContext

IMAGE = "gcr.io/google-containers/pause:latest"
NO_SUCH_PROGRAM = 128
ANNOTATION = f"{GROUP}/pod-failure"
LISTS = ("initContainers", "containers")


async def nothing_works(container: ContainerContext) -> int:
    """What a container does in that image: its command is not there; without one it waits, and serves nobody."""
    if container.command:
        container.exit_reason = "StartError"
        container.termination_message = f'exec: "{container.command[0]}": executable file not found in $PATH'
        return NO_SUCH_PROGRAM
    container.set_ready(False)
    await container.stopping()
    return 0


class PodFailure:
    """Nothing is remembered here: the pods carry it, and by whom they are failed."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench

    async def inject(self, chaos: Obj, target: Target, pod: Obj | None) -> Wait | Gone | None:  # noqa: ARG002  # all of the pod
        if pod is None:
            return GONE
        by, images = _failed_by(pod)
        if (uid := chaos["metadata"]["uid"]) not in by:
            images = images or {name: {each["name"]: each["image"] for each in pod["spec"].get(name) or ()} for name in LISTS}
            swapped = {name: dict.fromkeys(there, IMAGE) for name, there in images.items()}
            return await self._swap(pod, [*by, uid], images, swapped) or Wait()
        has_come = all(_has_failed(status_of(pod, each["name"])) for each in pod["spec"]["containers"])
        return None if has_come and not is_true(pod, "Ready") else Wait()

    async def recover(self, chaos: Obj, target: Target, pod: Obj | None) -> Wait | Gone | None:  # noqa: ARG002  # all of the pod
        by, images = _failed_by(pod) if pod else ([], {})
        if pod is None or (uid := chaos["metadata"]["uid"]) not in by:
            return None
        left = [each for each in by if each != uid]
        await self._swap(pod, left, images, {} if left else images)
        return None

    async def _swap(self, pod: Obj, by: list[str], kept: Obj, images: Obj) -> Gone | None:
        told = orjson.dumps({"by": by, "images": kept}).decode() if by else None
        lists = {name: [{"name": each, "image": image} for each, image in there.items()] for name, there in images.items() if there}
        metadata = pod["metadata"]
        patch = {"metadata": {"uid": metadata["uid"], "annotations": {ANNOTATION: told}}, "spec": lists}
        try:
            await self._bench.api.patch(PODS, metadata["name"], patch, metadata["namespace"], patch_type=STRATEGIC_PATCH)
        except (NotFound, Conflict):
            return GONE
        return None

    def unseen(self, chaos: Obj, target: Target) -> str:  # noqa: ARG002  # it was seen
        return ""

    def forget(self, chaos: Obj) -> None:
        """The pods keep what they have: whoever takes the finalizer away takes that upon himself."""


def _failed_by(pod: Obj) -> tuple[list[str], Obj]:
    """The uids of those that want it failed, and the images that it had before."""
    told = (pod["metadata"].get("annotations") or {}).get(ANNOTATION)
    read = orjson.loads(told) if told else {"by": [], "images": {}}
    return read["by"], read["images"]


def _has_failed(status: Obj) -> bool:
    return status.get("image") == IMAGE and not status.get("ready")
