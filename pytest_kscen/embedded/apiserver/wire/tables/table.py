"""A Table: its columns, and a row for each object, which tells as much of the object as the
client wants.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_kscen.embedded.apiserver.wire.tables import (
    cluster,
    networking,
    policies,
    storage,
    workloads,
)
from pytest_kscen.embedded.apiserver.wire.tables import cluster as access
from pytest_kscen.embedded.apiserver.wire.tables import workloads as pods
from pytest_kscen.embedded.apiserver.wire.tables.columns import PLAIN_COLUMNS
from pytest_kscen.objects.errors import BadRequest

if TYPE_CHECKING:
    from pytest_kscen.embedded.apiserver.wire.tables.columns import Column
    from pytest_kscen.objects.resources import Obj, Resource

BUILT_IN: dict[tuple[str, str], tuple[Column, ...]] = {
    ("", "pods"): pods.POD_COLUMNS,
    **workloads.WORKLOAD_TABLES,
    **cluster.CLUSTER_TABLES,
    **networking.TABLES,
    **storage.TABLES,
    **policies.TABLES,
    **access.ACCESS_TABLES,
}
TEMPLATE_GENERATION = (
    "deprecated.daemonset.template.generation"  # of no concern to who does not ask for a DaemonSet
)
INCLUDED = ("", "Metadata", "Object", "None")


def columns_of(resource: Resource) -> tuple[Column, ...]:
    """A built-in kind's columns; its name and its birth if it has none of its own."""
    return BUILT_IN.get((resource.group, resource.plural), PLAIN_COLUMNS)


def partial(obj: Obj, version: str = "v1") -> Obj:
    """An object's metadata and nothing else."""
    metadata = obj.get("metadata") or {}
    if TEMPLATE_GENERATION in (metadata.get("annotations") or {}):
        left = {
            name: value
            for name, value in metadata["annotations"].items()
            if name != TEMPLATE_GENERATION
        }
        rest = {name: part for name, part in metadata.items() if name != "annotations"}
        metadata = {**rest, "annotations": left} if left else rest
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": metadata,
    }


def _version_of(obj: Obj) -> Obj:
    version = obj["metadata"].get("resourceVersion")
    return {"resourceVersion": version} if version else {}


@dataclass(frozen=True, slots=True)
class Printer:
    """Makes the tables of one answer."""

    columns: tuple[Column, ...]
    now: float
    included: str = ""
    version: str = "v1"

    def __post_init__(self) -> None:
        if self.included not in INCLUDED:
            why = (
                f"includeObject: Invalid value: \"{self.included}\": must be 'Metadata', "
                "'Object', 'None', or empty"
            )
            raise BadRequest(f"Unable to convert to Table as requested: {why}")

    def of_list(self, listing: Obj) -> Obj:
        rows = [self._row(item) for item in listing["items"]]
        return self._table(
            listing["metadata"], rows, [column.definition() for column in self.columns]
        )

    def of_one(self, obj: Obj) -> Obj:
        return self._table(
            _version_of(obj), [self._row(obj)], [column.definition() for column in self.columns]
        )

    def of_event(self, type_: str, obj: Obj, *, first: bool) -> Obj:
        """A table of one row, of which only a watch's first is headed.

        A bookmark's cells say nothing.
        """
        definitions = [column.definition() for column in self.columns] if first else None
        if type_ != "BOOKMARK":
            return self._table(_version_of(obj), [self._row(obj)], definitions)
        row = {"cells": [""] * len(self.columns), "object": partial(obj, self.version)}
        return self._table(_version_of(obj), [row], definitions)

    def _table(self, metadata: Obj, rows: list[Obj], definitions: list[Obj] | None) -> Obj:
        return {
            "kind": "Table",
            "apiVersion": f"meta.k8s.io/{self.version}",
            "metadata": metadata,
            "columnDefinitions": definitions,
            "rows": rows,
        }

    def _row(self, obj: Obj) -> Obj:
        row: dict[str, Any] = {"cells": [column.cell(obj, self.now) for column in self.columns]}
        if self.columns is pods.POD_COLUMNS and (conditions := pods.pod_row_conditions(obj)):
            row["conditions"] = conditions
        if self.included == "Object":
            row["object"] = obj
        elif self.included != "None":
            row["object"] = partial(obj, self.version)
        return row
