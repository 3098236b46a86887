"""HTTP as it reaches pods from outside of the machines: from the API server, which passes on what
it is asked.

A container listens to the ports that it declares; in a pod that declares none, servers listen to
every port. Packets take the network's way, there and back: what is blocked hangs until whoever
dials gives up, what is lost is sent again."""

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

DIAL_TIMEOUT = 30.0  # seconds that the API server tries
FIRST_RETRANSMISSION = (
    1.0  # seconds after which a packet that was lost is sent again, then twice as long
)


class PodHttpClient:
    """A `machinery.core.Web`."""

    def __init__(self, site: Site, clock: Clock, chance: Stream) -> None:
        self._site = site
        self._clock = clock
        self._chance = chance

    def knows(self, address: str) -> bool:
        """Whether a pod of the site has this address."""
        return self._life_at(address) is not None

    async def ask(self, address: str, port: int, call: HttpCall) -> HttpAnswer:
        service, container = await self.dial(address, port)
        return await service(call, container)

    async def dial(self, address: str, port: int) -> tuple[Service, ContainerContext]:
        """Who answers there, after the time that packets take."""
        dialled = f"dial tcp {f'[{address}]' if ':' in address else address}:{port}"
        life = self._life_at(address)
        if life is None or not await self._reaches(life):
            await self._clock.sleep(DIAL_TIMEOUT)
            raise TimeoutError(f"{dialled}: i/o timeout")
        if found := self._service(life, port):
            return found
        raise ConnectionRefusedError(f"{dialled}: connect: connection refused")

    def _life_at(self, address: str) -> PodWorker | None:
        kubelets = self._site.kubelets
        return kubelets.life_at(address) if kubelets else None

    async def _reaches(self, life: PodWorker) -> bool:
        """Whether packets come through, after the time that they take."""
        machine = life.host.machine
        own = "" if life.pod["spec"].get("hostNetwork") else life.address
        there = Flow(OUTSIDE, machine.name, target_address=own)
        back = Flow(machine.name, OUTSIDE, source_address=own)
        network = self._site.network
        passage = network.passage(there).also(network.passage(back))
        if passage.blocked or not life.host.machine.reachable:
            return False
        wait, again = passage.delay, FIRST_RETRANSMISSION
        while passage.lost and self._chance.between(0, 1) < passage.lost:
            wait += again
            again *= 2
            if wait >= DIAL_TIMEOUT:
                return False
        if wait:
            await self._clock.sleep(wait)
        return True

    def _service(self, life: PodWorker, port: int) -> tuple[Service, ContainerContext] | None:
        """Who listens at this port."""
        running = [
            (spec, context) for spec, context in life.running() if not never_listens(context)
        ]
        declared = {
            each["name"]: [port["containerPort"] for port in each.get("ports") or ()]
            for each, _ in running
        }
        listening = [context for _, context in running if port in declared[context.name]]
        says = any(container.get("ports") for container in life.pod["spec"]["containers"])
        for context in listening or ([] if says else [context for _, context in running]):
            service = annotated_service(life.pod, context) or self._site.images.service_of(
                context, port
            )
            if service is None and (listening or runs_until_stopped(context)):
                service = default_service
            if service:
                return service, context
        return None
