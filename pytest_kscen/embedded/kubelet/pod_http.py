"""HTTP from outside the machines to pods, as the API server proxies it.

A container listens on the ports it declares; in a pod without declared ports, servers listen on
every port. Packets pass the network in both directions: blocked ones time out, lost ones are sent
again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.embedded.kubelet.images.annotations import (
    annotated_service,
    default_service,
    never_listens,
)
from pytest_kscen.embedded.kubelet.images.registry import runs_until_stopped
from pytest_kscen.embedded.kubelet.network.flows import OUTSIDE, Flow

if TYPE_CHECKING:
    from pytest_kscen.chance import Stream
    from pytest_kscen.clock import Clock
    from pytest_kscen.embedded.kubelet.images import ContainerContext
    from pytest_kscen.embedded.kubelet.images.annotations import Service
    from pytest_kscen.embedded.kubelet.nodes import Site
    from pytest_kscen.embedded.kubelet.pod import PodWorker
    from pytest_kscen.kube.api import HttpAnswer, HttpCall

DIAL_TIMEOUT = 30.0  # seconds until the API server gives up
FIRST_RETRANSMISSION = 1.0  # seconds until a lost packet is sent again; doubled each time


class PodHttpClient:
    """Client for HTTP calls to pods of one site. The embedded server uses it, and the tunnel of
    a real control plane.
    """

    def __init__(self, site: Site, clock: Clock, chance: Stream) -> None:
        self._site = site
        self._clock = clock
        self._chance = chance

    def serves(self, address: str) -> bool:
        return self._worker_at(address) is not None

    async def ask(self, address: str, port: int, call: HttpCall) -> HttpAnswer:
        service, container = await self.dial(address, port)
        return await service(call, container)

    async def dial(self, address: str, port: int) -> tuple[Service, ContainerContext]:
        """Return the behaviour and context of the container that answers, after the time that
        packets take.

        Raise TimeoutError or ConnectionRefusedError with the words of Go's dialler.
        """
        dialled = f"dial tcp {f'[{address}]' if ':' in address else address}:{port}"
        worker = self._worker_at(address)
        if worker is None or not await self._transmit(worker):
            await self._clock.sleep(DIAL_TIMEOUT)
            raise TimeoutError(f"{dialled}: i/o timeout")
        if found := self._find_service(worker, port):
            return found
        raise ConnectionRefusedError(f"{dialled}: connect: connection refused")

    def _worker_at(self, address: str) -> PodWorker | None:
        kubelets = self._site.kubelets
        return kubelets.worker_at(address) if kubelets else None

    async def _transmit(self, worker: PodWorker) -> bool:
        """Wait for the time that packets take, and return True if they arrive before the dial
        timeout.
        """
        machine = worker.kubelet.machine
        own = "" if worker.pod["spec"].get("hostNetwork") else worker.address
        forward = Flow(OUTSIDE, machine.name, target_address=own)
        reply = Flow(machine.name, OUTSIDE, source_address=own)
        network = self._site.network
        impairment = network.impairment(forward).combined_with(network.impairment(reply))
        if impairment.blocked or not worker.kubelet.machine.reachable:
            return False
        wait, again = impairment.delay, FIRST_RETRANSMISSION
        while impairment.lost and self._chance.between(0, 1) < impairment.lost:
            wait += again
            again *= 2
            if wait >= DIAL_TIMEOUT:
                return False
        if wait:
            await self._clock.sleep(wait)
        return True

    def _find_service(
        self, worker: PodWorker, port: int
    ) -> tuple[Service, ContainerContext] | None:
        """Return the behaviour and context of the container that listens on this port, or None."""
        running_containers = [
            (spec, context)
            for spec, context in worker.running_containers()
            if not never_listens(context)
        ]
        declared = {
            each["name"]: [port["containerPort"] for port in each.get("ports") or ()]
            for each, _ in running_containers
        }
        listening = [context for _, context in running_containers if port in declared[context.name]]
        declares_ports = any(
            container.get("ports") for container in worker.pod["spec"]["containers"]
        )
        for context in listening or (
            [] if declares_ports else [context for _, context in running_containers]
        ):
            service = annotated_service(worker.pod, context) or self._site.images.service_of(
                context, port
            )
            if service is None and (listening or runs_until_stopped(context)):
                service = default_service
            if service:
                return service, context
        return None
