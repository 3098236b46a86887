"""Rules of validating and mutating admission policies and of their bindings.

The expressions are not compiled here; admission compiles them when a policy is first used. Parts
that webhook configurations have too come from `webhooks`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pytest_kscen.embedded.apiserver.kinds import Rules, SubresourceRules, prepare_status
from pytest_kscen.embedded.apiserver.rules import checks
from pytest_kscen.embedded.apiserver.rules.fields import clear_status, keep_status, set_defaults
from pytest_kscen.embedded.apiserver.rules.webhooks import (
    ADMISSION_GROUP,
    FAILURE_POLICIES,
    MATCH_POLICIES,
    REINVOCATION_POLICIES,
    SELECTORS,
    default_rule_scopes,
    validate_match_conditions,
    validate_rule,
)
from pytest_kscen.objects import names
from pytest_kscen.objects.errors import Cause

if TYPE_CHECKING:
    from pytest_kscen.embedded.apiserver.rules.checks import Causes
    from pytest_kscen.objects.resources import Obj

VALIDATIONS_NEEDED = "validations or auditAnnotations must contain at least one item"
STATUS_REASONS = ("Forbidden", "Invalid", "RequestEntityTooLarge")
VALIDATION_ACTIONS = ("Audit", "Deny", "Warn")
_IDENTIFIER = re.compile("[_a-zA-Z][_a-zA-Z0-9]*")


def default_policy(obj: Obj) -> None:
    set_defaults(obj["spec"], {"failurePolicy": "Fail"})
    _default_match_resources(obj["spec"].get("matchConstraints"))


def default_policy_binding(obj: Obj) -> None:
    _default_match_resources(obj["spec"].get("matchResources"))


def _default_match_resources(given: Obj | None) -> None:
    if given is not None:
        set_defaults(given, {"matchPolicy": "Equivalent"})
        for selector in SELECTORS:
            if selector not in given:
                given[selector] = {}
        for kind in ("resourceRules", "excludeResourceRules"):
            default_rule_scopes(given.get(kind))


def validate_policy(obj: Obj) -> Causes:
    spec = obj["spec"]
    yield from _validate_policy_spec(spec)
    given, notes = spec.get("validations") or (), spec.get("auditAnnotations") or ()
    if not given and not notes:
        for field in ("validations", "auditAnnotations"):
            yield Cause.required(f"spec.{field}", VALIDATIONS_NEEDED)
    for index, check in enumerate(given):
        yield from _validate_validation(f"spec.validations[{index}]", check)
    keys = [note.get("key", "") for note in notes]
    for index, note in enumerate(notes):
        key = f"{obj['metadata']['name']}/{keys[index]}"
        yield from checks.validate_name(f"spec.auditAnnotations[{index}].key", key, names.label_key)
        if not note.get("valueExpression", "").strip():
            yield Cause.required(
                f"spec.auditAnnotations[{index}].valueExpression",
                "valueExpression is not specified",
            )
        if keys[index] in keys[:index]:
            yield Cause.duplicate(f"spec.auditAnnotations[{index}].key", keys[index])


def validate_mutating_policy(obj: Obj) -> Causes:
    spec = obj["spec"]
    yield from _validate_policy_spec(spec)
    if not spec.get("mutations"):
        yield Cause.required("spec.mutations", "mutations must contain at least one item")
    for index, mutation in enumerate(spec.get("mutations") or ()):
        path = f"spec.mutations[{index}]"
        kind = mutation.get("patchType", "")
        fields = {"JSONPatch": "jsonPatch", "ApplyConfiguration": "applyConfiguration"}
        yield from checks.validate_required_enum(
            f"{path}.patchType", kind, ("ApplyConfiguration", "JSONPatch")
        )
        if kind in fields:
            wanted = fields[kind]
            other = next(field for field in fields.values() if field != wanted)
            if wanted not in mutation:
                yield Cause.required(
                    f"{path}.{wanted}", f"must be specified when patchType is {kind}"
                )
            elif not mutation[wanted].get("expression", "").strip():
                yield Cause.required(f"{path}.{wanted}.expression")
            if other in mutation:
                yield Cause.invalid(
                    f"{path}.{other}",
                    f"{{{other}}}",
                    f"must not be specified when patchType is {kind}",
                )
    yield from checks.validate_required_enum(
        "spec.reinvocationPolicy", spec.get("reinvocationPolicy"), REINVOCATION_POLICIES
    )


def _validate_param_kind(path: str, given: Obj) -> Causes:
    stated, kind = given.get("apiVersion", ""), given.get("kind", "")
    group, _, version = stated.rpartition("/")
    if not stated:
        yield Cause.required(f"{path}.apiVersion")
    elif "/" in group:
        yield Cause.invalid(
            f"{path}.apiVersion", stated, f"unexpected GroupVersion string: {stated}"
        )
    else:
        for part, wrong in (
            (group, group and names.dns1123_subdomain(group)),
            (version, names.dns1035_label(version)),
        ):
            if wrong:
                yield Cause.invalid(f"{path}.apiVersion", part, ",".join(wrong))
    if not kind:
        yield Cause.required(f"{path}.kind")
    elif wrong := names.dns1035_label(kind.lower()):
        detail = f"may have mixed case, but should otherwise match: {','.join(wrong)}"
        yield Cause.invalid(f"{path}.kind", kind, detail)


def _validate_policy_spec(spec: Obj) -> Causes:
    yield from checks.validate_enum("spec.failurePolicy", spec["failurePolicy"], FAILURE_POLICIES)
    if "paramKind" in spec:
        yield from _validate_param_kind("spec.paramKind", spec["paramKind"])
    matching = spec.get("matchConstraints")
    if matching is None:
        yield Cause.required("spec.matchConstraints")
    else:
        yield from _validate_match_resources("spec.matchConstraints", matching)
        if not matching.get("resourceRules"):
            yield Cause.required("spec.matchConstraints.resourceRules")
    yield from validate_match_conditions("spec.matchConditions", spec.get("matchConditions") or ())
    for index, variable in enumerate(spec.get("variables") or ()):
        path, name = f"spec.variables[{index}]", variable.get("name", "")
        if not name.strip():
            yield Cause.required(f"{path}.name", "name is not specified")
        elif not _IDENTIFIER.fullmatch(name):
            yield Cause.invalid(f"{path}.name", name, "must be a valid CEL identifier")
        if not variable.get("expression", "").strip():
            yield Cause.required(f"{path}.expression", "expression is not specified")


def _validate_match_resources(path: str, given: Obj) -> Causes:
    yield from checks.validate_enum(f"{path}.matchPolicy", given["matchPolicy"], MATCH_POLICIES)
    for selector in SELECTORS:
        yield from checks.validate_label_selector(f"{path}.{selector}", given.get(selector))
    for kind in ("resourceRules", "excludeResourceRules"):
        for index, rule in enumerate(given.get(kind) or ()):
            here = f"{path}.{kind}[{index}]"
            for number, name in enumerate(rule.get("resourceNames") or ()):
                yield from checks.validate_name(
                    f"{here}.resourceNames[{number}]", name, names.path_segment
                )
            yield from checks.validate_unique(
                f"{here}.resourceNames", rule.get("resourceNames") or ()
            )
            yield from validate_rule(here, rule)


def _validate_validation(path: str, given: Obj) -> Causes:
    message = given.get("message", "")
    if not given.get("expression", "").strip():
        yield Cause.required(f"{path}.expression", "expression is not specified")
    if given.get("messageExpression") and not given["messageExpression"].strip():
        yield Cause.invalid(
            f"{path}.messageExpression",
            given["messageExpression"],
            "must be non-empty if specified",
        )
    if message and not message.strip():
        yield Cause.invalid(f"{path}.message", message, "must be non-empty if specified")
    elif "\n" in message.strip() or "\r" in message.strip():
        yield Cause.invalid(f"{path}.message", message, "must not contain line breaks")
    if "reason" in given:
        yield from checks.validate_enum(f"{path}.reason", given["reason"], STATUS_REASONS)


def validate_policy_binding(obj: Obj) -> Causes:
    yield from _validate_binding_spec(obj["spec"])
    actions = obj["spec"].get("validationActions") or []
    for index, action in enumerate(actions):
        yield from checks.validate_enum(
            f"spec.validationActions[{index}]", action, VALIDATION_ACTIONS
        )
    yield from checks.validate_unique("spec.validationActions", actions)
    if {"Deny", "Warn"} <= set(actions):
        detail = (
            "(repeating the same validation failure information in the API response and "
            "headers serves no purpose)"
        )
        yield Cause.invalid(
            "spec.validationActions", actions, f"must not contain both Deny and Warn {detail}"
        )
    if not actions:
        yield Cause.required("spec.validationActions", "at least one validation action is required")


def validate_mutating_binding(obj: Obj) -> Causes:
    return _validate_binding_spec(obj["spec"])


def _validate_binding_spec(spec: Obj) -> Causes:
    yield from checks.validate_required_name(
        "spec.policyName", spec.get("policyName"), names.dns1123_subdomain
    )
    if "paramRef" in spec:
        path = "spec.paramRef"
        given = spec["paramRef"]
        name, selector, absent = (
            given.get("name", ""),
            given.get("selector"),
            given.get("parameterNotFoundAction"),
        )
        if name:
            yield from checks.validate_name(f"{path}.name", name, names.path_segment)
        if name and selector is not None:
            yield Cause.forbidden(f"{path}.name", "name and selector are mutually exclusive")
        yield from checks.validate_label_selector(f"{path}.selector", selector)
        if name and selector is not None:
            yield Cause.forbidden(f"{path}.selector", "name and selector are mutually exclusive")
        if not name and selector is None:
            yield Cause.required(path, "one of name or selector must be specified")
        yield from checks.validate_required_enum(
            f"{path}.parameterNotFoundAction", absent, ("Deny", "Allow")
        )
    if "matchResources" in spec:
        yield from _validate_match_resources("spec.matchResources", spec["matchResources"])


RULES = {
    (ADMISSION_GROUP, "validatingadmissionpolicies"): Rules(
        default=default_policy,
        prepare_create=clear_status,
        prepare_update=keep_status,
        validate=validate_policy,
        validate_update=lambda new, _: validate_policy(new),
        parts={
            "status": SubresourceRules(
                prepare_status,
                lambda new, _: checks.validate_conditions(
                    "status.conditions", (new.get("status") or {}).get("conditions")
                ),
            )
        },
        unconditional_update=False,
    ),
    (ADMISSION_GROUP, "validatingadmissionpolicybindings"): Rules(
        default=default_policy_binding,
        validate=validate_policy_binding,
        validate_update=lambda new, _: validate_policy_binding(new),
        unconditional_update=False,
    ),
    (ADMISSION_GROUP, "mutatingadmissionpolicies"): Rules(
        default=default_policy,
        validate=validate_mutating_policy,
        validate_update=lambda new, _: validate_mutating_policy(new),
        unconditional_update=False,
    ),
    (ADMISSION_GROUP, "mutatingadmissionpolicybindings"): Rules(
        default=default_policy_binding,
        validate=validate_mutating_binding,
        validate_update=lambda new, _: validate_mutating_binding(new),
        unconditional_update=False,
    ),
}
