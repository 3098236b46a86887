"""What a pod asks for in all: its containers together, or its init containers if those need more at some moment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.objects import quantities

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pytest_kscen.objects.resources import Obj

    Amounts = dict[str, str]

FOR_THE_POD = ("cpu", "memory")  # what may be stated for a pod as a whole instead


def total(pod: Obj, which: str, *, overhead: bool = True) -> Amounts:
    """`which` is requests or limits."""
    spec = pod["spec"]
    found = together(_of(container, which) for container in spec.get("containers") or ())
    beside: Amounts = {}
    first: Amounts = {}
    for container in spec.get("initContainers") or ():
        asked = _of(container, which)
        if container.get("restartPolicy") == "Always":
            found, beside = together([found, asked]), together([beside, asked])
            first = most([first, beside])
        else:
            first = most([first, together([asked, beside])])
    found = most([found, first])
    whole = (spec.get("resources") or {}).get(which) or {}
    found |= {name: amount for name, amount in whole.items() if name in FOR_THE_POD}
    above = spec.get("overhead") or {} if overhead else {}
    return together([found, {name: amount for name, amount in above.items() if which == "requests" or name in found}])


def _of(container: Obj, which: str) -> Mapping[str, str]:
    return (container.get("resources") or {}).get(which) or {}


def together(parts: Iterable[Mapping[str, str]]) -> Amounts:
    """The sum, name by name."""
    sums: Amounts = {}
    for part in parts:
        for name, amount in part.items():
            sums[name] = quantities.add(sums[name], amount) if name in sums else amount
    return sums


def most(parts: Iterable[Mapping[str, str]]) -> Amounts:
    """The largest, name by name."""
    largest: Amounts = {}
    for part in parts:
        for name, amount in part.items():
            if name not in largest or quantities.compare(amount, largest[name]) > 0:
                largest[name] = amount
    return largest
