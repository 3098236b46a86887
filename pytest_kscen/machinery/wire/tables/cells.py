"""Cells that several kinds share and that need a thought: containers, selectors, addresses, lists that are cut."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kscen.machinery.wire.tables.columns import NONE, Column, wide
from pytest_kscen.objects.selectors import field_at

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kscen.machinery.wire.tables.columns import Cell
    from pytest_kscen.objects.resources import Obj

SHOWN = 3  # entries of a list before it is cut
MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}


def containers(path: str = "spec.template.spec.containers") -> tuple[Column, Column]:
    """The names and the images of a workload's containers."""
    return wide("Containers", _each(path, "name")), wide("Images", _each(path, "image"))


def _each(path: str, name: str) -> Cell:
    def cell(obj: Obj, _: float) -> str:
        return ",".join(container.get(name, "") for container in field_at(obj, path) or ())

    return cell


def labels(path: str) -> Cell:
    """A map of labels as a selector would spell it."""

    def cell(obj: Obj, _: float) -> str:
        found = field_at(obj, path) or {}
        return ",".join(f"{name}={value}" for name, value in sorted(found.items())) or NONE

    return cell


def selector(path: str = "spec.selector", default: str = NONE) -> Cell:
    """A LabelSelector in one line."""

    def cell(obj: Obj, _: float) -> str:
        found = field_at(obj, path)
        return (written_selector(found) if found else "") or default

    return cell


def written_selector(selector: Obj) -> str:
    parts = [(key, f"{key}={value}") for key, value in (selector.get("matchLabels") or {}).items()]
    for part in selector.get("matchExpressions") or ():
        key, values = part["key"], ",".join(sorted(part.get("values") or ()))
        forms = {"In": f"{key} in ({values})", "NotIn": f"{key} notin ({values})", "Exists": key, "DoesNotExist": f"!{key}"}
        parts.append((key, forms.get(part["operator"], "<error>")))
    return ",".join(written for _, written in sorted(parts, key=lambda part: part[0]))


def cut(entries: Sequence[str]) -> str:
    """The first few of a list, and how many more there are."""
    shown = ",".join(entries[:SHOWN])
    return f"{shown} + {len(entries) - SHOWN} more..." if len(entries) > SHOWN else shown


def access_modes(path: str) -> Cell:
    def cell(obj: Obj, _: float) -> str:
        found = field_at(obj, path) or ()
        return ",".join(short for mode, short in MODES.items() if mode in found)

    return cell


def load_balancer(obj: Obj) -> str:
    """The addresses under which something is reached from outside."""
    ingress = field_at(obj, "status.loadBalancer.ingress") or ()
    return ",".join(sorted({entry.get("ip") or entry.get("hostname") or "" for entry in ingress} - {""}))


def condition(obj: Obj, type_: str) -> Any:
    """The condition of this type, or an empty one."""
    found = field_at(obj, "status.conditions") or ()
    return next((condition for condition in found if condition.get("type") == type_), {})
