"""Taints and tolerations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.simulation.placement.numbers import plain_number

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_kscen.objects.resources import Obj

HARD = ("NoSchedule", "NoExecute")


def tolerates(toleration: Obj, taint: Obj) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint["effect"]:
        return False
    if toleration.get("key") and toleration["key"] != taint["key"]:
        return False
    own, theirs = toleration.get("value") or "", taint.get("value") or ""
    match toleration.get("operator") or "Equal":
        case "Exists":
            return True
        case "Equal":
            return bool(own == theirs)
        case "Lt" | "Gt" as operator:
            return _compares(operator, own, theirs)
    return False


def _compares(operator: str, own: str, theirs: str) -> bool:
    wanted, found = plain_number(own), plain_number(theirs)
    if wanted is None or found is None:
        return False
    return found < wanted if operator == "Lt" else found > wanted


def untolerated(taints: Iterable[Obj], tolerations: Iterable[Obj], effects: tuple[str, ...] = HARD) -> Obj | None:
    """The first taint with one of these effects that nothing tolerates."""
    for taint in taints:
        if taint["effect"] in effects and not any(tolerates(toleration, taint) for toleration in tolerations):
            return taint
    return None


def taints_of(node: Obj) -> list[Obj]:
    return node["spec"].get("taints") or [] if node.get("spec") else []


def same(one: Obj, other: Obj) -> bool:
    """A node has one taint for each key and effect."""
    return bool(one["key"] == other["key"] and one["effect"] == other["effect"])
