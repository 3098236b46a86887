"""The Jobs that carry shell text to a node of the tested cluster: made, awaited, read and removed."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from pytest_kscen.chaos.hands import INCIDENT, remove
from pytest_kscen.kube.waiting import wait_for
from pytest_kscen.objects.conditions import is_true
from pytest_kscen.objects.errors import ApiError
from pytest_kscen.objects.resources import JOBS, PODS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_kscen.kube.actor import Actor
    from pytest_kscen.objects.resources import Obj

NAMESPACE = "default"
IMAGE = "krpsh/iperf3:0.1.0"
DAY = 86400.0  # seconds for which a Job is there at most of which nobody knows how long it is needed
DEADLINE, TTL = 10, 12  # seconds beyond the script's own, so that nothing ends it early and it is still there to be read


def job(name: str, node: str, script: str, seconds: float, labels: Mapping[str, str]) -> Obj:
    """A script that takes this long, on this node, in its host's network and with all rights there."""
    seconds = math.ceil(seconds)
    container = {
        "name": "net-tools",
        "image": IMAGE,
        "securityContext": {"privileged": True},
        "command": ["/bin/sh", "-c"],
        "args": [script],
    }
    pod = {
        "restartPolicy": "Never",
        "hostNetwork": True,
        "nodeName": node,
        "terminationGracePeriodSeconds": 1,
        "tolerations": [{"operator": "Exists"}],
        "containers": [container],
    }
    return {
        "apiVersion": JOBS.api_version,
        "kind": JOBS.kind,
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": dict(labels)},
        "spec": {
            "ttlSecondsAfterFinished": seconds + TTL,
            "backoffLimit": 0,
            "activeDeadlineSeconds": seconds + DEADLINE,
            "template": {"metadata": {"labels": dict(labels)}, "spec": pod},
        },
    }


async def completes(actor: Actor, name: str, timeout: float) -> bool:  # noqa: ASYNC109  # the caller states it
    """Whether the Job comes to a good end within this time."""
    try:
        end = await wait_for(actor.api, actor.clock, JOBS, name, NAMESPACE, condition=_end_of, timeout=timeout)
    except TimeoutError:
        return False
    return end == "Complete"


def _end_of(found: Obj | None) -> str:
    if found is None:
        return "Gone"
    return next((end for end in ("Complete", "Failed") if is_true(found, end)), "")


async def log_of(actor: Actor, name: str) -> str:
    """What its pod has said, as far as anybody can tell."""
    pods = (await actor.api.list(PODS, NAMESPACE, labels=f"job-name={name}")).items
    try:
        return "".join([await actor.api.log(pod["metadata"]["name"], NAMESPACE) for pod in pods])
    except (ApiError, OSError) as error:
        actor.note("no-log", job=name, error=repr(error))
        return ""


async def discard(actor: Actor, incident: str, ending: str = "") -> None:
    """Take away those of an incident's Jobs that are still there, or those with names that end so."""
    for job in (await actor.api.list(JOBS, NAMESPACE, labels=f"{INCIDENT}={incident}")).items:
        if job["metadata"]["name"].endswith(ending):
            await remove(actor, JOBS, job["metadata"]["name"], NAMESPACE)
