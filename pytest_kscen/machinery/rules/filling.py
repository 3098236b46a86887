"""How defaults are filled in: only what is absent is set, so what was filled in before is left as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kscen.objects.quantities import in_millis

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_kscen.objects.resources import Obj


def fill(obj: Obj, defaults: Mapping[str, Any]) -> None:
    """Plain values; a table must not hold what could be changed later."""
    for name, value in defaults.items():
        if name not in obj:
            obj[name] = value


def part(obj: Obj, name: str) -> Obj:
    """A member that is an object; an empty one is made if there is none."""
    inner: Obj | None = obj.get(name)
    if inner is None:
        inner = obj[name] = {}
    return inner


def round_resources(resources: Obj | None) -> None:
    """ResourceRequirements: quantities to the thousandth."""
    if resources:
        for kind in ("limits", "requests"):
            if kind in resources:
                round_quantities(resources[kind])


def round_quantities(listed: dict[str, Any]) -> None:
    """A ResourceList."""
    for name, quantity in listed.items():
        rounded = in_millis(quantity)
        if rounded != quantity:
            listed[name] = rounded
