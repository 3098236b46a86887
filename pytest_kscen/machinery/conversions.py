"""Kinds that are two views of the same stored objects: Kubernetes keeps events once and serves them in two groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.machinery.autoscalers import OlderAutoscalers

if TYPE_CHECKING:
    from pytest_kscen.machinery.kinds import Conversion
    from pytest_kscen.objects.resources import Obj

NEWER = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
}
OLDER = {newer: older for older, newer in NEWER.items()}
REPORTING = ("reportingComponent", "reportingInstance")  # the older form shows them empty, the newer one does not


class NewerEvents:
    """events.k8s.io/v1, kept as core/v1."""

    home = ("", "events")

    def keep(self, obj: Obj) -> Obj:
        kept = {OLDER.get(name, name): value for name, value in obj.items()}
        return {**kept, "apiVersion": "v1", **{name: kept.get(name, "") for name in REPORTING}}

    def show(self, obj: Obj) -> Obj:
        shown = {NEWER.get(name, name): value for name, value in obj.items() if value or name not in REPORTING}
        return {**shown, "apiVersion": "events.k8s.io/v1"}


CONVERSIONS: dict[tuple[str, str, str], Conversion] = {
    ("events.k8s.io", "v1", "events"): NewerEvents(),
    ("autoscaling", "v1", "horizontalpodautoscalers"): OlderAutoscalers(),
}
