"""Kinds that every Kubernetes server has: the recorded resources joined with schemas, rules and
conversions.

Called once per process by whatever starts an embedded server.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from pytest_kscen.embedded.apiserver.conversions import CONVERSIONS
from pytest_kscen.embedded.apiserver.crds.rules import DEFINITION_RULES
from pytest_kscen.embedded.apiserver.kinds import Kind, Rules, Subresource
from pytest_kscen.embedded.apiserver.recorded import resources
from pytest_kscen.embedded.apiserver.rules import RULES as KIND_RULES
from pytest_kscen.embedded.apiserver.schema.builtin import BuiltinSchema
from pytest_kscen.objects.resources import Resource

if TYPE_CHECKING:
    from collections.abc import Iterable

NO_RULES = Rules()
KIND_RULES_BY_RESOURCE = {**KIND_RULES, **DEFINITION_RULES}


@cache
def builtin_kinds() -> Iterable[Kind]:
    """Return all built-in kinds in the order of discovery. The objects are shared by all clusters
    of this process.
    """
    kinds = []
    for path, row in resources().items():
        group, version, plural = path.split("/")
        kind = Kind(
            Resource(group, version, plural, row["kind"], namespaced=row["namespaced"]),
            singular=row["singular"],
            short_names=tuple(row.get("shortNames", ())),
            categories=tuple(row.get("categories", ())),
            verbs=tuple(row["verbs"]),
            subresources={
                name: Subresource(
                    tuple(part["verbs"]), part.get("kind", ""), part.get("apiVersion", "")
                )
                for name, part in row.get("subresources", {}).items()
            },
            schema=BuiltinSchema(group, version, row["kind"]),
            rules=KIND_RULES_BY_RESOURCE.get((group, plural), NO_RULES),
            conversion=CONVERSIONS.get((group, version, plural)),
        )
        kinds.append(kind)
    return tuple(kinds)
