"""How the options of a request are spelt on the wire: a query, and for a deletion a body."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_kscen.kube.requests import Options
    from pytest_kscen.objects.resources import Obj

_QUERY = {
    "labels": "labelSelector",
    "fields": "fieldSelector",
    "limit": "limit",
    "continue_token": "continue",
    "resource_version": "resourceVersion",
    "resource_version_match": "resourceVersionMatch",
    "timeout": "timeoutSeconds",
    "bookmarks": "allowWatchBookmarks",
    "send_initial_events": "sendInitialEvents",
    "dry_run": "dryRun",
    "field_manager": "fieldManager",
    "field_validation": "fieldValidation",
    "force": "force",
}
_DELETION = {
    "grace_period": "gracePeriodSeconds",
    "propagation": "propagationPolicy",
    "orphan_dependents": "orphanDependents",
}
_PRECONDITIONS = {"precondition_uid": "uid", "precondition_version": "resourceVersion"}


def query_of(options: Options) -> list[tuple[str, str]]:
    """What is set, in a stable order."""
    pairs = [(word, _text(field, getattr(options, field))) for field, word in _QUERY.items() if _is_set(options, field)]
    return pairs + list(options.extra)


def deletion_of(options: Options) -> Obj | None:
    """DeleteOptions, if there is anything to say in them."""
    body = {word: getattr(options, field) for field, word in _DELETION.items() if _is_set(options, field)}
    preconditions = {word: getattr(options, field) for field, word in _PRECONDITIONS.items() if _is_set(options, field)}
    if preconditions:
        body["preconditions"] = preconditions
    return {"kind": "DeleteOptions", "apiVersion": "v1", **body} if body else None


def _is_set(options: Options, field: str) -> bool:
    value = getattr(options, field)
    return value is not None and value != type(options).__dataclass_fields__[field].default


def _text(field: str, value: Any) -> str:
    if field == "dry_run":
        return "All"
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(math.ceil(value)) if isinstance(value, float) else str(value)
