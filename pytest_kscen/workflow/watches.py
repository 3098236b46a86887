"""The triggers on the real world: what becomes of what nodes have made is an event for the node, whoever did it."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from pytest_kscen.kube.informer import Informer
from pytest_kscen.kube.picture import Ref
from pytest_kscen.objects.chaos_mesh import ALL_INJECTED, PAUSED, SELECTED
from pytest_kscen.objects.conditions import condition, is_true
from pytest_kscen.objects.resources import PODS
from pytest_kscen.objects.workflows import NODE_LABEL, WORKFLOW_LABEL
from pytest_kscen.workflow.events import Event, Happening, Impossible, Key
from pytest_kscen.workflow.status_checks.standing import COMPLETED, CONTINUOUS, DURATION_EXCEED, FAILURE_EXCEED, SUCCESS_EXCEED

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kscen.kube.actor import Actor
    from pytest_kscen.objects.resources import Obj, Resource
    from pytest_kscen.objects.workflows import Family
    from pytest_kscen.workflow.trees import Node, Tree
    from pytest_kscen.workflow.trigger import OperableTrigger

    Reader = Callable[[Obj | None, Obj | None], tuple[Happening, str] | None]

SEEN_WITHIN = 10.0
"""Seconds in which the API shows a resource: all else that happens to the workflow waits meanwhile."""
NOT_SEEN = "its resource or its labels are gone, and the engine has not removed them"
POD_OVER = ("Succeeded", "Failed")
COMES_UP = ("", "ContainerCreating", "PodInitializing")
"""Why a container waits that will soon run."""


class Watches:
    """One for each resource of which nodes have made something."""

    def __init__(self, actor: Actor, family: Family, trigger: OperableTrigger, group: asyncio.TaskGroup) -> None:
        self._actor = actor
        self._trigger = trigger
        self._group = group
        self._informers: dict[Resource, Informer] = {}
        self._readers: dict[Resource, Reader] = {PODS: pod_changed, family.status_checks: check_changed}

    async def follow(self, resource: Resource) -> None:
        """From now on, if not before: what happens after this returns is seen."""
        self.begin(resource)
        informer = self._informers[resource]
        if informer.version:
            return
        synced = asyncio.ensure_future(informer.synced())
        too_late = asyncio.ensure_future(self._actor.clock.sleep(SEEN_WITHIN))
        try:
            await asyncio.wait((synced, too_late), return_when=asyncio.FIRST_COMPLETED)
        finally:
            synced.cancel()
            too_late.cancel()
        if not informer.version:
            raise Impossible(f"{resource.plural} cannot be watched: {informer.refusal or 'the API does not answer'}")

    def sees(self, resource: Resource) -> bool:
        """Whether what happens to it is seen now."""
        return resource in self._informers and bool(self._informers[resource].version)

    def begin(self, resource: Resource) -> None:
        """What is there already is seen too."""
        if resource in self._informers:
            return
        informer = self._informers[resource] = Informer(self._actor.api, self._actor.clock, resource, labels=NODE_LABEL)

        def changed(new: Obj | None, old: Obj | None) -> None:
            if new and old and _marks(new) != _marks(old):
                changed(None, old)
                old = None
            metadata = (new or old or {})["metadata"]
            labels = metadata.get("labels") or {}
            if WORKFLOW_LABEL in labels and (heard := self._heard(resource, new, old)):
                key = Key(metadata.get("namespace", ""), labels[WORKFLOW_LABEL])
                happening, message = heard
                self._trigger.notify(Event(key, labels[NODE_LABEL], happening, message, about=metadata["name"]))

        informer.on_change(changed)
        self._group.create_task(informer.run(), name=f"watch of nodes' {resource.plural}")

    def _heard(self, resource: Resource, new: Obj | None, old: Obj | None) -> tuple[Happening, str] | None:
        """What nobody can read, as its definition lets anything in, fails its own node."""
        try:
            return self._readers.get(resource, chaos_changed)(new, old)
        except Exception as error:  # noqa: BLE001  # whatever stands in it
            where = "/".join(Ref.of(new or old or {}))
            self._actor.log(logging.WARNING, "cannot be read", kind=resource.kind, object=where, error=repr(error))
            return Happening.FAULT, f"what its {resource.kind} says of itself cannot be read: {error!r}"

    def why_not_injected(self, tree: Tree, node: Node) -> str:
        """What chaos that is not in effect says of itself."""
        informer = self._informers.get(node.template.chaos_kind.resource)
        chaos = informer.objects.get(Ref(tree.key.namespace, node.made)) if informer else None
        if chaos and is_true(chaos, PAUSED):
            return "it is paused"
        if chaos and chaos.get("status") and not is_true(chaos, SELECTED):
            return "it has selected nothing"
        waiting = [record for record in _records(chaos or {}) if record.get("phase") != "Injected"]
        why = next((event["message"] for record in waiting for event in record.get("events") or () if event.get("message")), "")
        told = f"it is not in effect on {', '.join(record.get('id', '') for record in waiting)}{f': {why}' if why else ''}"
        return told if waiting else "nobody has said that it is in effect"

    def why_pod_is_late(self, tree: Tree, node: Node) -> str:
        """What the pod of a Task that is cut off was doing."""
        informer = self._informers.get(PODS)
        pod = informer.objects.get(Ref(tree.key.namespace, node.made)) if informer else None
        return f"its pod {node.made} was still {_pod_phase(pod)}" if _pod_phase(pod) not in ("", *POD_OVER) else ""


def _marks(obj: Obj) -> tuple[str | None, str | None]:
    """By which it is known whose it is."""
    labels = obj["metadata"].get("labels") or {}
    return labels.get(WORKFLOW_LABEL), labels.get(NODE_LABEL)


def _records(chaos: Obj) -> list[Obj]:
    return ((chaos.get("status") or {}).get("experiment") or {}).get("containerRecords") or []


def chaos_changed(new: Obj | None, old: Obj | None) -> tuple[Happening, str] | None:
    """It is in effect, or it is gone, or out of sight."""
    if new is None:
        return Happening.OUT_OF_SIGHT, NOT_SEEN
    if is_true(new, ALL_INJECTED) and not is_true(old, ALL_INJECTED):
        return Happening.INJECTED, ""
    return None


def pod_changed(new: Obj | None, old: Obj | None) -> tuple[Happening, str] | None:
    """It has come to its end, or it has vanished before."""
    was_over = _pod_phase(old) in POD_OVER
    if new is None:
        return None if was_over else (Happening.OUT_OF_SIGHT, "its pod has vanished before it came to its end")
    if _pod_phase(new) in POD_OVER:
        return None if was_over else (Happening.POD_ENDED, "")
    keeps = pod_waits_for(new)
    return (Happening.WAITS, keeps) if keeps != (pod_waits_for(old) if old else "") else None


def pod_waits_for(pod: Obj) -> str:
    """Why it may take long until it ends, or for ever."""
    scheduled = condition(pod, "PodScheduled") or {}
    if scheduled.get("status") == "False":
        return f"its pod is not scheduled: {scheduled.get('message') or scheduled.get('reason')}"
    status = pod.get("status") or {}
    for container in status.get("containerStatuses") or ():
        waiting = (container.get("state") or {}).get("waiting") or {}
        if waiting.get("reason", "") not in COMES_UP:
            return (
                f"its pod's container {container['name']} waits: {': '.join(filter(None, map(waiting.get, ('reason', 'message'))))}"
            )
    return f"its pod is on: {status['message']}" if status.get("message") else ""


def _pod_phase(pod: Obj | None) -> str:
    return str(((pod or {}).get("status") or {}).get("phase") or "")


def check_changed(new: Obj | None, old: Obj | None) -> tuple[Happening, str] | None:
    """It has come to a result, or it has vanished before."""
    if is_true(old, COMPLETED):
        return None
    if new is None:
        return Happening.OUT_OF_SIGHT, "its status check is gone, and the engine has not removed it"
    if not is_true(new, COMPLETED):
        return None
    failed = FAILURE_EXCEED if is_true(new, FAILURE_EXCEED) else DURATION_EXCEED if _never_held(new) else ""
    if failed:
        answer = new["status"].get("message")
        return Happening.CHECK_FAILED, f"the status check has failed: {failed}{f': {answer}' if answer else ''}"
    return Happening.CHECK_HELD, ""


def _never_held(check: Obj) -> bool:
    """One that was to hold once, and its time is over."""
    return check["spec"].get("mode") != CONTINUOUS and not is_true(check, SUCCESS_EXCEED)
