"""Chaos that nothing here can bend: it is written on its pods, in an annotation for each, and so is its end.

Whoever looks at a pod sees what is done to it; nothing else changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson

from pytest_kscen.objects.errors import Conflict, NotFound
from pytest_kscen.objects.resources import PODS
from pytest_kscen.simulation.chaos_mesh.effects.effect import GONE, Gone, Wait

if TYPE_CHECKING:
    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.simulation.bench import Bench
    from pytest_kscen.simulation.chaos_mesh.targets import Target

PREFIX = "marks.chaos-mesh.org/"
CHOICE = ("selector", "mode", "value", "containerNames", "duration", "remoteCluster")
"""What a spec says of the targets, and not of what is done to them."""


class Marks:
    """It keeps nothing: the pods carry it."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench

    async def inject(self, chaos: Obj, target: Target, pod: Obj | None) -> Wait | Gone | None:
        if pod is None:
            return GONE
        if (pod.get("status") or {}).get("phase") != "Running":
            return Wait(f"pod {target.pod} does not run")
        there = _mark_on(pod, chaos)
        containers = sorted({*there.get("containers", ()), *([target.container] if target.container else ())})
        wanted = {**_deed_of(chaos), **({"containers": containers} if containers else {})}
        return None if there == wanted else (await self._write(chaos, pod, orjson.dumps(wanted).decode()) or Wait())

    async def recover(self, chaos: Obj, target: Target, pod: Obj | None) -> Wait | Gone | None:  # noqa: ARG002  # all of the pod
        if pod and _mark_on(pod, chaos):
            await self._write(chaos, pod, None)
        return None

    async def _write(self, chaos: Obj, pod: Obj, mark: str | None) -> Gone | None:
        metadata = pod["metadata"]
        patch = {"metadata": {"uid": metadata["uid"], "annotations": {key_of(chaos): mark}}}
        try:
            await self._bench.api.patch(PODS, metadata["name"], patch, metadata["namespace"])
        except (NotFound, Conflict):
            return GONE
        return None

    def unseen(self, chaos: Obj, target: Target) -> str:  # noqa: ARG002  # it was seen
        return ""

    def forget(self, chaos: Obj) -> None:
        """The pods keep what they have: whoever takes the finalizer away takes that upon himself."""


def key_of(chaos: Obj) -> str:
    return PREFIX + str(chaos["metadata"]["uid"])


def _deed_of(chaos: Obj) -> Obj:
    metadata = chaos["metadata"]
    deed = {name: value for name, value in chaos["spec"].items() if name not in CHOICE}
    return {"kind": chaos["kind"], "name": metadata["name"], "namespace": metadata["namespace"], **deed}


def _mark_on(pod: Obj, chaos: Obj) -> Obj:
    mark = (pod["metadata"].get("annotations") or {}).get(key_of(chaos))
    return orjson.loads(mark) if mark else {}
