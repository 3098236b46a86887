"""An HTTP readiness probe: passed as long as nobody has taught the container an answer, else asked at each of its ticks.

While nothing is taught no time is spent on it; whoever teaches something wakes it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pytest_kscen.kube.requests import HttpCall
from pytest_kscen.simulation.images.serving import told

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.simulation.images import ContainerContext, Images
    from pytest_kscen.simulation.images.serving import Service

GOOD = range(200, 400)


class HttpReadiness:
    """Of one run of one container."""

    def __init__(self, probe: Obj, spec: Obj, context: ContainerContext, images: Images, pod: Callable[[], Obj]) -> None:
        self._probe = probe
        self._port = _port(probe["httpGet"]["port"], spec)
        self._context = context
        self._images = images
        self._pod = pod
        self._changed = asyncio.Event()
        self._is_ready = False

    def wake(self) -> None:
        self._changed.set()

    async def keep(self) -> None:
        """From the first time that it is due until it is cancelled."""
        began = self._context.clock.now()
        period = float(self._probe.get("periodSeconds", 10))
        in_a_row = 0
        forget = self._images.on_change(self.wake)
        try:
            while True:
                self._changed.clear()
                service = self._service()
                passed = service is None or await self._passes(service)
                in_a_row = 0 if passed == self._is_ready else in_a_row + 1
                if in_a_row >= self._threshold():
                    self._is_ready, in_a_row = passed, 0
                    self._context.set_ready(passed)
                if service is None and self._is_ready:
                    await self._changed.wait()
                await self._context.sleep(period - (self._context.clock.now() - began) % period)
        finally:
            forget()

    def _threshold(self) -> int:
        """Answers in a row that it takes to change; the first success has been waited for."""
        return int(self._probe.get("failureThreshold", 3)) if self._is_ready else 1

    def _service(self) -> Service | None:
        return told(self._pod(), self._context) or self._images.service_of(self._context, self._port)

    async def _passes(self, service: Service) -> bool:
        target = self._probe["httpGet"].get("path", "/")
        try:
            async with asyncio.timeout(self._probe.get("timeoutSeconds", 1)):
                return (await service(HttpCall("GET", target), self._context)).status in GOOD
        except TimeoutError:
            return False


def _port(port: int | str, spec: Obj) -> int:
    """A number, or the name of one of the container's."""
    if isinstance(port, int):
        return port
    return next((each["containerPort"] for each in spec.get("ports") or () if each.get("name") == port), 0)
