"""Events and their sources: the queue, with delays, and the watches on objects of nodes.

The queue hands out one event of a workflow at a time, in the order in which they arrived. Watches
turn changes of created objects into events of their node, no matter which client made them.
"""

from __future__ import annotations

import asyncio
import collections
import heapq
import itertools
import logging
from typing import TYPE_CHECKING, Protocol

from pytest_kscen.kube.cache import Ref
from pytest_kscen.kube.informer import Informer
from pytest_kscen.objects.chaos_mesh import (
    ALL_INJECTED,
    NODE_LABEL,
    PAUSED,
    SELECTED,
    WORKFLOW_LABEL,
)
from pytest_kscen.objects.conditions import condition, is_true
from pytest_kscen.objects.resources import PODS
from pytest_kscen.workflow.status_checks import (
    COMPLETED,
    CONTINUOUS,
    DURATION_EXCEED,
    FAILURE_EXCEED,
    SUCCESS_EXCEED,
)
from pytest_kscen.workflow.tables.machine import EventType, NodeActionError, NodeEvent, WorkflowKey

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Never

    from pytest_kscen.clock import Clock
    from pytest_kscen.kube.actor import Actor
    from pytest_kscen.objects.chaos_mesh import EngineResources
    from pytest_kscen.objects.resources import Obj, Resource
    from pytest_kscen.workflow.engine.trees import Tree, TreeNode

    Reader = Callable[[Obj | None, Obj | None], tuple[EventType, str] | None]


class Trigger(Protocol):
    """Source of events for the manager's workers: `acquire` waits for an event, and `done` must be
    called once it is processed.
    """

    name: str

    async def acquire(self) -> NodeEvent: ...

    def done(self, event: NodeEvent) -> None: ...


class RateLimiter:
    """Limit of events per second, with a burst of several at once.

    Used by one worker pool: `wait` returns when one more event is within the rate.
    """

    def __init__(self, clock: Clock, per_second: float, burst: int = 1) -> None:
        self._clock = clock
        self._interval = 1 / per_second
        self._burst = burst
        self._full_at = clock.now() - burst * self._interval

    async def wait(self) -> None:
        now = self._clock.now()
        self._full_at = max(self._full_at, now - self._interval * self._burst) + self._interval
        if self._full_at > now:
            await self._clock.sleep(self._full_at - now)


class OperableTrigger:
    """Queue of events from the engine and its watches.

    Each workflow has a separate queue, and at most one of its events is being processed. Workflows
    alternate in the order in which they became ready. Delayed events enter the queue when due.
    """

    def __init__(self, name: str, clock: Clock, rate: RateLimiter | None = None) -> None:
        self.name = name
        self._clock = clock
        self._rate = rate
        self._waiting: dict[WorkflowKey, collections.deque[NodeEvent]] = {}
        self._free: collections.deque[WorkflowKey] = collections.deque()
        self._busy: set[WorkflowKey] = set()
        self._some = asyncio.Semaphore(0)
        self._later: list[tuple[float, int, NodeEvent]] = []
        self._wanted: dict[WorkflowKey, set[int]] = {}
        """Numbers of the delayed events that are still valid, by workflow."""
        self._numbers = itertools.count()
        self._sooner = asyncio.Event()

    def waits(self, workflow: WorkflowKey) -> bool:
        return workflow in self._waiting

    def notify(self, event: NodeEvent) -> None:
        key = event.workflow
        if key not in self._waiting:
            self._waiting[key] = collections.deque()
            if key not in self._busy:
                self._set_free(key)
        self._waiting[key].append(event)

    def notify_delay(self, event: NodeEvent, delay: float) -> None:
        if delay <= 0:
            self.notify(event)
            return
        instant = self._clock.now() + delay
        number = next(self._numbers)
        self._wanted.setdefault(event.workflow, set()).add(number)
        heapq.heappush(self._later, (instant, number, event))
        if self._later[0][2] is event:
            self._sooner.set()

    async def acquire(self) -> NodeEvent:
        await self._some.acquire()
        while not self._free:  # its workflow was forgotten
            await self._some.acquire()
        key = self._free.popleft()
        self._busy.add(key)
        events = self._waiting[key]
        event = events.popleft()
        if not events:
            del self._waiting[key]
        if self._rate:
            await self._rate.wait()
        return event

    def done(self, event: NodeEvent) -> None:
        """Release the workflow, so that its next event may be acquired."""
        self._busy.discard(event.workflow)
        if event.workflow in self._waiting:
            self._set_free(event.workflow)

    def forget(self, workflow: WorkflowKey) -> None:
        if self._waiting.pop(workflow, None) and workflow not in self._busy:
            self._free.remove(workflow)
        self._wanted.pop(workflow, None)

    async def run(self) -> Never:
        """Move delayed events into the queue when they are due."""
        while True:
            self._sooner.clear()
            while self._later and self._later[0][0] <= self._clock.now():
                _, number, event = heapq.heappop(self._later)
                # An event is valid unless its workflow was forgotten; each number is checked once.
                numbers = self._wanted.get(event.workflow, set())
                is_wanted = number in numbers
                numbers.discard(number)
                if not numbers:
                    self._wanted.pop(event.workflow, None)
                if is_wanted:
                    self.notify(event)
            if self._later:
                # Sleep until the event is due, or until an earlier event is added.
                instant = self._later[0][0]
                sleep = asyncio.ensure_future(self._clock.sleep(instant - self._clock.now()))
                sooner = asyncio.ensure_future(self._sooner.wait())
                try:
                    await asyncio.wait((sleep, sooner), return_when=asyncio.FIRST_COMPLETED)
                finally:
                    sleep.cancel()
                    sooner.cancel()
            else:
                await self._sooner.wait()

    def _set_free(self, key: WorkflowKey) -> None:
        self._free.append(key)
        self._some.release()


WATCH_TIMEOUT = 10.0
"""Seconds within which a watch must be established; the workflow's other events wait meanwhile."""
OBJECT_LOST_MESSAGE = "its resource or its labels were deleted, and not by the engine"
POD_OVER = ("Succeeded", "Failed")
STARTING_REASONS = ("", "ContainerCreating", "PodInitializing")
"""Reasons of a waiting container that is about to run."""


class Watches:
    """Watches on the resources of objects that nodes created, one informer for each resource.

    A watch starts with the first object of its kind and lasts as long as the engine. It selects
    objects by their node label, and also reports objects that existed before it started.
    """

    def __init__(
        self,
        actor: Actor,
        family: EngineResources,
        trigger: OperableTrigger,
        group: asyncio.TaskGroup,
    ) -> None:
        self._actor = actor
        self._trigger = trigger
        self._group = group
        self._informers: dict[Resource, Informer] = {}
        self._readers: dict[Resource, Reader] = {
            PODS: pod_event,
            family.status_checks: status_check_event,
        }

    async def follow(self, resource: Resource) -> None:
        """Start a watch and wait until it is established: changes after the return are reported."""
        self.begin(resource)
        informer = self._informers[resource]
        if informer.version:
            return
        synced = asyncio.ensure_future(informer.synced())
        too_late = asyncio.ensure_future(self._actor.clock.sleep(WATCH_TIMEOUT))
        try:
            await asyncio.wait((synced, too_late), return_when=asyncio.FIRST_COMPLETED)
        finally:
            synced.cancel()
            too_late.cancel()
        if not informer.version:
            raise NodeActionError(
                f"{resource.plural} cannot be watched: "
                f"{informer.refusal or 'the API does not answer'}"
            )

    def is_synced(self, resource: Resource) -> bool:
        return resource in self._informers and bool(self._informers[resource].version)

    def begin(self, resource: Resource) -> None:
        """Start a watch without waiting; existing objects are reported as well."""
        if resource in self._informers:
            return
        informer = self._informers[resource] = Informer(
            self._actor.api, self._actor.clock, resource, labels=NODE_LABEL
        )

        def changed(new: Obj | None, old: Obj | None) -> None:
            if new and old and _owner_labels(new) != _owner_labels(old):
                changed(None, old)
                old = None
            metadata = (new or old or {})["metadata"]
            labels = metadata.get("labels") or {}
            if WORKFLOW_LABEL not in labels:
                return
            try:
                read = self._readers.get(resource, chaos_event)(new, old)
            except Exception as error:  # noqa: BLE001  # a fault of this node alone
                self._actor.log(
                    logging.WARNING,
                    "cannot be read",
                    kind=resource.kind,
                    object="/".join(Ref.of(new or old or {})),
                    error=repr(error),
                )
                read = (
                    EventType.FAULT,
                    f"the status of its {resource.kind} cannot be read: {error!r}",
                )
            if read:
                key = WorkflowKey(metadata.get("namespace", ""), labels[WORKFLOW_LABEL])
                event_type, message = read
                self._trigger.notify(
                    NodeEvent(key, labels[NODE_LABEL], event_type, message, about=metadata["name"])
                )

        informer.on_change(changed)
        self._group.create_task(informer.run(), name=f"watch of nodes' {resource.plural}")

    def why_not_injected(self, tree: Tree, node: TreeNode) -> str:
        """Return the reason why chaos is not in effect, as the resource's own status has it."""
        informer = self._informers.get(node.template.chaos_kind.resource)
        chaos = (
            informer.objects.get(Ref(tree.key.namespace, node.object_name)) if informer else None
        )
        if chaos and is_true(chaos, PAUSED):
            return "it is paused"
        if chaos and chaos.get("status") and not is_true(chaos, SELECTED):
            return "its selector matches nothing"
        experiment = ((chaos or {}).get("status") or {}).get("experiment") or {}
        waiting = [
            record
            for record in experiment.get("containerRecords") or []
            if record.get("phase") != "Injected"
        ]
        why = next(
            (
                event["message"]
                for record in waiting
                for event in record.get("events") or ()
                if event.get("message")
            ),
            "",
        )
        message = (
            "it is not in effect on "
            f"{', '.join(record.get('id', '') for record in waiting)}{f': {why}' if why else ''}"
        )
        return message if waiting else "its status reports no injection"

    def why_pod_is_late(self, tree: Tree, node: TreeNode) -> str:
        """Return the state of a Task's pod when the Task is cut off; empty if the pod has ended."""
        informer = self._informers.get(PODS)
        pod = informer.objects.get(Ref(tree.key.namespace, node.object_name)) if informer else None
        return (
            f"its pod {node.object_name} was still {_pod_phase(pod)}"
            if _pod_phase(pod) not in ("", *POD_OVER)
            else ""
        )


def _owner_labels(obj: Obj) -> tuple[str | None, str | None]:
    labels = obj["metadata"].get("labels") or {}
    return labels.get(WORKFLOW_LABEL), labels.get(NODE_LABEL)


def chaos_event(new: Obj | None, old: Obj | None) -> tuple[EventType, str] | None:
    """Return the event of a chaos change: in effect, or lost."""
    if new is None:
        return EventType.OBJECT_LOST, OBJECT_LOST_MESSAGE
    if is_true(new, ALL_INJECTED) and not is_true(old, ALL_INJECTED):
        return EventType.INJECTED, ""
    return None


def pod_event(new: Obj | None, old: Obj | None) -> tuple[EventType, str] | None:
    """Return the event of a pod change: completed, deleted before, or another reason to wait."""
    was_over = _pod_phase(old) in POD_OVER
    if new is None:
        return (
            None if was_over else (EventType.OBJECT_LOST, "its pod was deleted before it completed")
        )
    if _pod_phase(new) in POD_OVER:
        return None if was_over else (EventType.POD_ENDED, "")
    keeps = pod_wait_reason(new)
    return (EventType.POD_WAITS, keeps) if keeps != (pod_wait_reason(old) if old else "") else None


def pod_wait_reason(pod: Obj) -> str:
    """Return why a pod may take long or forever to complete; empty if it just runs."""
    scheduled = condition(pod, "PodScheduled") or {}
    if scheduled.get("status") == "False":
        return f"its pod is not scheduled: {scheduled.get('message') or scheduled.get('reason')}"
    status = pod.get("status") or {}
    for container in status.get("containerStatuses") or ():
        waiting = (container.get("state") or {}).get("waiting") or {}
        if waiting.get("reason", "") not in STARTING_REASONS:
            return (
                f"its pod's container {container['name']} waits: "
                f"{': '.join(filter(None, map(waiting.get, ('reason', 'message'))))}"
            )
    return f"its pod is on: {status['message']}" if status.get("message") else ""


def _pod_phase(pod: Obj | None) -> str:
    return str(((pod or {}).get("status") or {}).get("phase") or "")


def status_check_event(new: Obj | None, old: Obj | None) -> tuple[EventType, str] | None:
    """Return the event of a StatusCheck change: completed with a result, or deleted before."""
    if is_true(old, COMPLETED):
        return None
    if new is None:
        return EventType.OBJECT_LOST, "its StatusCheck was deleted, and not by the engine"
    if not is_true(new, COMPLETED):
        return None
    failed = (
        FAILURE_EXCEED
        if is_true(new, FAILURE_EXCEED)
        else DURATION_EXCEED
        if new["spec"].get("mode") != CONTINUOUS and not is_true(new, SUCCESS_EXCEED)
        else ""
    )
    if failed:
        answer = new["status"].get("message")
        return (
            EventType.CHECK_FAILED,
            f"the status check has failed: {failed}{f': {answer}' if answer else ''}",
        )
    return EventType.CHECK_HELD, ""
