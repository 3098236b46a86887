"""Effects on pods: pod-kill, container-kill, pod-failure, and annotations for all other kinds of
chaos.

Called by the daemon. An effect must not report success before the API shows it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson

from pytest_kscen.kube.api import STRATEGIC_PATCH
from pytest_kscen.models.chaos_mesh.targets import TARGET_GONE, TargetGone, TargetPending
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
    """Deletion of a pod, complete when the pod does not exist any more.

    Requested deletions are remembered, so that a deletion by another client does not count.
    """

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._deleted: dict[str, dict[Target, None]] = {}

    async def inject(
        self, chaos: Obj, target: Target, pod: Obj | None
    ) -> TargetPending | TargetGone | None:
        deleted = self._deleted.setdefault(chaos["metadata"]["uid"], {})
        if target in deleted:
            return TargetPending() if pod else None
        if pod is None:
            return TARGET_GONE
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
            return TARGET_GONE
        deleted[target] = None
        return TargetPending()

    def unseen(self, chaos: Obj, target: Target) -> str:  # noqa: ARG002  # its absence was observed
        return ""

    async def recover(
        self,
        chaos: Obj,
        target: Target,
        pod: Obj | None,  # noqa: ARG002  # a deleted pod does not return
    ) -> TargetPending | TargetGone | None:
        self._deleted.get(chaos["metadata"]["uid"], {}).pop(target, None)
        return None

    def forget(self, chaos: Obj) -> None:
        self._deleted.pop(chaos["metadata"]["uid"], None)


class ContainerKill:
    """Kill of a container, complete when the pod's status shows a restart or the end.

    Killed runs are remembered: each target is killed once.
    """

    def __init__(self, site: Site) -> None:
        self._site = site
        self._killed: dict[str, dict[Target, str]] = {}

    async def inject(
        self, chaos: Obj, target: Target, pod: Obj | None
    ) -> TargetPending | TargetGone | None:
        if pod is None:
            return TARGET_GONE
        killed = self._killed.setdefault(chaos["metadata"]["uid"], {})
        status = status_of(pod, target.container)
        if target in killed:
            return (
                TargetPending()
                if status.get("containerID") == killed[target] and "running" in status["state"]
                else None
            )
        if self._site.kubelets is None or "running" not in (status.get("state") or {}):
            return TargetPending(f"container {target.id} does not run")
        try:
            self._site.kubelets.kill(*target[1:])
        except NotFound as why:
            return TargetPending(str(why))
        killed[target] = status["containerID"]
        return TargetPending()

    def unseen(self, chaos: Obj, target: Target) -> str:  # noqa: ARG002  # its end was observed
        return ""

    async def recover(
        self,
        chaos: Obj,
        target: Target,
        pod: Obj | None,  # noqa: ARG002  # the kubelet restarts the container
    ) -> TargetPending | TargetGone | None:
        self._killed.get(chaos["metadata"]["uid"], {}).pop(target, None)
        return None

    def forget(self, chaos: Obj) -> None:
        self._killed.pop(chaos["metadata"]["uid"], None)


def status_of(pod: Obj, container: str) -> Obj:
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    return next((each for each in statuses if each["name"] == container), {})


IMAGE = "gcr.io/google-containers/pause:latest"
EXIT_START_ERROR = 128
ANNOTATION = f"{GROUP}/pod-failure"
LISTS = ("initContainers", "containers")


async def run_pause_image(container: ContainerContext) -> int:
    """Run a container of the pause image, which pod-failure sets. A command is not found in it;
    without a command the container waits, and is never ready.
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
    """Replacement of all images of a pod by the pause image, until recovery.

    The original images and the responsible chaos objects are stored in the pod's annotations, so
    that a restarted daemon can recover them.
    """

    def __init__(self, context: ControllerContext) -> None:
        self._context = context

    async def inject(
        self,
        chaos: Obj,
        target: Target,  # noqa: ARG002  # the whole pod is the target
        pod: Obj | None,
    ) -> TargetPending | TargetGone | None:
        if pod is None:
            return TARGET_GONE
        by, images = _failed_by(pod)
        if (uid := chaos["metadata"]["uid"]) not in by:
            images = images or {
                name: {each["name"]: each["image"] for each in pod["spec"].get(name) or ()}
                for name in LISTS
            }
            swapped = {name: dict.fromkeys(there, IMAGE) for name, there in images.items()}
            return await self._swap(pod, [*by, uid], images, swapped) or TargetPending()
        statuses = [status_of(pod, each["name"]) for each in pod["spec"]["containers"]]
        has_failed = all(one.get("image") == IMAGE and not one.get("ready") for one in statuses)
        return None if has_failed and not is_true(pod, "Ready") else TargetPending()

    async def recover(
        self,
        chaos: Obj,
        target: Target,  # noqa: ARG002  # the whole pod is the target
        pod: Obj | None,
    ) -> TargetPending | TargetGone | None:
        by, images = _failed_by(pod) if pod else ([], {})
        if pod is None or (uid := chaos["metadata"]["uid"]) not in by:
            return None
        left = [each for each in by if each != uid]
        await self._swap(pod, left, images, {} if left else images)
        return None

    async def _swap(self, pod: Obj, by: list[str], kept: Obj, images: Obj) -> TargetGone | None:
        annotation = orjson.dumps({"by": by, "images": kept}).decode() if by else None
        lists = {
            name: [{"name": each, "image": image} for each, image in there.items()]
            for name, there in images.items()
            if there
        }
        metadata = pod["metadata"]
        patch = {
            "metadata": {"uid": metadata["uid"], "annotations": {ANNOTATION: annotation}},
            "spec": lists,
        }
        try:
            await self._context.api.patch(
                PODS, metadata["name"], patch, metadata["namespace"], patch_type=STRATEGIC_PATCH
            )
        except (NotFound, Conflict):
            return TARGET_GONE
        return None

    def unseen(self, chaos: Obj, target: Target) -> str:  # noqa: ARG002  # observed before
        return ""

    def forget(self, chaos: Obj) -> None:
        """Keep the pods unchanged: a user who removes the finalizer has to restore them."""


def _failed_by(pod: Obj) -> tuple[list[str], Obj]:
    annotation = (pod["metadata"].get("annotations") or {}).get(ANNOTATION)
    read = orjson.loads(annotation) if annotation else {"by": [], "images": {}}
    return read["by"], read["images"]


PREFIX = "marks.chaos-mesh.org/"
SELECTION_FIELDS = ("selector", "mode", "value", "containerNames", "duration", "remoteCluster")
"""Fields of a spec that select targets and do not describe the effect."""


class AnnotationMarks:
    """Chaos without a simulated effect: it is recorded in an annotation of each pod."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context

    async def inject(
        self, chaos: Obj, target: Target, pod: Obj | None
    ) -> TargetPending | TargetGone | None:
        if pod is None:
            return TARGET_GONE
        if (pod.get("status") or {}).get("phase") != "Running":
            return TargetPending(f"pod {target.pod} does not run")
        there = _mark_on(pod, chaos)
        containers = sorted(
            {*there.get("containers", ()), *([target.container] if target.container else ())}
        )
        metadata = chaos["metadata"]
        effect_spec = {
            name: value for name, value in chaos["spec"].items() if name not in SELECTION_FIELDS
        }
        wanted = {
            "kind": chaos["kind"],
            "name": metadata["name"],
            "namespace": metadata["namespace"],
            **effect_spec,
            **({"containers": containers} if containers else {}),
        }
        return (
            None
            if there == wanted
            else (await self._write(chaos, pod, orjson.dumps(wanted).decode()) or TargetPending())
        )

    async def recover(
        self,
        chaos: Obj,
        target: Target,  # noqa: ARG002  # the whole pod is the target
        pod: Obj | None,
    ) -> TargetPending | TargetGone | None:
        if pod and _mark_on(pod, chaos):
            await self._write(chaos, pod, None)
        return None

    async def _write(self, chaos: Obj, pod: Obj, mark: str | None) -> TargetGone | None:
        metadata = pod["metadata"]
        patch = {"metadata": {"uid": metadata["uid"], "annotations": {mark_key(chaos): mark}}}
        try:
            await self._context.api.patch(PODS, metadata["name"], patch, metadata["namespace"])
        except (NotFound, Conflict):
            return TARGET_GONE
        return None

    def unseen(self, chaos: Obj, target: Target) -> str:  # noqa: ARG002  # observed before
        return ""

    def forget(self, chaos: Obj) -> None:
        """Keep the annotations: a user who removes the finalizer has to remove them."""


def mark_key(chaos: Obj) -> str:
    return PREFIX + str(chaos["metadata"]["uid"])


def _mark_on(pod: Obj, chaos: Obj) -> Obj:
    mark = (pod["metadata"].get("annotations") or {}).get(mark_key(chaos))
    return orjson.loads(mark) if mark else {}
