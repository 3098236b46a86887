"""The controller of virtual machines: each that shall run has a pod to run in, and says how it is.

A pod that ends, whoever ended it, is replaced by another while the machine shall run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.kube.informer import Ref
from pytest_kscen.objects.resources import PODS
from pytest_kscen.objects.virtualization import VIRTUAL_MACHINES
from pytest_kscen.simulation.bench import follow
from pytest_kscen.simulation.virtualization.bodies import launcher
from pytest_kscen.simulation.virtualization.status import has_ended, is_ending, status_of, wanted_on
from pytest_kscen.simulation.workloads.owners import controlled, controller_of
from pytest_kscen.simulation.workloads.pods import Pods

if TYPE_CHECKING:
    from typing import Never

    from pytest_kscen.chance import Stream
    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.simulation.bench import Bench
    from pytest_kscen.simulation.virtualization.hypervisor import Hypervisor

FINALIZER = "virtualization.deckhouse.io/vm-cleanup"


class VirtualMachines:
    """The controller."""

    def __init__(self, bench: Bench, hypervisor: Hypervisor, chance: Stream) -> None:
        self._bench = bench
        self._hypervisor = hypervisor
        self._chance = chance
        self._hands = Pods(bench)
        self._vms = bench.informers.of(VIRTUAL_MACHINES)
        self._pods = bench.informers.of(PODS)
        self._pods_of = controlled(self._pods)
        self._controller = bench.controller(self._reconcile, self._vms, self._pods)

    async def run(self) -> Never:
        follow(self._controller, self._vms)
        self._pods.on_change(self._pod_changed)
        self._hypervisor.on_change(self._controller.enqueue)
        await self._controller.run()

    def _pod_changed(self, new: Obj | None, old: Obj | None) -> None:
        pod = new or old
        owner = controller_of(pod)
        if pod and owner and owner["kind"] == VIRTUAL_MACHINES.kind:
            self._controller.enqueue(Ref(pod["metadata"]["namespace"], owner["name"]))

    async def _reconcile(self, ref: Ref) -> None:
        vm = self._vms.objects.get(ref)
        if vm is None:
            return
        pods = self._pods_of.of(vm["metadata"]["uid"])
        if vm["metadata"].get("deletionTimestamp") and not pods:
            await self._release(vm)
            return
        if FINALIZER not in (vm["metadata"].get("finalizers") or ()):
            vm = await self._bind(vm)
        wanted = wanted_on(vm, switched=self._hypervisor.switched(vm)) and not vm["metadata"].get("deletionTimestamp")
        await self._provide(vm, pods, wanted=wanted)
        await self._tell(vm, pods, wanted=wanted)

    async def _provide(self, vm: Obj, pods: list[Obj], *, wanted: bool) -> None:
        for pod in pods:
            if not is_ending(pod) and (not wanted or has_ended(pod)):
                await self._hands.delete(vm, pod)
        if wanted and not pods:
            await self._hands.create(vm, launcher(vm, self._chance.suffix()))

    async def _tell(self, vm: Obj, pods: list[Obj], *, wanted: bool) -> None:
        ref = Ref.of(vm)
        machine = self._hypervisor.machine(ref)
        status = status_of(
            vm,
            pods,
            self._hypervisor.guest(ref),
            wanted=wanted,
            address=machine.address if machine else "",
            now=self._bench.timestamp(),
        )
        if status != vm.get("status"):
            await self._bench.write_status(VIRTUAL_MACHINES, vm, status)

    # --- its beginning and its end ---

    async def _bind(self, vm: Obj) -> Obj:
        metadata = {**vm["metadata"], "finalizers": [*(vm["metadata"].get("finalizers") or ()), FINALIZER]}
        return await self._bench.api.update(VIRTUAL_MACHINES, {**vm, "metadata": metadata})

    async def _release(self, vm: Obj) -> None:
        self._hypervisor.forget(vm)
        finalizers = [one for one in vm["metadata"].get("finalizers") or () if one != FINALIZER]
        await self._bench.api.update(VIRTUAL_MACHINES, {**vm, "metadata": {**vm["metadata"], "finalizers": finalizers}})
