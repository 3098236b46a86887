"""How much of each resource a pod asks for and a node has, in nano-units: exact, and comparable."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.objects.quantities import NANO, nanos

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_kscen.objects.resources import Obj

PODS = "pods"
FIRST = ("cpu", "memory")
OVER = ("Succeeded", "Failed")

Amounts = dict[str, int]


def wanted(pod: Obj) -> Amounts:
    """Its containers together, or its greediest init container, and its overhead; nothing if it has finished."""
    if (pod.get("status") or {}).get("phase") in OVER:
        return {}
    spec = pod["spec"]
    together: Amounts = {}
    for each in spec.get("containers") or ():
        _add(together, _requests(each))
    first: Amounts = {}
    aside: Amounts = {}
    for each in spec.get("initContainers") or ():
        if each.get("restartPolicy") == "Always":  # a sidecar, which stays
            _add(aside, _requests(each))
            _raise(first, aside)
        else:
            _raise(first, _sum(aside, _requests(each)))
    found = _sum(together, aside)
    _raise(found, first)
    _add(found, _read(spec.get("overhead")))
    return {PODS: NANO, **{name: amount for name, amount in found.items() if amount}}


def room(node: Obj) -> Amounts:
    return _read((node.get("status") or {}).get("allocatable"))


def in_order(resources: Iterable[str]) -> list[str]:
    """CPU and memory first, the number of pods last."""
    return sorted(resources, key=lambda name: (name not in FIRST, name == PODS, name))


def _requests(container: Obj) -> Amounts:
    return _read((container.get("resources") or {}).get("requests"))


def _read(quantities: Obj | None) -> Amounts:
    return {name: nanos(quantity) for name, quantity in (quantities or {}).items()}


def _add(target: Amounts, more: Amounts) -> None:
    for name, amount in more.items():
        target[name] = target.get(name, 0) + amount


def _raise(target: Amounts, other: Amounts) -> None:
    for name, amount in other.items():
        target[name] = max(target.get(name, 0), amount)


def _sum(one: Amounts, other: Amounts) -> Amounts:
    found = dict(one)
    _add(found, other)
    return found
