"""pod-kill: the pod is deleted, and it is done when the API has forgotten it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson

from pytest_kscen.kube.api import STRATEGIC_PATCH
from pytest_kscen.models.chaos_mesh.targets import GONE, Gone, NotYet
from pytest_kscen.objects.chaos_mesh import GROUP
from pytest_kscen.objects.conditions import is_true
from pytest_kscen.objects.errors import Conflict, NotFound
from pytest_kscen.objects.resources import PODS

if TYPE_CHECKING:
    from pytest_kscen.embedded.controller import ControllerContext
    from pytest_kscen.embedded.kubelet.images import ContainerContext
    from pytest_kscen.embedded.kubelet.nodes import Site
    from pytest_kscen.models.chaos_mesh.targets import Target
    from pytest_kscen.objects.resources import Obj


class PodKill:
    """What it has asked for is remembered, so that nobody else's deletion passes for its own."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._asked: dict[str, dict[Target, None]] = {}

    async def inject(self, chaos: Obj, target: Target, pod: Obj | None) -> NotYet | Gone | None:
        asked = self._asked.setdefault(chaos["metadata"]["uid"], {})
        if target in asked:
            return NotYet() if pod else None
        if pod is None:
            return GONE
        grace = chaos["spec"].get("gracePeriod") or 0
        try:
            await self._context.api.plain.delete(
                PODS,
                target.pod,
                target.namespace,
                grace_period=grace,
                precondition_uid=pod["metadata"]["uid"],
            )
        except (NotFound, Conflict):
            return GONE
        asked[target] = None
        return NotYet()

    def unseen(self, chaos: Obj, target: Target) -> str:  # noqa: ARG002  # it was seen to be gone
        return ""

    # nothing brings it back
    async def recover(self, chaos: Obj, target: Target, pod: Obj | None) -> NotYet | Gone | None:  # noqa: ARG002
        self._asked.get(chaos["metadata"]["uid"], {}).pop(target, None)
        return None

    def forget(self, chaos: Obj) -> None:
        self._asked.pop(chaos["metadata"]["uid"], None)


# container-kill: the container's run is ended from outside, and it is done when the pod's
# status shows another run, or an end.


class ContainerKill:
    """Which runs it has ended is remembered: each target loses one."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._killed: dict[str, dict[Target, str]] = {}

    async def inject(self, chaos: Obj, target: Target, pod: Obj | None) -> NotYet | Gone | None:
        if pod is None:
            return GONE
        killed = self._killed.setdefault(chaos["metadata"]["uid"], {})
        status = status_of(pod, target.container)
        if target in killed:
            return (
                NotYet()
                if status.get("containerID") == killed[target] and "running" in status["state"]
                else None
            )
        if self._site.kubelets is None or "running" not in (status.get("state") or {}):
            return NotYet(f"container {target.id} does not run")
        try:
            self._site.kubelets.kill(*target[1:])
        except NotFound as why:
            return NotYet(str(why))
        killed[target] = status["containerID"]
        return NotYet()

    # it was seen to have ended
    def unseen(self, chaos: Obj, target: Target) -> str:  # noqa: ARG002
        return ""

    # the kubelet starts it
    async def recover(self, chaos: Obj, target: Target, pod: Obj | None) -> NotYet | Gone | None:  # noqa: ARG002
        self._killed.get(chaos["metadata"]["uid"], {}).pop(target, None)
        return None

    def forget(self, chaos: Obj) -> None:
        self._killed.pop(chaos["metadata"]["uid"], None)


def status_of(pod: Obj, container: str) -> Obj:
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    return next((each for each in statuses if each["name"] == container), {})


# pod-failure: every container's image is swapped for one in which nothing of it can run, and
# later swapped back. The images that were there before are kept in the pod's annotations.


IMAGE = "gcr.io/google-containers/pause:latest"
EXIT_START_ERROR = 128
ANNOTATION = f"{GROUP}/pod-failure"
LISTS = ("initContainers", "containers")


async def run_pause_image(container: ContainerContext) -> int:
    """What a container does in that image: its command is not there; without one it waits, and
    serves nobody.
    """
    if container.command:
        container.exit_reason = "StartError"
        container.termination_message = (
            f'exec: "{container.command[0]}": executable file not found in $PATH'
        )
        return EXIT_START_ERROR
    container.set_ready(False)
    await container.stopping()
    return 0


class PodFailure:
    """Nothing is remembered here: the pods carry it, and by whom they are failed."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context

    # all of the pod
    async def inject(self, chaos: Obj, target: Target, pod: Obj | None) -> NotYet | Gone | None:  # noqa: ARG002
        if pod is None:
            return GONE
        by, images = _failed_by(pod)
        if (uid := chaos["metadata"]["uid"]) not in by:
            images = images or {
                name: {each["name"]: each["image"] for each in pod["spec"].get(name) or ()}
                for name in LISTS
            }
            swapped = {name: dict.fromkeys(there, IMAGE) for name, there in images.items()}
            return await self._swap(pod, [*by, uid], images, swapped) or NotYet()
        has_come = all(
            _has_failed(status_of(pod, each["name"])) for each in pod["spec"]["containers"]
        )
        return None if has_come and not is_true(pod, "Ready") else NotYet()

    # all of the pod
    async def recover(self, chaos: Obj, target: Target, pod: Obj | None) -> NotYet | Gone | None:  # noqa: ARG002
        by, images = _failed_by(pod) if pod else ([], {})
        if pod is None or (uid := chaos["metadata"]["uid"]) not in by:
            return None
        left = [each for each in by if each != uid]
        await self._swap(pod, left, images, {} if left else images)
        return None

    async def _swap(self, pod: Obj, by: list[str], kept: Obj, images: Obj) -> Gone | None:
        told = orjson.dumps({"by": by, "images": kept}).decode() if by else None
        lists = {
            name: [{"name": each, "image": image} for each, image in there.items()]
            for name, there in images.items()
            if there
        }
        metadata = pod["metadata"]
        patch = {
            "metadata": {"uid": metadata["uid"], "annotations": {ANNOTATION: told}},
            "spec": lists,
        }
        try:
            await self._context.api.patch(
                PODS, metadata["name"], patch, metadata["namespace"], patch_type=STRATEGIC_PATCH
            )
        except (NotFound, Conflict):
            return GONE
        return None

    def unseen(self, chaos: Obj, target: Target) -> str:  # noqa: ARG002  # it was seen
        return ""

    def forget(self, chaos: Obj) -> None:
        """The pods keep what they have: whoever takes the finalizer away takes that upon
        himself.
        """


def _failed_by(pod: Obj) -> tuple[list[str], Obj]:
    """The uids of those that want it failed, and the images that it had before."""
    told = (pod["metadata"].get("annotations") or {}).get(ANNOTATION)
    read = orjson.loads(told) if told else {"by": [], "images": {}}
    return read["by"], read["images"]


def _has_failed(status: Obj) -> bool:
    return status.get("image") == IMAGE and not status.get("ready")


# Chaos that nothing here can bend: it is written on its pods, in an annotation for each, and so
# is its end. Whoever looks at a pod sees what is done to it; nothing else changes.


PREFIX = "marks.chaos-mesh.org/"
SELECTION_FIELDS = ("selector", "mode", "value", "containerNames", "duration", "remoteCluster")
"""What a spec says of the targets, and not of what is done to them."""


class AnnotationMarks:
    """It keeps nothing: the pods carry it."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context

    async def inject(self, chaos: Obj, target: Target, pod: Obj | None) -> NotYet | Gone | None:
        if pod is None:
            return GONE
        if (pod.get("status") or {}).get("phase") != "Running":
            return NotYet(f"pod {target.pod} does not run")
        there = _mark_on(pod, chaos)
        containers = sorted(
            {*there.get("containers", ()), *([target.container] if target.container else ())}
        )
        metadata = chaos["metadata"]
        deed = {
            name: value for name, value in chaos["spec"].items() if name not in SELECTION_FIELDS
        }
        wanted = {
            "kind": chaos["kind"],
            "name": metadata["name"],
            "namespace": metadata["namespace"],
            **deed,
            **({"containers": containers} if containers else {}),
        }
        return (
            None
            if there == wanted
            else (await self._write(chaos, pod, orjson.dumps(wanted).decode()) or NotYet())
        )

    # all of the pod
    async def recover(self, chaos: Obj, target: Target, pod: Obj | None) -> NotYet | Gone | None:  # noqa: ARG002
        if pod and _mark_on(pod, chaos):
            await self._write(chaos, pod, None)
        return None

    async def _write(self, chaos: Obj, pod: Obj, mark: str | None) -> Gone | None:
        metadata = pod["metadata"]
        patch = {"metadata": {"uid": metadata["uid"], "annotations": {mark_key(chaos): mark}}}
        try:
            await self._context.api.patch(PODS, metadata["name"], patch, metadata["namespace"])
        except (NotFound, Conflict):
            return GONE
        return None

    def unseen(self, chaos: Obj, target: Target) -> str:  # noqa: ARG002  # it was seen
        return ""

    def forget(self, chaos: Obj) -> None:
        """The pods keep what they have: whoever takes the finalizer away takes that upon
        himself.
        """


def mark_key(chaos: Obj) -> str:
    return PREFIX + str(chaos["metadata"]["uid"])


def _mark_on(pod: Obj, chaos: Obj) -> Obj:
    mark = (pod["metadata"].get("annotations") or {}).get(mark_key(chaos))
    return orjson.loads(mark) if mark else {}
