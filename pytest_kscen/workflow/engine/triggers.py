"""Events and where they come from: the queue, with delays and one event of a workflow at a time,
and the watches on created objects.
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
from pytest_kscen.workflow.tables.machine import Event, Happening, Impossible, Key

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Never

    from pytest_kscen.clock import Clock
    from pytest_kscen.kube.actor import Actor
    from pytest_kscen.objects.chaos_mesh import EngineResources
    from pytest_kscen.objects.resources import Obj, Resource
    from pytest_kscen.workflow.engine.trees import Node, Tree

    Reader = Callable[[Obj | None, Obj | None], tuple[Happening, str] | None]


class Trigger(Protocol):
    """Where events come from, for whoever takes them."""

    name: str

    async def acquire(self) -> Event: ...

    def done(self, event: Event) -> None: ...


class Rate:
    """So many events a second, and a burst of so many at once."""

    def __init__(self, clock: Clock, per_second: float, burst: int = 1) -> None:
        self._clock = clock
        self._interval = 1 / per_second
        self._burst = burst
        self._full_at = clock.now() - burst * self._interval

    async def wait(self) -> None:
        """Until there is room for one more."""
        now = self._clock.now()
        self._full_at = max(self._full_at, now - self._interval * self._burst) + self._interval
        if self._full_at > now:
            await self._clock.sleep(self._full_at - now)


class OperableTrigger:
    """A queue that the engine and its watches put events into."""

    def __init__(self, name: str, clock: Clock, rate: Rate | None = None) -> None:
        self.name = name
        self._clock = clock
        self._rate = rate
        self._waiting: dict[Key, collections.deque[Event]] = {}
        self._free: collections.deque[Key] = collections.deque()
        self._busy: set[Key] = set()
        self._some = asyncio.Semaphore(0)
        self._later: list[tuple[float, int, Event]] = []
        self._wanted: dict[Key, set[int]] = {}
        """The numbers of those that are delayed and still matter."""
        self._numbers = itertools.count()
        self._sooner = asyncio.Event()

    def waits(self, workflow: Key) -> bool:
        """Whether there is an event of this workflow to be acquired."""
        return workflow in self._waiting

    def notify(self, event: Event) -> None:
        key = event.workflow
        if key not in self._waiting:
            self._waiting[key] = collections.deque()
            if key not in self._busy:
                self._set_free(key)
        self._waiting[key].append(event)

    def notify_delay(self, event: Event, delay: float) -> None:
        if delay <= 0:
            self.notify(event)
            return
        instant = self._clock.now() + delay
        number = next(self._numbers)
        self._wanted.setdefault(event.workflow, set()).add(number)
        heapq.heappush(self._later, (instant, number, event))
        if self._later[0][2] is event:
            self._sooner.set()

    async def acquire(self) -> Event:
        await self._some.acquire()
        while not self._free:  # what was free has been forgotten
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

    def done(self, event: Event) -> None:
        """The next of its workflow may come."""
        self._busy.discard(event.workflow)
        if event.workflow in self._waiting:
            self._set_free(event.workflow)

    def forget(self, workflow: Key) -> None:
        """Nothing of this workflow matters any more."""
        if self._waiting.pop(workflow, None) and workflow not in self._busy:
            self._free.remove(workflow)
        self._wanted.pop(workflow, None)

    async def run(self) -> Never:
        """Tell what was delayed, when it is time."""
        while True:
            self._sooner.clear()
            while self._later and self._later[0][0] <= self._clock.now():
                _, number, event = heapq.heappop(self._later)
                # Whether it has not been forgotten; asked once.
                numbers = self._wanted.get(event.workflow, set())
                is_wanted = number in numbers
                numbers.discard(number)
                if not numbers:
                    self._wanted.pop(event.workflow, None)
                if is_wanted:
                    self.notify(event)
            if self._later:
                # Or until something is to be told sooner.
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

    def _set_free(self, key: Key) -> None:
        """One of those who wait may have it."""
        self._free.append(key)
        self._some.release()


# The triggers on the real world: what becomes of what nodes have made is an event for the node,
# whoever did it.


SEEN_WITHIN = 10.0
"""Seconds in which the API shows a resource: all else that happens to the workflow waits
meanwhile.
"""
NOT_SEEN = "its resource or its labels are gone, and the engine has not removed them"
POD_OVER = ("Succeeded", "Failed")
COMES_UP = ("", "ContainerCreating", "PodInitializing")
"""Why a container waits that will soon run."""


class Watches:
    """One for each resource of which nodes have made something."""

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
            PODS: pod_changed,
            family.status_checks: check_changed,
        }

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
            raise Impossible(
                f"{resource.plural} cannot be watched: "
                f"{informer.refusal or 'the API does not answer'}"
            )

    def sees(self, resource: Resource) -> bool:
        """Whether what happens to it is seen now."""
        return resource in self._informers and bool(self._informers[resource].version)

    def begin(self, resource: Resource) -> None:
        """What is there already is seen too."""
        if resource in self._informers:
            return
        informer = self._informers[resource] = Informer(
            self._actor.api, self._actor.clock, resource, labels=NODE_LABEL
        )

        def changed(new: Obj | None, old: Obj | None) -> None:
            if new and old and _marks(new) != _marks(old):
                changed(None, old)
                old = None
            metadata = (new or old or {})["metadata"]
            labels = metadata.get("labels") or {}
            if WORKFLOW_LABEL in labels and (heard := self._heard(resource, new, old)):
                key = Key(metadata.get("namespace", ""), labels[WORKFLOW_LABEL])
                happening, message = heard
                self._trigger.notify(
                    Event(key, labels[NODE_LABEL], happening, message, about=metadata["name"])
                )

        informer.on_change(changed)
        self._group.create_task(informer.run(), name=f"watch of nodes' {resource.plural}")

    def _heard(
        self, resource: Resource, new: Obj | None, old: Obj | None
    ) -> tuple[Happening, str] | None:
        """What nobody can read, as its definition lets anything in, fails its own node."""
        try:
            return self._readers.get(resource, chaos_changed)(new, old)
        except Exception as error:  # noqa: BLE001  # whatever stands in it
            where = "/".join(Ref.of(new or old or {}))
            self._actor.log(
                logging.WARNING,
                "cannot be read",
                kind=resource.kind,
                object=where,
                error=repr(error),
            )
            return (
                Happening.FAULT,
                f"what its {resource.kind} says of itself cannot be read: {error!r}",
            )

    def why_not_injected(self, tree: Tree, node: Node) -> str:
        """What chaos that is not in effect says of itself."""
        informer = self._informers.get(node.template.chaos_kind.resource)
        chaos = informer.objects.get(Ref(tree.key.namespace, node.made)) if informer else None
        if chaos and is_true(chaos, PAUSED):
            return "it is paused"
        if chaos and chaos.get("status") and not is_true(chaos, SELECTED):
            return "it has selected nothing"
        waiting = [record for record in _records(chaos or {}) if record.get("phase") != "Injected"]
        why = next(
            (
                event["message"]
                for record in waiting
                for event in record.get("events") or ()
                if event.get("message")
            ),
            "",
        )
        told = (
            "it is not in effect on "
            f"{', '.join(record.get('id', '') for record in waiting)}{f': {why}' if why else ''}"
        )
        return told if waiting else "nobody has said that it is in effect"

    def why_pod_is_late(self, tree: Tree, node: Node) -> str:
        """What the pod of a Task that is cut off was doing."""
        informer = self._informers.get(PODS)
        pod = informer.objects.get(Ref(tree.key.namespace, node.made)) if informer else None
        return (
            f"its pod {node.made} was still {_pod_phase(pod)}"
            if _pod_phase(pod) not in ("", *POD_OVER)
            else ""
        )


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
        return (
            None
            if was_over
            else (Happening.OUT_OF_SIGHT, "its pod has vanished before it came to its end")
        )
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
                f"its pod's container {container['name']} waits: "
                f"{': '.join(filter(None, map(waiting.get, ('reason', 'message'))))}"
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
    failed = (
        FAILURE_EXCEED
        if is_true(new, FAILURE_EXCEED)
        else DURATION_EXCEED
        if _never_held(new)
        else ""
    )
    if failed:
        answer = new["status"].get("message")
        return (
            Happening.CHECK_FAILED,
            f"the status check has failed: {failed}{f': {answer}' if answer else ''}",
        )
    return Happening.CHECK_HELD, ""


def _never_held(check: Obj) -> bool:
    """One that was to hold once, and its time is over."""
    return check["spec"].get("mode") != CONTINUOUS and not is_true(check, SUCCESS_EXCEED)
