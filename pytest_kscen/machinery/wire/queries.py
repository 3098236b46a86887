"""A query string, or a DeleteOptions body, as Options; wrong values are refused in Kubernetes' words."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from urllib.parse import parse_qsl

from pytest_kscen.kube.requests import APPLY_PATCH, DEFAULTS, Options
from pytest_kscen.machinery.schema.compiling import walk_of
from pytest_kscen.machinery.schema.mismatch import Stranger, Unfit
from pytest_kscen.machinery.schema.strangers import without_strangers
from pytest_kscen.machinery.wire.judging import judge
from pytest_kscen.objects.errors import BadRequest

INT64 = 2**63
DELETE_OPTIONS = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"
LOG_OPTIONS = (
    "container", "follow", "previous", "sinceSeconds", "sinceTime", "timestamps", "tailLines", "limitBytes", "stream",
)  # fmt: skip


class Query:
    """The parameters of a URL; what is given twice counts once, save for lists."""

    def __init__(self, text: str) -> None:
        self._all: dict[str, list[str]] = {}
        for name, value in parse_qsl(text, keep_blank_values=True):
            self._all.setdefault(name, []).append(value)

    def text(self, name: str) -> str:
        return self._all[name][0] if name in self._all else ""

    def texts(self, name: str) -> list[str]:
        return self._all.get(name, [])

    def flag(self, name: str) -> bool | None:
        """Go's reading: all is true but false and 0; None if it is not there."""
        return self._all[name][0].lower() not in ("false", "0") if name in self._all else None

    def whole(self, name: str) -> int | None:
        return parse_int(self._all[name][0]) if name in self._all else None

    def __bool__(self) -> bool:
        return bool(self._all)


NO_QUERY = Query("")


def parse_int(text: str) -> int:
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not (digits.isascii() and digits.isdigit()):
        raise BadRequest(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    number = int(text)
    if not -INT64 <= number < INT64:
        raise BadRequest(f'strconv.ParseInt: parsing "{text}": value out of range')
    return number


def list_options(query: Query, *, watch: bool, name: str = "") -> Options:
    """The name is that of the one object which an old-style watch is about."""
    if not query and not name:
        return DEFAULTS
    timeout = query.whole("timeoutSeconds")
    options = Options(
        labels=query.text("labelSelector"),
        fields=f"metadata.name={name}" if name else query.text("fieldSelector"),
        limit=query.whole("limit") or 0,
        continue_token=query.text("continue"),
        resource_version=query.text("resourceVersion"),
        resource_version_match=query.text("resourceVersionMatch"),
        timeout=float(timeout) if timeout and timeout > 0 else None,
        bookmarks=bool(query.flag("allowWatchBookmarks")),
        send_initial_events=query.flag("sendInitialEvents"),
    )
    judge("ListOptions", {"watch": watch, "options": options})
    return options


def get_options(query: Query) -> Options:
    """A get has a version, and a log what it wants of the log."""
    if not query:
        return DEFAULTS
    extra = tuple((name, query.text(name)) for name in LOG_OPTIONS if query.texts(name))
    return Options(resource_version=query.text("resourceVersion"), extra=extra)


def write_options(query: Query, verb: str, patch_type: str = "") -> Options:
    if not query and patch_type != APPLY_PATCH:
        return DEFAULTS
    force = query.flag("force") if verb == "patch" else None
    dry_run = query.texts("dryRun")
    options = Options(
        dry_run=bool(dry_run),
        field_manager=query.text("fieldManager"),
        field_validation=query.text("fieldValidation") or "Warn",
        force=bool(force),
    )
    name = {"create": "CreateOptions", "update": "UpdateOptions"}.get(verb, "PatchOptions")
    judge(name, {"options": options, "dry_run": dry_run, "force": force, "patch_type": patch_type})
    return options


def delete_options(query: Query, body: Any) -> Options:
    """From the body if there is one, else from the query."""
    given = _from_body(body) if body is not None else _from_query(query)
    preconditions = given.get("preconditions") or {}
    options = Options(
        dry_run=bool(given.get("dryRun")),
        grace_period=given.get("gracePeriodSeconds"),
        propagation=given.get("propagationPolicy") or "",
        orphan_dependents=given.get("orphanDependents"),
        precondition_uid=preconditions.get("uid") or "",
        precondition_version=preconditions.get("resourceVersion") or "",
    )
    judge("DeleteOptions", {"given": given, "dry_run": given.get("dryRun") or []})
    return options


def with_selection(options: Options, query: Query) -> Options:
    """A deletecollection says what to delete as a list does."""
    chosen = list_options(query, watch=bool(query.flag("watch")))
    if chosen is DEFAULTS:
        return options
    names = ("labels", "fields", "limit", "continue_token", "resource_version", "resource_version_match")
    return replace(options, **{name: getattr(chosen, name) for name in names})


def _from_query(query: Query) -> dict[str, Any]:
    return {
        "dryRun": query.texts("dryRun"),
        "gracePeriodSeconds": query.whole("gracePeriodSeconds"),
        "propagationPolicy": query.text("propagationPolicy") if query.texts("propagationPolicy") else None,
        "orphanDependents": query.flag("orphanDependents"),
        "preconditions": {"uid": query.text("uid"), "resourceVersion": query.text("resourceVersion")},
    }


def _from_body(body: dict[str, Any]) -> dict[str, Any]:
    stated = body.get("kind") or "DeleteOptions"
    if stated != "DeleteOptions":
        version = body.get("apiVersion") or "meta.k8s.io/v1"
        raise BadRequest(f'no kind "{stated}" is registered for version "{version}" in scheme "pkg/runtime/scheme.go:111"')
    walk = walk_of(DELETE_OPTIONS)
    try:
        try:
            decoded: dict[str, Any] = walk(body, None)
        except Stranger:
            decoded = walk(without_strangers(body, DELETE_OPTIONS, []), None)
    except Unfit as misfit:
        raise BadRequest(str(misfit)) from None
    return decoded


def json_type(value: Any) -> str:
    """What Go calls a JSON value's type."""
    names = {bool: "bool", int: "number", float: "number", str: "string", list: "array", dict: "object"}
    return names.get(type(value), "null")
