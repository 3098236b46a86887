"""Constructors of single faults, by kind and target, for tests that cause faults themselves."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pytest_kscen.chaos.network_blocks import PORTS, NetworkCut, valid_ports
from pytest_kscen.chaos.network_degradation import LinkLoad, PacketLoss
from pytest_kscen.chaos.pod_deletions import PodDeletion
from pytest_kscen.chaos.profiles import DRBD, EVERYTHING, SPLIT_BRAIN, valid_label, valid_loss
from pytest_kscen.chaos.vm_operations import MachineRestart, MachineStop
from pytest_kscen.objects.arguments import is_whole_number


def network_block(a: str, b: str, *, ports: Iterable[int] | None = None) -> NetworkCut:
    """Deny all TCP between two machines, or only these ports."""
    _pair(a, b)
    if ports is None:
        return NetworkCut(EVERYTHING, (a,), (b,))
    valid = valid_ports(_listed("ports", ports))
    return NetworkCut(PORTS, (a,), (b,), valid, valid)


def drbd_block(a: str, b: str, volume: str) -> NetworkCut:
    """Cut one volume's link between two machines."""
    _pair(a, b)
    _names(volume=volume)
    return NetworkCut(DRBD, (a,), (b,), volume=volume)


def split_brain(group_a: Iterable[str], group_b: Iterable[str]) -> NetworkCut:
    """Deny all TCP between two groups of machines."""
    side_a, side_b = _group("group_a", group_a), _group("group_b", group_b)
    _each_once((*side_a, *side_b))
    return NetworkCut(SPLIT_BRAIN, side_a, side_b)


def losses(a: str, b: str, loss: float) -> PacketLoss:
    """Lose a share of the packets between two machines, from 0 to 1."""
    _pair(a, b)
    valid_loss(loss)
    return PacketLoss((a, b), loss)


def latency(a: str, b: str) -> LinkLoad:
    """Load the link between two machines, which delays packets."""
    _pair(a, b)
    return LinkLoad((a, b))


def vm_reboot(vm: str) -> MachineRestart:
    """Restart one machine."""
    _names(vm=vm)
    return MachineRestart(vm)


def vm_stop(vm: str) -> MachineStop:
    """Stop one machine until the fault is undone."""
    _names(vm=vm)
    return MachineStop(vm)


def pod_destroy(label: str, count: int = 1) -> PodDeletion:
    """Delete pods of the storage with this label."""
    if not is_whole_number(count):
        raise ValueError(f"count={count!r}: give a whole number, 1 or more")
    valid_label(label)
    return PodDeletion(label, count, least=count)


def _names(**given: Any) -> None:
    for parameter, name in given.items():
        if not isinstance(name, str) or not name:
            raise ValueError(f"{parameter}={name!r}: give a name, as text")


def _pair(a: Any, b: Any) -> None:
    _names(a=a, b=b)
    _each_once((a, b))


def _each_once(machines: tuple[str, ...]) -> None:
    for name in machines:
        if machines.count(name) > 1:
            raise ValueError(f"{name!r} is named twice: name each machine once")


def _group(parameter: str, given: Any) -> tuple[str, ...]:
    machines = _listed(parameter, given)
    if not machines or not all(isinstance(name, str) and name for name in machines):
        raise ValueError(f"{parameter}={given!r}: give the names of one machine or more")
    return machines


def _listed(parameter: str, given: Any) -> tuple[Any, ...]:
    if isinstance(given, str) or not isinstance(given, Iterable):
        # as all mistakes here
        raise ValueError(f"{parameter}={given!r}: give a list, as in [{given!r}]")  # noqa: TRY004
    return tuple(given)
