"""What a NetworkChaos' action does to packets, read from its spec. Pure; what cannot be read is a ValueError."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pytest_kscen.objects.durations import seconds_of_text
from pytest_kscen.simulation.network.network import BLOCKED, OPEN, Passage

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kscen.objects.resources import Obj

PREFIXES = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}


def passage_of(spec: Obj) -> Passage:
    action = spec["action"]
    if action == "partition":
        return BLOCKED
    passage = OPEN
    for name, read in READERS.items():
        if name == action or (action == "netem" and name != "bandwidth"):
            if (given := spec.get(name)) is not None:
                passage = passage.also(read(given))
            elif action != "netem":
                raise ValueError(f"spec.{name} is needed for action {action}")
    if passage == OPEN:
        raise ValueError(f"action {action} does nothing to the packets")
    return passage


def _delay(spec: Obj) -> Passage:
    reorder = share((spec.get("reorder") or {}).get("reorder", "0"))
    return Passage(delay=seconds_of_text(spec["latency"]), jitter=seconds_of_text(spec.get("jitter") or "0s"), reorder=reorder)


def _rate(spec: Obj) -> Passage:
    return Passage(rate=bits_per_second(spec["rate"]))


READERS: dict[str, Callable[[Obj], Passage]] = {
    "delay": _delay,
    "loss": lambda spec: Passage(loss=share(spec["loss"])),
    "duplicate": lambda spec: Passage(duplicate=share(spec["duplicate"])),
    "corrupt": lambda spec: Passage(corrupt=share(spec["corrupt"])),
    "rate": _rate,
    "bandwidth": _rate,
}


def share(percent: str) -> float:
    """`25` is a quarter of all packets."""
    try:
        value = float(percent)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 100:  # noqa: PLR2004  # percent
        raise ValueError(f"{percent!r} is no percentage")
    return value / 100


def bits_per_second(rate: str) -> float:
    """`10mbit`, and in bytes `1mbps`."""
    found = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([kmgt]?)(bit|bps)\s*", rate.lower())
    if not found:
        raise ValueError(f"{rate!r} is no rate: write 10mbit, or in bytes 1mbps")
    number, prefix, unit = found.groups()
    return float(number) * PREFIXES[prefix] * (8 if unit == "bps" else 1)
