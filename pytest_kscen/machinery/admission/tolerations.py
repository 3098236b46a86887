"""What binds pods and nodes by default: a pod bears a failing node for a while, and a new node must first get ready."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_kscen.machinery.admission.review import Review
    from pytest_kscen.objects.resources import Obj

NOT_READY, UNREACHABLE = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"
PATIENCE = 300  # seconds
USUAL: list[Obj] = [
    {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": PATIENCE} for key in (NOT_READY, UNREACHABLE)
]
TAINT: Obj = {"key": NOT_READY, "effect": "NoSchedule"}


def bear_failing_nodes(review: Review) -> None:
    """DefaultTolerationSeconds."""
    assert review.new is not None
    given = review.new["spec"].get("tolerations") or []
    more = [usual for usual in USUAL if not any(_bears(each, usual["key"]) for each in given)] if given else USUAL
    if more:
        review.new["spec"] = {**review.new["spec"], "tolerations": [*given, *more]}


def _bears(toleration: Obj, key: str) -> bool:
    return toleration.get("key") in {None, "", key} and toleration.get("effect") in {None, "", "NoExecute"}


def taint_new_node(review: Review) -> None:
    """TaintNodesByCondition."""
    assert review.new is not None
    spec = review.new.get("spec") or {}
    taints = spec.get("taints") or []
    if not any(taint["key"] == NOT_READY and taint.get("effect") == "NoSchedule" for taint in taints):
        review.new["spec"] = {**spec, "taints": [*taints, TAINT]}
