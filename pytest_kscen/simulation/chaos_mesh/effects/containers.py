"""container-kill: the container's run is ended from outside, and it is done when the pod's status shows another run, or an end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.objects.errors import NotFound
from pytest_kscen.simulation.chaos_mesh.effects.effect import GONE, Gone, Wait

if TYPE_CHECKING:
    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.simulation.chaos_mesh.targets import Target
    from pytest_kscen.simulation.site import Site


class ContainerKill:
    """Which runs it has ended is remembered: each target loses one."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._killed: dict[str, dict[Target, str]] = {}

    async def inject(self, chaos: Obj, target: Target, pod: Obj | None) -> Wait | Gone | None:
        if pod is None:
            return GONE
        killed = self._killed.setdefault(chaos["metadata"]["uid"], {})
        status = status_of(pod, target.container)
        if target in killed:
            return Wait() if status.get("containerID") == killed[target] and "running" in status["state"] else None
        if self._site.kubelets is None or "running" not in (status.get("state") or {}):
            return Wait(f"container {target.id} does not run")
        try:
            self._site.kubelets.kill(*target[1:])
        except NotFound as why:
            return Wait(str(why))
        killed[target] = status["containerID"]
        return Wait()

    def unseen(self, chaos: Obj, target: Target) -> str:  # noqa: ARG002  # it was seen to have ended
        return ""

    async def recover(self, chaos: Obj, target: Target, pod: Obj | None) -> Wait | Gone | None:  # noqa: ARG002  # the kubelet starts it
        self._killed.get(chaos["metadata"]["uid"], {}).pop(target, None)
        return None

    def forget(self, chaos: Obj) -> None:
        self._killed.pop(chaos["metadata"]["uid"], None)


def status_of(pod: Obj, container: str) -> Obj:
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    return next((each for each in statuses if each["name"] == container), {})
