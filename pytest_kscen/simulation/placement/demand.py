"""What a pod asks of a node: resources, and ports of the host."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from pytest_kscen.simulation.placement.amounts import Amounts, amounts, most, plus

if TYPE_CHECKING:
    from pytest_kscen.objects.resources import Obj

ASSUMED = {"cpu": 100, "memory": 200 * 1024 * 1024}  # what scoring takes a container for that asks nothing


class HostPort(NamedTuple):
    """A port of the node itself; 0.0.0.0 stands for all its addresses."""

    protocol: str
    port: int
    address: str

    def clashes(self, other: HostPort) -> bool:
        same = self.address == other.address or "0.0.0.0" in (self.address, other.address)  # noqa: S104  # no socket is bound
        return same and self.port == other.port and self.protocol == other.protocol


@dataclass(frozen=True, slots=True)
class Demand:
    """All of it, computed once for a pod."""

    requests: Amounts
    scored: Amounts
    ports: tuple[HostPort, ...]


def demand_of(pod: Obj) -> Demand:
    """Pods that ask for the same share one."""
    spec = pod["spec"]
    return _shared(tuple(_requests(spec, {}).items()), tuple(_requests(spec, ASSUMED).items()), _ports(spec))


@functools.lru_cache(maxsize=4096)
def _shared(requests: tuple[tuple[str, int], ...], scored: tuple[tuple[str, int], ...], ports: tuple[HostPort, ...]) -> Demand:
    return Demand(dict(requests), dict(scored), ports)


def is_sidecar(container: Obj) -> bool:
    """Whether an init container is one that runs along with the others."""
    return container.get("restartPolicy") == "Always"


def _requests(spec: Obj, assumed: Amounts) -> Amounts:
    """Containers and sidecars add up; init containers run one after the other, beside the sidecars before them."""
    total: Amounts = {}
    for container in spec.get("containers") or ():
        total = plus(total, _of_container(container, assumed))
    sidecars: Amounts = {}
    peak: Amounts = {}
    for container in spec.get("initContainers") or ():
        asked = _of_container(container, assumed)
        if is_sidecar(container):
            sidecars = plus(sidecars, asked)
            total = plus(total, asked)
            peak = most(peak, sidecars)
        else:
            peak = most(peak, plus(sidecars, asked))
    total = {**most(total, peak), **amounts((spec.get("resources") or {}).get("requests"))}
    return plus(total, amounts(spec["overhead"])) if spec.get("overhead") else total


def _of_container(container: Obj, assumed: Amounts) -> Amounts:
    return {**assumed, **amounts((container.get("resources") or {}).get("requests"))}


def _ports(spec: Obj) -> tuple[HostPort, ...]:
    sidecars = [container for container in spec.get("initContainers") or () if is_sidecar(container)]
    return tuple(
        HostPort(port.get("protocol", "TCP"), port["hostPort"], port.get("hostIP") or "0.0.0.0")  # noqa: S104
        for container in (*sidecars, *(spec.get("containers") or ()))
        for port in container.get("ports") or ()
        if port.get("hostPort")
    )
