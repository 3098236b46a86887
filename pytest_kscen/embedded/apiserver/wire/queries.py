"""Options of a request, from the query string or a DeleteOptions body, with their validation.

Each kind of options has its rules; all errors are reported at once, as in Kubernetes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from pytest_kscen.embedded.apiserver.schema.compiling import decoder_of, prune_unknown_fields
from pytest_kscen.embedded.apiserver.schema.decode_errors import DecodeError, UnknownField
from pytest_kscen.kube.api import APPLY_PATCH, DEFAULTS, Options
from pytest_kscen.objects.errors import BadRequest, Cause, invalid
from pytest_kscen.objects.resources import Resource

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    Rule = Callable[[dict[str, Any]], Iterable[Cause]]


MANAGER_LIMIT = 128
POLICIES = ("Foreground", "Background", "Orphan")
VALIDATIONS = ("", "Ignore", "Strict", "Warn")
MATCH = "resourceVersionMatch"


def validate_options(kind: str, facts: dict[str, Any]) -> None:
    """Refuse options that violate the rules of their kind, with all errors.

    `facts` holds what the rules need: the options, and raw values that Options cannot express.
    """
    if causes := [cause for rule in RULES[kind] for cause in rule(facts)]:
        raise invalid(Resource("meta.k8s.io", "v1", "", kind), "", causes)


def _dry_run_errors(facts: dict[str, Any]) -> Iterator[Cause]:
    given = facts["dry_run"]
    if any(value != "All" for value in given):
        yield Cause.unsupported("dryRun", given, ["All"])


def _manager_errors(facts: dict[str, Any]) -> Iterator[Cause]:
    manager = facts["options"].field_manager
    if len(manager.encode()) > MANAGER_LIMIT:
        yield Cause.too_long("fieldManager", MANAGER_LIMIT)
    for position, letter in enumerate(manager):
        if not letter.isprintable():
            yield Cause.invalid(
                "fieldManager",
                manager,
                f"invalid character U+{ord(letter):04X} (at position {position})",
            )


def _validation_errors(facts: dict[str, Any]) -> Iterator[Cause]:
    value = facts["options"].field_validation
    if value not in VALIDATIONS:
        yield Cause.unsupported("fieldValidation", value, VALIDATIONS)


def _apply_errors(facts: dict[str, Any]) -> Iterator[Cause]:
    if facts["patch_type"] == APPLY_PATCH:
        if not facts["options"].field_manager:
            yield Cause.required("fieldManager", "is required for apply patch")
    elif facts["force"] is not None:
        yield Cause.forbidden("force", "may not be specified for non-apply patch")


def _propagation_errors(facts: dict[str, Any]) -> Iterator[Cause]:
    policy = facts["given"].get("propagationPolicy")
    if policy is not None and facts["given"].get("orphanDependents") is not None:
        yield Cause.invalid(
            "propagationPolicy",
            policy,
            "orphanDependents and deletionPropagation cannot be both set",
        )
    if policy is not None and policy not in POLICIES:
        yield Cause.unsupported("propagationPolicy", policy, [*POLICIES, "nil"])


def _list_errors(facts: dict[str, Any]) -> Iterator[Cause]:
    options: Options = facts["options"]
    match = options.resource_version_match
    if facts["watch"]:
        yield from _watch_errors(options, match)
        return
    if match:
        if not options.resource_version:
            yield Cause.forbidden(MATCH, f"{MATCH} is forbidden unless resourceVersion is provided")
        if options.continue_token:
            yield Cause.forbidden(MATCH, f"{MATCH} is forbidden when continue is provided")
        if match not in ("Exact", "NotOlderThan"):
            yield Cause.unsupported(MATCH, match, ["Exact", "NotOlderThan", ""])
        if match == "Exact" and options.resource_version == "0":
            yield Cause.forbidden(MATCH, f'{MATCH} "exact" is forbidden for resourceVersion "0"')
    if options.send_initial_events is not None:
        yield Cause.forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list")


def _watch_errors(options: Options, match: str) -> Iterator[Cause]:
    initial = options.send_initial_events
    if initial is None and not match and options.resource_version in ("", "0"):
        initial, match = True, "NotOlderThan"  # the meaning of such a watch
    if initial is not None and match != "NotOlderThan":
        yield Cause.forbidden(
            MATCH, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        )
    if not match:
        return
    if initial is None:
        yield Cause.forbidden(
            MATCH, f"{MATCH} is forbidden for watch unless sendInitialEvents is provided"
        )
    if match != "NotOlderThan":
        yield Cause.unsupported(MATCH, match, ["NotOlderThan"])
    if options.continue_token:
        yield Cause.forbidden(MATCH, f"{MATCH} is forbidden when continue is provided")


RULES: dict[str, tuple[Rule, ...]] = {
    "ListOptions": (_list_errors,),
    "CreateOptions": (_manager_errors, _dry_run_errors, _validation_errors),
    "UpdateOptions": (_manager_errors, _dry_run_errors, _validation_errors),
    "PatchOptions": (_apply_errors, _manager_errors, _dry_run_errors, _validation_errors),
    "DeleteOptions": (_propagation_errors, _dry_run_errors),
}


INT64 = 2**63
DELETE_OPTIONS = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"
LOG_OPTIONS = (
    "container", "follow", "previous", "sinceSeconds", "sinceTime", "timestamps", "tailLines",
    "limitBytes", "stream",
)  # fmt: skip


class Query:
    """Parameters of a URL; of duplicates the first counts, except in lists.

    Values are read as Go does; a number that does not parse raises BadRequest.
    """

    def __init__(self, text: str) -> None:
        self._all: dict[str, list[str]] = {}
        for name, value in parse_qsl(text, keep_blank_values=True):
            self._all.setdefault(name, []).append(value)

    def text(self, name: str) -> str:
        return self._all[name][0] if name in self._all else ""

    def texts(self, name: str) -> list[str]:
        return self._all.get(name, [])

    def flag(self, name: str) -> bool | None:
        """Return a flag as Go reads it: false for `false` and `0`; None if it is missing."""
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
    """Return the options of a list or watch; `name` is the object of an old-style watch."""
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
    validate_options("ListOptions", {"watch": watch, "options": options})
    return options


def get_options(query: Query) -> Options:
    """Return the options of a get: a resourceVersion, or the parameters of a log."""
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
    validate_options(
        name, {"options": options, "dry_run": dry_run, "force": force, "patch_type": patch_type}
    )
    return options


def delete_options(query: Query, body: Any) -> Options:
    """Return the options of a delete, from the body if there is one, else from the query."""
    given: dict[str, Any] = (
        {
            "dryRun": query.texts("dryRun"),
            "gracePeriodSeconds": query.whole("gracePeriodSeconds"),
            "propagationPolicy": next(iter(query.texts("propagationPolicy")), None),
            "orphanDependents": query.flag("orphanDependents"),
            "preconditions": {
                "uid": query.text("uid"),
                "resourceVersion": query.text("resourceVersion"),
            },
        }
        if body is None
        else _from_body(body)
    )
    preconditions = given.get("preconditions") or {}
    options = Options(
        dry_run=bool(given.get("dryRun")),
        grace_period=given.get("gracePeriodSeconds"),
        propagation=given.get("propagationPolicy") or "",
        orphan_dependents=given.get("orphanDependents"),
        precondition_uid=preconditions.get("uid") or "",
        precondition_version=preconditions.get("resourceVersion") or "",
    )
    validate_options("DeleteOptions", {"given": given, "dry_run": given.get("dryRun") or []})
    return options


def with_selection(options: Options, query: Query) -> Options:
    """Add a list's selection to the options of a deletecollection."""
    chosen = list_options(query, watch=bool(query.flag("watch")))
    if chosen is DEFAULTS:
        return options
    names = (
        "labels",
        "fields",
        "limit",
        "continue_token",
        "resource_version",
        "resource_version_match",
    )
    return replace(options, **{name: getattr(chosen, name) for name in names})


def _from_body(body: dict[str, Any]) -> dict[str, Any]:
    stated = body.get("kind") or "DeleteOptions"
    if stated != "DeleteOptions":
        version = body.get("apiVersion") or "meta.k8s.io/v1"
        raise BadRequest(
            f'no kind "{stated}" is registered for version "{version}" in scheme '
            '"pkg/runtime/scheme.go:111"'
        )
    decode_options = decoder_of(DELETE_OPTIONS)
    try:
        try:
            decoded: dict[str, Any] = decode_options(body, None)
        except UnknownField:
            decoded = decode_options(prune_unknown_fields(body, DELETE_OPTIONS, []), None)
    except DecodeError as mismatch:
        raise BadRequest(str(mismatch)) from None
    return decoded


def json_type(value: Any) -> str:
    names = {
        bool: "bool",
        int: "number",
        float: "number",
        str: "string",
        list: "array",
        dict: "object",
    }
    return names.get(type(value), "null")
