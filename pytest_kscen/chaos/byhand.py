"""Faults as a test states them itself, by what they do and to whom; `incidents.cause` does them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.chaos.faults.blocks import DRBD, EVERYTHING, PORTS, SPLIT_BRAIN, Block, valid_ports
from pytest_kscen.chaos.faults.latency import Latency
from pytest_kscen.chaos.faults.losses import Losses, valid_loss
from pytest_kscen.chaos.faults.machines import Reboot, Stop
from pytest_kscen.chaos.faults.pods import Destruction

if TYPE_CHECKING:
    from collections.abc import Iterable


def network_block(a: str, b: str, *, ports: Iterable[int] | None = None) -> Block:
    """All TCP between two machines, or these ports alone."""
    return Block(EVERYTHING, (a,), (b,)) if ports is None else Block(PORTS, (a,), (b,), valid_ports(ports))


def drbd_block(a: str, b: str, volume: str) -> Block:
    """One volume's link between two machines."""
    return Block(DRBD, (a,), (b,), volume=volume)


def split_brain(group_a: Iterable[str], group_b: Iterable[str]) -> Block:
    """All TCP between two groups of machines."""
    return Block(SPLIT_BRAIN, tuple(group_a), tuple(group_b))


def losses(a: str, b: str, loss: float) -> Losses:
    """This share of the packets between two machines, from 0 to 1."""
    valid_loss(loss)
    return Losses((a, b), loss)


def latency(a: str, b: str) -> Latency:
    """The link between two machines, loaded."""
    return Latency((a, b))


def vm_reboot(vm: str) -> Reboot:
    """One machine, off and on again."""
    return Reboot(vm)


def vm_stop(vm: str) -> Stop:
    """One machine, off for as long as it lasts."""
    return Stop(vm)


def pod_destroy(label: str, count: int = 1) -> Destruction:
    """Some of the storage's pods with this label."""
    return Destruction(label, count)
