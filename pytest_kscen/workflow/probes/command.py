"""Probe by a command: a container run to completion in a pod, which is deleted afterwards."""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

from pytest_kscen.kube.waiting import wait_for
from pytest_kscen.objects.chaos_mesh import NODE_LABEL, WORKFLOW_LABEL
from pytest_kscen.objects.errors import ApiError, NotFound
from pytest_kscen.objects.resources import PODS
from pytest_kscen.workflow.container_output import exit_code_of, output_of
from pytest_kscen.workflow.expressions import TASK_VARIABLES
from pytest_kscen.workflow.probes.form import ProbeOutcome, judge_expression, read_expression
from pytest_kscen.workflow.tables.machine import NodeActionError

if TYPE_CHECKING:
    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.workflow.probes.form import FieldReader, ProbeContext

ENDED = ("Succeeded", "Failed")
SHOWN = 200  # characters of its output


@dataclass(frozen=True, slots=True)
class CommandProbe:
    """Container that a probe runs, and the exit code or expression that it must satisfy."""

    key: ClassVar[str] = "command"
    patience: ClassVar[float] = 60.0

    container: Obj
    exit_code: int = 0
    expression: str = ""
    """Expression over `exitCode` and `stdout`, in place of the exit code."""

    @classmethod
    def of(cls, part: FieldReader) -> Self:
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
            read_expression(part, TASK_VARIABLES),
        )

    async def ask(self, context: ProbeContext, within: float) -> ProbeOutcome:
        actor, api = context.actor, context.actor.api
        labels = {
            **actor.labels,
            WORKFLOW_LABEL: context.subject.get("workflow"),
            NODE_LABEL: context.subject.get("node"),
        }
        name = f"{context.of[:50]}-probe-{actor.chance.suffix()}"
        pod = {
            "apiVersion": PODS.api_version,
            "kind": PODS.kind,
            "metadata": {
                "name": name,
                "namespace": context.namespace,
                "labels": {key: value for key, value in labels.items() if value},
                **({"ownerReferences": [context.owner]} if context.owner else {}),
            },
            "spec": {
                "restartPolicy": "Never",
                "activeDeadlineSeconds": math.ceil(within),  # if the engine ends before deleting it
                "terminationGracePeriodSeconds": 0,
                "containers": [self.container],
            },
        }
        await api.create(PODS, pod)
        try:
            ended = await wait_for(
                api,
                actor.clock,
                PODS,
                name,
                context.namespace,
                # A deleted pod is represented by a placeholder.
                condition=lambda pod: (
                    {"status": {"phase": "Failed"}}
                    if pod is None
                    else pod
                    if (pod.get("status") or {}).get("phase") in ENDED
                    else {}
                ),
                timeout=within,
            )
            return await self._judge(context, ended)
        finally:
            with contextlib.suppress(NotFound):
                await api.delete(
                    PODS, name, context.namespace, grace_period=0, propagation="Background"
                )

    async def _judge(self, context: ProbeContext, pod: Obj) -> ProbeOutcome:
        status = pod["status"]
        code = exit_code_of(pod, self.container["name"])
        if code is None:
            return ProbeOutcome(
                False,
                (
                    "its container did not run: "
                    f"{status.get('message') or status.get('reason') or 'the pod is gone'}"
                ),
            )
        if code == self.exit_code and not self.expression:
            return ProbeOutcome(True, f"it ended with {code}")
        try:
            output = await output_of(context.actor.api, pod, self.container["name"])
        except (ApiError, OSError, NodeActionError) as error:
            if self.expression:
                return ProbeOutcome(False, str(error))
            output = ""
        found = f"it ended with {code}" + (f" and wrote {output[-SHOWN:]!r}" if output else "")
        if not self.expression:
            return ProbeOutcome(False, f"{found}, and {self.exit_code} was expected")
        return judge_expression(self.expression, {"exitCode": code, "stdout": output}, found)
