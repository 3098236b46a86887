"""Command: a container that is run to its end in a pod of its own, which is removed afterwards whatever became of it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

from pytest_kscen.kube.waiting import wait_for
from pytest_kscen.objects.errors import ApiError, NotFound
from pytest_kscen.objects.resources import PODS
from pytest_kscen.objects.workflows import NODE_LABEL, WORKFLOW_LABEL
from pytest_kscen.workflow.probes.verdicts import Outcome

if TYPE_CHECKING:
    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.workflow.probes.forms.form import Errand
    from pytest_kscen.workflow.probes.reading import Part

ENDED = ("Succeeded", "Failed")
SHOWN = 200  # characters of what it has written


@dataclass(frozen=True, slots=True)
class Command:
    """What is run, and which end is a good one."""

    patience: ClassVar[float] = 60.0

    container: Obj
    exit_code: int = 0

    @classmethod
    def of(cls, part: Part) -> Self:
        part.only(("container", "exitCode"))
        container = part.part("container")
        if not part.has("container"):
            part.wrong("is missing", "container")
        else:
            container.text("image", required=True)
        return cls({"name": "probe", **container.body}, part.whole("exitCode", 0, 0))

    async def ask(self, errand: Errand, within: float) -> Outcome:
        api = errand.actor.api
        pod = await api.create(PODS, self._pod(errand, within))
        name = pod["metadata"]["name"]
        try:
            ended = await wait_for(api, errand.actor.clock, PODS, name, errand.namespace, condition=_ended, timeout=within)
            return await self._judge(errand, ended)
        finally:
            await _remove(errand, name)

    def _pod(self, errand: Errand, within: float) -> Obj:
        actor, subject = errand.actor, errand.subject
        labels = {**actor.labels, WORKFLOW_LABEL: subject.get("workflow"), NODE_LABEL: subject.get("node")}
        return {
            "apiVersion": PODS.api_version,
            "kind": PODS.kind,
            "metadata": {
                "name": f"{errand.of[:50]}-probe-{actor.chance.suffix()}",
                "namespace": errand.namespace,
                "labels": {key: value for key, value in labels.items() if value},
                **({"ownerReferences": [errand.owner]} if errand.owner else {}),
            },
            "spec": {
                "restartPolicy": "Never",
                "activeDeadlineSeconds": math.ceil(within),  # should nobody be left to remove it
                "terminationGracePeriodSeconds": 0,
                "containers": [self.container],
            },
        }

    async def _judge(self, errand: Errand, pod: Obj) -> Outcome:
        status = pod["status"]
        terminated = _terminated(status, self.container["name"])
        if terminated is None:
            return Outcome(
                False, f"its container did not run: {status.get('message') or status.get('reason') or 'the pod is gone'}"
            )
        code = terminated["exitCode"]
        if code == self.exit_code:
            return Outcome(True, f"it ended with {code}")
        return Outcome(False, f"it ended with {code}, and {self.exit_code} was expected{await self._last_words(errand, pod)}")

    async def _last_words(self, errand: Errand, pod: Obj) -> str:
        metadata = pod["metadata"]
        try:
            said = await errand.actor.api.log(metadata["name"], metadata["namespace"], container=self.container["name"])
        except (ApiError, OSError):
            return ""
        return f": {said.strip()[-SHOWN:]}" if said.strip() else ""


def _ended(pod: Obj | None) -> Obj:
    """The pod when it has ended, or a stand-in for one that is gone; nothing as long as it runs."""
    if pod is None:
        return {"status": {"phase": "Failed"}}
    return pod if (pod.get("status") or {}).get("phase") in ENDED else {}


def _terminated(status: Obj, container: str) -> Obj | None:
    for each in status.get("containerStatuses") or ():
        if each["name"] == container:
            return (each.get("state") or {}).get("terminated")
    return None


async def _remove(errand: Errand, name: str) -> None:
    try:
        await errand.actor.api.delete(PODS, name, errand.namespace, grace_period=0, propagation="Background")
    except NotFound:
        return
