"""Whether a request's options make sense; each options kind has its rules, and all that is wrong is said at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kscen.kube.requests import APPLY_PATCH
from pytest_kscen.objects.errors import Cause, invalid
from pytest_kscen.objects.resources import Resource

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pytest_kscen.kube.requests import Options

    Rule = Callable[[dict[str, Any]], Iterable[Cause]]

LONGEST_MANAGER = 128
POLICIES = ("Foreground", "Background", "Orphan")
VALIDATIONS = ("", "Ignore", "Strict", "Warn")
MATCH = "resourceVersionMatch"


def judge(kind: str, facts: dict[str, Any]) -> None:
    """Refuse options that make no sense."""
    if causes := [cause for rule in RULES[kind] for cause in rule(facts)]:
        raise invalid(Resource("meta.k8s.io", "v1", "", kind), "", causes)


def _dry_run(facts: dict[str, Any]) -> Iterator[Cause]:
    given = facts["dry_run"]
    if any(value != "All" for value in given):
        yield Cause.unsupported("dryRun", given, ["All"])


def _manager(facts: dict[str, Any]) -> Iterator[Cause]:
    manager = facts["options"].field_manager
    if len(manager.encode()) > LONGEST_MANAGER:
        yield Cause.too_long("fieldManager", LONGEST_MANAGER)
    for position, letter in enumerate(manager):
        if not letter.isprintable():
            yield Cause.invalid("fieldManager", manager, f"invalid character U+{ord(letter):04X} (at position {position})")


def _validation(facts: dict[str, Any]) -> Iterator[Cause]:
    value = facts["options"].field_validation
    if value not in VALIDATIONS:
        yield Cause.unsupported("fieldValidation", value, VALIDATIONS)


def _apply(facts: dict[str, Any]) -> Iterator[Cause]:
    if facts["patch_type"] == APPLY_PATCH:
        if not facts["options"].field_manager:
            yield Cause.required("fieldManager", "is required for apply patch")
    elif facts["force"] is not None:
        yield Cause.forbidden("force", "may not be specified for non-apply patch")


def _propagation(facts: dict[str, Any]) -> Iterator[Cause]:
    policy = facts["given"].get("propagationPolicy")
    if policy is not None and facts["given"].get("orphanDependents") is not None:
        yield Cause.invalid("propagationPolicy", policy, "orphanDependents and deletionPropagation cannot be both set")
    if policy is not None and policy not in POLICIES:
        yield Cause.unsupported("propagationPolicy", policy, [*POLICIES, "nil"])


def _list(facts: dict[str, Any]) -> Iterator[Cause]:
    options: Options = facts["options"]
    match = options.resource_version_match
    if facts["watch"]:
        yield from _watch(options, match)
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


def _watch(options: Options, match: str) -> Iterator[Cause]:
    initial = options.send_initial_events
    if initial is None and not match and options.resource_version in ("", "0"):
        initial, match = True, "NotOlderThan"  # what such a watch means
    if initial is not None and match != "NotOlderThan":
        yield Cause.forbidden(MATCH, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan")
    if not match:
        return
    if initial is None:
        yield Cause.forbidden(MATCH, f"{MATCH} is forbidden for watch unless sendInitialEvents is provided")
    if match != "NotOlderThan":
        yield Cause.unsupported(MATCH, match, ["NotOlderThan"])
    if options.continue_token:
        yield Cause.forbidden(MATCH, f"{MATCH} is forbidden when continue is provided")


RULES: dict[str, tuple[Rule, ...]] = {
    "ListOptions": (_list,),
    "CreateOptions": (_manager, _dry_run, _validation),
    "UpdateOptions": (_manager, _dry_run, _validation),
    "PatchOptions": (_apply, _manager, _dry_run, _validation),
    "DeleteOptions": (_propagation, _dry_run),
}
