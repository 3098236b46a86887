"""Kubelets of a cluster in one actor, and `Site`, the simulated hardware they run on.

A new Node gets a machine and a kubelet; its machine is deleted with it. Informers are
shared: events of a machine's node and pods are passed to its kubelet while the machine is
reachable. Started by `actors`.
"""

from __future__ import annotations

import collections
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytest_kscen.embedded.child_tasks import ChildTasks
from pytest_kscen.embedded.indexes import pods_by_node
from pytest_kscen.embedded.kubelet.images import Images
from pytest_kscen.embedded.kubelet.kubelet import Kubelet, KubeletServices, is_retryable
from pytest_kscen.embedded.kubelet.logs import Logs
from pytest_kscen.embedded.kubelet.machines import FIRST_HOST, Machines
from pytest_kscen.embedded.kubelet.network import Network
from pytest_kscen.embedded.kubelet.network.hosts import NetworkHosts
from pytest_kscen.embedded.kubelet.node_status import Heartbeats
from pytest_kscen.embedded.kubelet.volumes import Mounter
from pytest_kscen.kube.cache import Ref
from pytest_kscen.kube.gate import Gates
from pytest_kscen.objects.errors import ApiError, NotFound
from pytest_kscen.objects.resources import NODES, PODS

if TYPE_CHECKING:
    import ipaddress
    from collections.abc import Callable
    from typing import Never

    from pytest_kscen.chance import Chance
    from pytest_kscen.clock import Clock
    from pytest_kscen.embedded.controller import ControllerContext
    from pytest_kscen.embedded.kubelet.machines import Machine
    from pytest_kscen.embedded.kubelet.pod import PodWorker
    from pytest_kscen.embedded.scheduler import Scheduler
    from pytest_kscen.kube.informer import Informers
    from pytest_kscen.objects.resources import Obj


KUBELET = "kubelet"
RETRY_DELAY = 1.0  # seconds between attempts of a kubelet to reach the API


class Kubelets:
    """Actor with one kubelet per machine. Machines that exist at the start register themselves.

    Events are queued while a Scenario pauses the kubelets, and delivered in order afterwards.
    """

    def __init__(self, context: ControllerContext, site: Site) -> None:
        site.kubelets = self
        self._machines = site.machines
        self._child_tasks = ChildTasks()
        self._heartbeats = Heartbeats(context.clock, self._child_tasks)
        mounter = Mounter(context.api.plain, context.clock, context.informers)
        self._services = KubeletServices(
            context.api.plain,
            context.clock,
            context.recorder,
            site.images,
            site.logs,
            mounter,
            self._child_tasks,
            site.hosts,
        )
        self._kubelets: dict[str, Kubelet] = {}
        self._nodes = context.informers.of(NODES)
        self._pods = context.informers.of(PODS)
        self._pods_by_node = pods_by_node(context.informers)
        self._gates = site.gates
        self._held: collections.deque[
            tuple[Callable[[Obj | None, Obj | None], None], Obj | None, Obj | None]
        ] = collections.deque()
        """Events to deliver when the Scenario lets kubelets continue."""
        site.gates.on_change(self._deliver_held)
        site.machines.on_change(self._machine_changed)

    async def run(self) -> Never:
        for machine in self._machines:
            kubelet = Kubelet(self._services, machine)
            while True:
                try:
                    await kubelet.register()
                except (ApiError, OSError) as error:
                    if not is_retryable(error):
                        raise
                    await self._services.clock.sleep(RETRY_DELAY)
                else:
                    break
            self._kubelets[kubelet.machine.name] = kubelet
            self._heartbeats.join(kubelet)
        self._nodes.on_change(lambda new, old: self._deliver(self._node_changed, new, old))
        self._pods.on_change(lambda new, old: self._deliver(self._pod_changed, new, old))
        await self._child_tasks.watch()

    def _deliver(
        self, change: Callable[[Obj | None, Obj | None], None], new: Obj | None, old: Obj | None
    ) -> None:
        if self._held or self._gates.holds(KUBELET):
            self._held.append((change, new, old))
        else:
            change(new, old)

    def _deliver_held(self) -> None:
        while self._held and not self._gates.holds(KUBELET):
            change, new, old = self._held.popleft()
            change(new, old)

    def kill(
        self, namespace: str, pod: str, container: str, *, code: int = 137, reason: str = "Error"
    ) -> None:
        """End a container's run from outside, as a container runtime can. Its restart policy
        applies.
        """
        found = self._pods.get(pod, namespace)
        kubelet = self._kubelets.get(found["spec"].get("nodeName", "")) if found else None
        worker = kubelet.worker_of(found["metadata"]["uid"]) if kubelet and found else None
        if worker is None:
            raise NotFound(f'pod "{pod}" does not run on any machine')
        worker.kill(container, code, reason)

    def worker_at(self, address: str) -> PodWorker | None:
        """Return the worker of the pod with this address, or None; of pods on a host's network,
        any.
        """
        for kubelet in self._kubelets.values():
            if (kubelet.machine.has_address(address) or kubelet.address == address) and (
                worker := kubelet.worker_at(address)
            ):
                return worker
        return None

    def _node_changed(self, new: Obj | None, old: Obj | None) -> None:
        node = new or old
        if node is None:
            return
        name = node["metadata"]["name"]
        kubelet = self._kubelets.get(name)
        if new is None and kubelet:
            # the machine is deleted with its Node
            del self._kubelets[name]
            self._heartbeats.leave(kubelet)
            kubelet.halt()
            self._machines.remove(name)
        elif new and kubelet:
            kubelet.update_node(new)
        elif new:
            # Another client created the Node: give it a machine and a kubelet.
            machine = self._machines[name] if name in self._machines else self._machines.add(name)
            self._kubelets[name] = Kubelet(self._services, machine)
            self._kubelets[name].update_node(new)
            self._machine_changed(machine)

    def _machine_changed(self, machine: Machine) -> None:
        kubelet = self._kubelets.get(machine.name)
        if kubelet is None:
            return
        self._heartbeats.leave(kubelet)
        if not machine.powered:
            kubelet.halt()
        elif machine.reachable:
            self._child_tasks.start_soon(
                lambda: self._connect(kubelet), f"beginning of {machine.name}"
            )

    async def _connect(self, kubelet: Kubelet) -> None:
        """Start or reconnect a kubelet: take over its Node, start heartbeats, and process missed
        events.

        Retries until the API answers or the machine is disconnected again.
        """
        machine = kubelet.machine
        while self._kubelets.get(machine.name) is kubelet and machine.powered and machine.reachable:
            try:
                await kubelet.take_over_node(self._nodes.objects[Ref("", machine.name)])
            except (ApiError, OSError, KeyError):
                await self._services.clock.sleep(RETRY_DELAY)
                continue
            self._heartbeats.join(kubelet)
            kubelet.resync(self._pods_by_node.of(machine.name))
            return

    def _pod_changed(self, new: Obj | None, old: Obj | None) -> None:
        pod = new or old
        kubelet = self._kubelets.get(pod["spec"].get("nodeName", "")) if pod else None
        if (
            kubelet is None
            or pod is None
            or not (kubelet.machine.powered and kubelet.machine.reachable)
        ):
            return
        if new:
            kubelet.pod_changed(new)
        else:
            kubelet.pod_deleted(pod)


@dataclass(slots=True)
class Site:
    """Simulated hardware of one cluster: machines, network, images and logs.

    Shared by cluster backends, fault injection and simulated third parties. The server answers
    `pods/log` from `logs`; `kubelets` is set once their actor exists.
    """

    machines: Machines
    images: Images
    logs: Logs
    network: Network
    hosts: NetworkHosts
    kubelets: Kubelets | None = None
    informers: Informers | None = None
    """Informers that the cluster's controllers share, once they exist."""
    scheduler: Scheduler | None = None
    """Embedded scheduler; None on a real control plane."""
    gates: Gates = field(default_factory=Gates)
    """Gates at which a Scenario holds the cluster's controllers."""
    has_chaos_mesh: bool = False
    """True once Chaos Mesh is installed."""

    @classmethod
    def of(
        cls,
        clock: Clock,
        chance: Chance,
        *,
        nodes: int = 0,
        hosts: ipaddress.IPv4Address = FIRST_HOST,
    ) -> Site:
        machines = Machines(chance.stream("machines"), hosts)
        for number in range(1, nodes + 1):
            machines.add(f"node-{number}")
        network = Network(machines)
        return cls(machines, Images(), Logs(clock), network, NetworkHosts(machines, network, clock))
