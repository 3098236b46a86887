"""One pod after the other: its place is found among the nodes that will do, taken in thought, then bound.

A pod for which there is none is parked until something changes that may help it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pytest_kscen.kube.informer import Ref
from pytest_kscen.objects.conditions import condition, set_condition
from pytest_kscen.objects.errors import ApiError, NotFound
from pytest_kscen.objects.resources import NODES, PODS
from pytest_kscen.simulation.brood import Brood
from pytest_kscen.simulation.scheduler import diagnosis
from pytest_kscen.simulation.scheduler.filters import refusal_of, with_volumes
from pytest_kscen.simulation.scheduler.picture import Candidate, Picture, Place
from pytest_kscen.simulation.scheduler.queue import Queue
from pytest_kscen.simulation.scheduler.scores import best
from pytest_kscen.simulation.scheduler.volumes import Claims

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Never

    from pytest_kscen.chance import Stream
    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.simulation.bench import Bench
    from pytest_kscen.simulation.scheduler.filters import Filter, Refusal
    from pytest_kscen.simulation.scheduler.queue import Parked

NAME = "default-scheduler"
ENOUGH = 100  # places that will do: no more are looked for
FINISHED = ("Succeeded", "Failed")


class Found(NamedTuple):
    """What a search has brought."""

    places: list[Place]
    refusals: list[Refusal]


class Scheduler:
    """The actor."""

    def __init__(self, bench: Bench, chance: Stream) -> None:
        self._bench = bench
        self._chance = chance
        self._pods = bench.informers.of(PODS)
        self._nodes = bench.informers.of(NODES)
        self._claims = Claims(bench)
        self._filters = with_volumes(self._claims)
        self._picture = Picture()
        self._queue = Queue()
        self._brood = Brood()
        self._next = 0
        self._nodes.on_change(self._node_changed)
        self._pods.on_change(self._pod_changed)
        self._claims.on_change(self._claims_changed)

    async def run(self) -> Never:
        await self._pods.synced()
        await self._nodes.synced()
        await self._claims.synced()
        self._brood.start(self._work(), NAME)
        await self._brood.watch()

    async def _work(self) -> Never:
        while True:
            ref = await self._queue.pop()
            pod = self._pods.objects.get(ref)
            if pod is not None and self._is_ours(pod):
                try:
                    await self._place(ref, pod)
                except (ApiError, OSError):
                    self._queue.retry(ref, pod["spec"].get("priority") or 0)

    # --- what changes ---

    def _node_changed(self, new: Obj | None, old: Obj | None) -> None:
        node = new or old
        if node is not None:
            place = self._picture.see_node(node["metadata"]["name"], new)
            if place:
                self._look_again(place)

    def _pod_changed(self, new: Obj | None, old: Obj | None) -> None:
        pod = new or old
        if pod is None:
            return
        ref, node = Ref.of(pod), pod["spec"].get("nodeName")
        if new is None or (new.get("status") or {}).get("phase") in FINISHED:
            self._queue.remove(ref)
            place = self._picture.take(pod["metadata"]["uid"])
            if place:
                self._look_again(place)
        elif node:
            self._queue.remove(ref)
            self._picture.put(pod, node)
        elif self._is_ours(pod) and (old is None or pod["spec"] != old["spec"] or _labels(pod) != _labels(old)):
            self._queue.add(ref, pod["spec"].get("priority") or 0)

    def _claims_changed(self) -> None:
        self._queue.wake(lambda parked: parked.by_volumes)

    def _look_again(self, place: Place) -> None:
        """Pods for which this place will do now need not wait any longer."""
        if place.node is not None:
            self._queue.wake(lambda parked: self._would_do(parked, place))

    def _would_do(self, parked: Parked, place: Place) -> bool:
        return parked.by_volumes or refusal_of(self._filters, parked.candidate, place) is None

    def _is_ours(self, pod: Obj) -> bool:
        spec = pod["spec"]
        return (
            not spec.get("nodeName")
            and not spec.get("schedulingGates")
            and spec.get("schedulerName", NAME) == NAME
            and not pod["metadata"].get("deletionTimestamp")
            and not self._picture.knows(pod["metadata"]["uid"])
        )

    # --- finding a place ---

    async def _place(self, ref: Ref, pod: Obj) -> None:
        candidate = Candidate.of(pod)
        if not self._picture.nodes:
            await self._give_up(ref, candidate, diagnosis.NO_NODES)
            return
        if pod["spec"].get("volumes"):
            candidate.claims = self._claims.of(pod)
            if candidate.claims.problem:
                words = diagnosis.of_problem(len(self._picture.nodes), candidate.claims.problem)
                await self._give_up(ref, candidate, words, by_volumes=True)
                return
        found = self._search(candidate)
        if not found.places:
            words = diagnosis.of_refusals(pod, found.refusals)
            await self._give_up(ref, candidate, words, by_volumes=bool(candidate.claims.waiting or candidate.claims.volumes))
            return
        place = best(candidate, found.places, self._chance)
        self._picture.put(pod, place.name, candidate)
        if candidate.claims.waiting:
            self._brood.start(self._bind(ref, candidate, place), f"binding of {ref.namespace}/{ref.name}")
        else:
            await self._bind(ref, candidate, place)

    def _search(self, pod: Candidate) -> Found:
        """Enough places that will do, beginning where the last search ended."""
        filters: Sequence[Filter] = [row for row in self._filters if row.applies(pod)]
        found = Found([], [])
        nodes = self._picture.nodes
        for number in range(len(nodes)):
            place = nodes[(self._next + number) % len(nodes)]
            if refusal := refusal_of(filters, pod, place):
                found.refusals.append(refusal)
            else:
                found.places.append(place)
                if len(found.places) >= ENOUGH:
                    break
        self._next = (self._next + len(found.places) + len(found.refusals)) % len(nodes)
        return found

    # --- what comes of it ---

    async def _bind(self, ref: Ref, candidate: Candidate, place: Place) -> None:
        pod = candidate.pod
        try:
            if candidate.claims.waiting and not await self._settle(candidate, place):
                self._fail(ref, pod)
                return
            target = {"apiVersion": "v1", "kind": "Node", "name": place.name}
            metadata = {"name": ref.name, "namespace": ref.namespace, "uid": pod["metadata"]["uid"]}
            binding = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
            await self._bench.api.create(PODS, binding, ref.namespace, name=ref.name, subresource="binding")
        except (ApiError, OSError):
            self._fail(ref, pod)
            return
        words = f"Successfully assigned {ref.namespace}/{ref.name} to {place.name}"
        self._bench.recorder.did(pod, "Scheduled", words, action="Binding")

    async def _settle(self, candidate: Candidate, place: Place) -> bool:
        return place.node is not None and await self._claims.settle(candidate.claims, place.node)

    def _fail(self, ref: Ref, pod: Obj) -> None:
        self._picture.take(pod["metadata"]["uid"])
        self._queue.retry(ref, pod["spec"].get("priority") or 0)

    async def _give_up(self, ref: Ref, candidate: Candidate, words: str, *, by_volumes: bool = False) -> None:
        """Say why, and wait for something to change."""
        pod = candidate.pod
        self._queue.park(ref, candidate, by_volumes=by_volumes)
        self._bench.recorder.did(pod, "FailedScheduling", words, action="Scheduling", kind="Warning")
        old = condition(pod, "PodScheduled") or {}
        if (old.get("status"), old.get("reason"), old.get("message")) == ("False", "Unschedulable", words):
            return
        status = pod.get("status") or {}
        new = {
            "type": "PodScheduled",
            "observedGeneration": pod["metadata"].get("generation", 1),
            "status": "False",
            "lastProbeTime": None,
            "reason": "Unschedulable",
            "message": words,
        }
        conditions = set_condition(status.get("conditions"), new, self._bench.timestamp())
        try:
            await self._bench.write_status(PODS, pod, {**status, "conditions": conditions})
        except NotFound:
            self._queue.remove(ref)


def _labels(pod: Obj | None) -> Obj:
    return (pod["metadata"].get("labels") if pod else None) or {}
