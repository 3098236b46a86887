"""Command: a container that is run to its end in a pod of its own, which is removed afterwards
whatever became of it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

from pytest_kscen.kube.waiting import wait_for
from pytest_kscen.objects.chaos_mesh import NODE_LABEL, WORKFLOW_LABEL
from pytest_kscen.objects.errors import ApiError, NotFound
from pytest_kscen.objects.resources import PODS
from pytest_kscen.workflow.container_output import exit_code_of, written_by
from pytest_kscen.workflow.expressions import TASK_VARIABLES
from pytest_kscen.workflow.probes.form import Outcome, expression_in, judged
from pytest_kscen.workflow.tables.machine import Impossible

if TYPE_CHECKING:
    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.workflow.probes.form import Errand, Part

ENDED = ("Succeeded", "Failed")
SHOWN = 200  # characters of what it has written


@dataclass(frozen=True, slots=True)
class Command:
    """What is run, and which end is a good one."""

    patience: ClassVar[float] = 60.0

    container: Obj
    exit_code: int = 0
    expression: str = ""
    """Over `exitCode` and `stdout`, in place of the exit code."""

    @classmethod
    def of(cls, part: Part) -> Self:
        part.only(("container", "exitCode", "expression"))
        if part.has("exitCode") and part.has("expression"):
            part.wrong("needs an exitCode, or an expression, and has both")
        container = part.part("container")
        if not part.has("container"):
            part.wrong("is missing", "container")
        else:
            container.text("image", required=True)
        return cls(
            {"name": "probe", **container.body},
            part.whole("exitCode", 0, 0),
            expression_in(part, TASK_VARIABLES),
        )

    async def ask(self, errand: Errand, within: float) -> Outcome:
        api = errand.actor.api
        pod = await api.create(PODS, self._pod(errand, within))
        name = pod["metadata"]["name"]
        try:
            ended = await wait_for(
                api,
                errand.actor.clock,
                PODS,
                name,
                errand.namespace,
                condition=_ended,
                timeout=within,
            )
            return await self._judge(errand, ended)
        finally:
            await _remove(errand, name)

    def _pod(self, errand: Errand, within: float) -> Obj:
        actor, subject = errand.actor, errand.subject
        labels = {
            **actor.labels,
            WORKFLOW_LABEL: subject.get("workflow"),
            NODE_LABEL: subject.get("node"),
        }
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
        code = exit_code_of(pod, self.container["name"])
        if code is None:
            return Outcome(
                False,
                (
                    "its container did not run: "
                    f"{status.get('message') or status.get('reason') or 'the pod is gone'}"
                ),
            )
        if code == self.exit_code and not self.expression:
            return Outcome(True, f"it ended with {code}")
        try:
            said = await written_by(errand.actor.api, pod, self.container["name"])
        except (ApiError, OSError, Impossible) as error:
            if self.expression:
                return Outcome(False, str(error))
            said = ""
        found = f"it ended with {code}" + (f" and said {said[-SHOWN:]!r}" if said else "")
        if not self.expression:
            return Outcome(False, f"{found}, and {self.exit_code} was expected")
        return judged(self.expression, {"exitCode": code, "stdout": said}, found)


def _ended(pod: Obj | None) -> Obj:
    """The pod when it has ended, or a stand-in for one that is gone; nothing as long as it runs."""
    if pod is None:
        return {"status": {"phase": "Failed"}}
    return pod if (pod.get("status") or {}).get("phase") in ENDED else {}


async def _remove(errand: Errand, name: str) -> None:
    try:
        await errand.actor.api.delete(
            PODS, name, errand.namespace, grace_period=0, propagation="Background"
        )
    except NotFound:
        return
