"""Faults as a test states them itself, by what they do and to whom; `incidents.cause` does them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.chaos.faults.blocks import DRBD, EVERYTHING, SPLIT_BRAIN, Block
from pytest_kscen.chaos.faults.pods import Destruction

if TYPE_CHECKING:
    from collections.abc import Iterable


def network_block(a: str, b: str, *, ports: Iterable[int] | None = None) -> Block:
    """All TCP between two machines, or these ports alone."""
    return Block(EVERYTHING, (a,), (b,), tuple(ports or ()))


def drbd_block(a: str, b: str, volume: str) -> Block:
    """One volume's link between two machines."""
    return Block(DRBD, (a,), (b,), volume=volume)


def split_brain(group_a: Iterable[str], group_b: Iterable[str]) -> Block:
    """All TCP between two groups of machines."""
    return Block(SPLIT_BRAIN, tuple(group_a), tuple(group_b))


def pod_destroy(label: str, count: int = 1) -> Destruction:
    """Some of the storage's pods with this label."""
    return Destruction(label, count)
