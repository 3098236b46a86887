"""Columns of what limits, ranks, scales and hands out devices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.machinery.wire.tables.autoscaling import targets
from pytest_kscen.machinery.wire.tables.columns import AGE, NAME, UNSET, Column, boolean, flag, integer, number, text, whole
from pytest_kscen.objects.selectors import field_at

if TYPE_CHECKING:
    from pytest_kscen.objects.resources import Obj


def _claim_state(claim: Obj) -> str:
    deleted = bool(claim["metadata"].get("deletionTimestamp"))
    if not field_at(claim, "status.allocation"):
        return "deleted" if deleted else "pending"
    reserved = bool(field_at(claim, "status.reservedFor"))
    return "deleted," * deleted + "allocated" + ",reserved" * reserved


def _amount(budget: Obj, path: str) -> str:
    found = field_at(budget, path)
    return "N/A" if found is None else str(found)


TABLES = {
    ("policy", "poddisruptionbudgets"): (
        NAME,
        Column("Min Available", whole(lambda budget: _amount(budget, "spec.minAvailable"))),
        Column("Max Unavailable", whole(lambda budget: _amount(budget, "spec.maxUnavailable"))),
        integer("Allowed Disruptions", number("status.disruptionsAllowed")),
        AGE,
    ),
    ("scheduling.k8s.io", "priorityclasses"): (
        NAME,
        integer("Value", number("value")),
        boolean("Global-Default", flag("globalDefault")),
        AGE,
        Column("PreemptionPolicy", text("preemptionPolicy")),
    ),
    ("autoscaling", "horizontalpodautoscalers"): (
        NAME,
        Column("Reference", whole(lambda scaler: "{kind}/{name}".format(**scaler["spec"]["scaleTargetRef"]))),
        Column("Targets", whole(targets)),
        Column("MinPods", whole(lambda scaler: str(scaler["spec"].get("minReplicas", UNSET)))),
        Column("MaxPods", number("spec.maxReplicas")),
        Column("Replicas", number("status.currentReplicas")),
        AGE,
    ),
    ("resource.k8s.io", "deviceclasses"): (NAME, AGE),
    ("resource.k8s.io", "resourceclaims"): (NAME, Column("State", whole(_claim_state)), AGE),
    ("resource.k8s.io", "resourceclaimtemplates"): (NAME, AGE),
    ("resource.k8s.io", "resourceslices"): (
        NAME,
        Column("Node", text("spec.nodeName")),
        Column("Driver", text("spec.driver")),
        Column("Pool", text("spec.pool.name")),
        AGE,
    ),
}
