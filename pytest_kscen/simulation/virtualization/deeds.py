"""What operations do to their machines, and how one sees that it is done: pods go, switches turn, guests move."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.kube.informer import Ref
from pytest_kscen.objects.resources import PODS
from pytest_kscen.simulation.virtualization.bodies import receiver
from pytest_kscen.simulation.virtualization.rules import is_forced
from pytest_kscen.simulation.virtualization.status import has_ended, holder_of, is_ending
from pytest_kscen.simulation.workloads.owners import controlled
from pytest_kscen.simulation.workloads.pods import Pods

if TYPE_CHECKING:
    from pytest_kscen.chance import Stream
    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.simulation.bench import Bench
    from pytest_kscen.simulation.virtualization.hypervisor import Hypervisor

MOVES = ("Migrate", "Evict")


class Deeds:
    """Those of one controller, and what it must remember of the ones that go on."""

    def __init__(self, bench: Bench, hypervisor: Hypervisor, chance: Stream) -> None:
        self._hypervisor = hypervisor
        self._chance = chance
        self._hands = Pods(bench)
        self._pods_of = controlled(bench.informers.of(PODS))
        self._replaced: dict[str, list[str]] = {}
        """By operation: the pods that the machine had before."""
        self._receivers: dict[str, str] = {}
        """By operation: the pod that the guest shall move to."""

    async def begin(self, operation: Obj, vm: Obj) -> None:
        """Do it, once: that it was done may have to be written several times."""
        uid = operation["metadata"]["uid"]
        if uid in self._replaced or uid in self._receivers:
            return
        kind, pods = operation["spec"]["type"], self._pods_of.of(vm["metadata"]["uid"])
        if kind in MOVES:
            await self._move(operation, vm, pods)
            return
        self._hypervisor.switch(vm, on=kind != "Stop")
        if is_forced(operation):
            self._hypervisor.unplug(Ref.of(vm))
        for pod in pods:
            if kind != "Start" and not is_ending(pod):
                await self._hands.delete(vm, pod)
        self._replaced[uid] = [pod["metadata"]["uid"] for pod in pods]

    async def _move(self, operation: Obj, vm: Obj, pods: list[Obj]) -> None:
        source = holder_of(self._hypervisor.guest(Ref.of(vm)), pods)
        selector = (operation["spec"].get("migrate") or {}).get("nodeSelector") or {}
        node = source["spec"]["nodeName"] if source else ""
        made = await self._hands.create(vm, receiver(vm, self._chance.suffix(), other_than=node, selector=selector))
        self._receivers[operation["metadata"]["uid"]] = made["metadata"]["uid"]

    async def undo(self, operation: Obj, vm: Obj) -> None:
        """Another operation takes its place: nobody shall wait any more for a guest that does not come."""
        for pod in self._pods_of.of(vm["metadata"]["uid"]):
            if pod["metadata"]["uid"] == self._receivers.get(operation["metadata"]["uid"]):
                await self._hands.delete(vm, pod)

    def is_done(self, operation: Obj, vm: Obj) -> bool:
        kind, uid = operation["spec"]["type"], operation["metadata"]["uid"]
        phase = (vm.get("status") or {}).get("phase")
        if kind == "Stop":
            return bool(phase == "Stopped")
        holder = self._hypervisor.guest(Ref.of(vm)).holder
        if kind in MOVES:
            return bool(phase == "Running" and holder == self._receivers.get(uid))
        return bool(phase == "Running" and holder not in self._replaced.get(uid, ()))

    def failure(self, operation: Obj, vm: Obj) -> str:
        """Why it will never be done."""
        if operation["spec"]["type"] not in MOVES:
            return ""
        target = self._receivers.get(operation["metadata"]["uid"])
        pods = [pod for pod in self._pods_of.of(vm["metadata"]["uid"]) if pod["metadata"]["uid"] == target]
        lives = any(not has_ended(pod) and not is_ending(pod) for pod in pods)
        return "" if lives else "The guest has not moved: one of its two pods has ended."

    def forget(self, operation: Obj) -> None:
        """It is over."""
        self._replaced.pop(operation["metadata"]["uid"], None)
        self._receivers.pop(operation["metadata"]["uid"], None)
