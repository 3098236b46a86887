"""Rules of FlowSchemas and PriorityLevelConfigurations.

Requests of the embedded server are never queued or rejected; only the objects are validated.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from pytest_kscen.embedded.apiserver.kinds import Rules, SubresourceRules, prepare_status
from pytest_kscen.embedded.apiserver.rules import checks
from pytest_kscen.embedded.apiserver.rules.checks import GO_FLOW_DISTINGUISHER, as_go_struct
from pytest_kscen.embedded.apiserver.rules.fields import clear_status, keep_status
from pytest_kscen.objects import names
from pytest_kscen.objects.errors import Cause

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kscen.embedded.apiserver.rules.checks import Causes
    from pytest_kscen.objects.resources import Obj

FLOW_CONTROL_GROUP = "flowcontrol.apiserver.k8s.io"
QUEUING_DEFAULTS = {"queues": 64, "handSize": 8, "queueLengthLimit": 50}
MAX_PRECEDENCE, DEFAULT_PRECEDENCE = 10_000, 1000
MAX_QUEUES, MAX_HASH_BITS = 10_000_000, 60
SUBJECT_FIELDS = {"ServiceAccount": "serviceAccount", "User": "user", "Group": "group"}
VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch")
_BAD_NAMESPACE = "each member of this list must be '*' or a DNS-1123 label; "


def default_flow_schema(obj: Obj) -> None:
    obj["spec"]["matchingPrecedence"] = obj["spec"].get("matchingPrecedence") or DEFAULT_PRECEDENCE


def validate_flow_schema(obj: Obj) -> Causes:
    spec, name = obj["spec"], obj["metadata"]["name"]
    value = spec["matchingPrecedence"]
    if value <= 0:
        yield Cause.invalid("spec.matchingPrecedence", value, "must be a positive value")
    if value > MAX_PRECEDENCE:
        yield Cause.invalid(
            "spec.matchingPrecedence", value, f"must not be greater than {MAX_PRECEDENCE}"
        )
    if value == 1 and name != "exempt":
        yield Cause.invalid(
            "spec.matchingPrecedence",
            value,
            "only the schema named 'exempt' may have matchingPrecedence 1",
        )
    method = spec.get("distinguisherMethod")
    if method is not None and method.get("type") not in {"ByNamespace", "ByUser"}:
        yield Cause.unsupported(
            "spec.distinguisherMethod.type",
            as_go_struct(GO_FLOW_DISTINGUISHER, method),
            ("ByNamespace", "ByUser"),
        )
    level = spec.get("priorityLevelConfiguration", {}).get("name")
    if level:
        yield from checks.validate_name(
            "spec.priorityLevelConfiguration.name", level, names.dns1123_subdomain
        )
    else:
        yield Cause.required(
            "spec.priorityLevelConfiguration.name", "must reference a priority level"
        )
    for index, rule in enumerate(spec.get("rules") or ()):
        yield from _validate_policy_rule(f"spec.rules[{index}]", rule)


def _validate_policy_rule(path: str, rule: Obj) -> Causes:
    if not rule.get("subjects"):
        yield Cause.required(f"{path}.subjects", "subjects must contain at least one value")
    for index, subject in enumerate(rule.get("subjects") or ()):
        yield from _validate_subject(f"{path}.subjects[{index}]", subject)
    if not rule.get("resourceRules") and not rule.get("nonResourceRules"):
        yield Cause.required(
            path, "at least one of resourceRules and nonResourceRules has to be non-empty"
        )
    for index, part in enumerate(rule.get("resourceRules") or ()):
        yield from _validate_resource_rule(f"{path}.resourceRules[{index}]", part)
    for index, part in enumerate(rule.get("nonResourceRules") or ()):
        rule_path = f"{path}.nonResourceRules[{index}]"
        yield from _validate_verbs(f"{rule_path}.verbs", part.get("verbs") or [])
        here, urls = f"{rule_path}.nonResourceURLs", part.get("nonResourceURLs") or []
        if not urls:
            yield Cause.required(here, "nonResourceURLs must contain at least one value")
        elif "*" in urls:
            yield from _validate_wildcard(here, urls, "non-resource URLs")
        else:
            for number, url in enumerate(urls):
                faults = {
                    "must not be empty": not url,
                    "must start with slash": not url.startswith("/"),
                    "must not contain white-space": " " in url,
                    "must not contain double slash": "//" in url,
                    "wildcard can only do suffix matching": "*" in url.removesuffix("/*"),
                }
                if fault := next((message for message, holds in faults.items() if holds), ""):
                    yield Cause.invalid(f"{here}[{number}]", url, fault)


def _validate_subject(path: str, subject: Obj) -> Causes:
    kind = subject.get("kind", "")
    if kind not in SUBJECT_FIELDS:
        yield Cause.unsupported(f"{path}.kind", kind, sorted(SUBJECT_FIELDS))
        return
    own = SUBJECT_FIELDS[kind]
    given = subject.get(own)
    if given is None:
        yield Cause.required(f"{path}.{own}", f"{own} is required when subject kind is '{kind}'")
    elif kind == "ServiceAccount":
        here = f"{path}.{own}"
        if given.get("name") != "*":
            yield from checks.validate_required_name(
                f"{here}.name", given.get("name"), names.dns1123_subdomain
            )
        if given.get("namespace"):
            yield from checks.validate_name(
                f"{here}.namespace", given["namespace"], names.dns1123_label
            )
        else:
            yield Cause.required(f"{here}.namespace", "must specify namespace for service account")
    elif not given.get("name"):
        yield Cause.required(f"{path}.{own}.name")
    for other, field in SUBJECT_FIELDS.items():
        if other != kind and field in subject:
            yield Cause.forbidden(
                f"{path}.{field}", f"{field} is forbidden when subject kind is not '{other}'"
            )


def _validate_verbs(path: str, verbs: Sequence[str]) -> Causes:
    if not verbs:
        yield Cause.required(path, "verbs must contain at least one value")
    elif "*" in verbs:
        yield from _validate_wildcard(path, verbs, "verbs")
    elif not set(verbs) <= set(VERBS):
        yield Cause.unsupported(path, verbs, VERBS)


def _validate_wildcard(path: str, values: Sequence[str], what: str) -> Causes:
    if "*" in values and len(values) > 1:
        yield Cause.invalid(path, values, f"if '*' is present, must not specify other {what}")


def _validate_resource_rule(path: str, rule: Obj) -> Causes:
    yield from _validate_verbs(f"{path}.verbs", rule.get("verbs") or [])
    for field, one, many in (
        ("apiGroups", "api group", "api groups"),
        ("resources", "resource", "resources"),
    ):
        if not rule.get(field):
            yield Cause.required(
                f"{path}.{field}", f"resource rules must supply at least one {one}"
            )
        else:
            yield from _validate_wildcard(f"{path}.{field}", rule[field], many)
    here, namespaces = f"{path}.namespaces", rule.get("namespaces") or []
    if not namespaces and not rule.get("clusterScope"):
        yield Cause.required(
            here, "resource rules that are not cluster scoped must supply at least one namespace"
        )
    elif "*" in namespaces:
        yield from _validate_wildcard(here, namespaces, "namespaces")
    else:
        for index, name in enumerate(namespaces):
            for message in names.dns1123_label(name):
                yield Cause.invalid(f"{here}[{index}]", name, _BAD_NAMESPACE + message)


def default_priority_level(obj: Obj) -> None:
    spec = obj["spec"]
    for kind, shares in (("exempt", 0), ("limited", 30)):
        if kind in spec:
            spec[kind].setdefault("nominalConcurrencyShares", shares)
            spec[kind].setdefault("lendablePercent", 0)
    queuing = spec.get("limited", {}).get("limitResponse", {}).get("queuing")
    if queuing is not None:
        queuing.update(
            {name: queuing.get(name) or value for name, value in QUEUING_DEFAULTS.items()}
        )


def validate_priority_level(obj: Obj) -> Causes:
    spec, kind = obj["spec"], obj["spec"].get("type", "")
    if (obj["metadata"]["name"] == "exempt") != (kind == "Exempt"):
        yield Cause.invalid("spec.type", kind, "must be 'Exempt' if and only if `name` is 'exempt'")
    if kind == "Exempt":
        if "limited" in spec:
            yield Cause.forbidden("spec.limited", "must be nil if the type is not Limited")
        yield from _validate_shares("spec.exempt", spec.get("exempt") or {})
    elif kind == "Limited":
        if "exempt" in spec:
            yield Cause.forbidden("spec.exempt", "must be nil if the type is Limited")
        if "limited" in spec:
            yield from _validate_limited("spec.limited", spec["limited"])
        else:
            yield Cause.required("spec.limited", "must not be empty when type is Limited")
    else:
        yield from checks.validate_required_enum("spec.type", kind, ("Exempt", "Limited"))


def _validate_limited(path: str, given: Obj) -> Causes:
    shares = {"nominalConcurrencyShares": given.get("nominalConcurrencyShares")}
    yield from _validate_shares(path, shares)
    here = f"{path}.limitResponse"
    limit_response = given.get("limitResponse") or {}
    kind, queuing = limit_response.get("type"), limit_response.get("queuing")
    if kind == "Reject" and queuing is not None:
        yield Cause.forbidden(
            f"{here}.queuing", "must be nil if limited.limitResponse.type is not Limited"
        )
    elif kind == "Queue" and queuing is None:
        yield Cause.required(
            f"{here}.queuing", "must not be empty if limited.limitResponse.type is Limited"
        )
    elif kind == "Queue" and queuing is not None:
        yield from _validate_queuing(f"{here}.queuing", queuing)
    else:
        yield from checks.validate_required_enum(f"{here}.type", kind, ("Queue", "Reject"))
    yield from _validate_shares(
        path, {name: value for name, value in given.items() if name not in shares}
    )
    if given.get("borrowingLimitPercent", 0) < 0:
        detail = "if specified, must be a non-negative integer"
        yield Cause.invalid(f"{path}.borrowingLimitPercent", given["borrowingLimitPercent"], detail)


def _validate_shares(path: str, given: Obj) -> Causes:
    shares, lendable = given.get("nominalConcurrencyShares") or 0, given.get("lendablePercent", 0)
    if shares < 0:
        yield Cause.invalid(
            f"{path}.nominalConcurrencyShares", shares, "must be a non-negative integer"
        )
    if not 0 <= lendable <= 100:  # noqa: PLR2004
        yield Cause.invalid(f"{path}.lendablePercent", lendable, names.within(0, 100))


def _validate_queuing(path: str, given: Obj) -> Causes:
    queues, hand = given["queues"], given["handSize"]
    for field in ("queueLengthLimit", "queues"):
        if given[field] <= 0:
            yield Cause.invalid(f"{path}.{field}", given[field], "must be positive")
    if queues > MAX_QUEUES:
        yield Cause.invalid(f"{path}.queues", queues, f"must not be greater than {MAX_QUEUES}")
    if hand <= 0:
        yield Cause.invalid(f"{path}.handSize", hand, "must be positive")
    elif hand > queues:
        yield Cause.invalid(
            f"{path}.handSize", hand, f"should not be greater than queues ({queues})"
        )
    elif math.ceil(math.log2(queues) * hand) > MAX_HASH_BITS:
        detail = (
            f"required entropy bits of deckSize {queues} and handSize {hand} should not be "
            f"greater than {MAX_HASH_BITS}"
        )
        yield Cause.invalid(f"{path}.handSize", hand, detail)


def validate_status_conditions(new: Obj, _: Obj) -> Causes:
    given = (new.get("status") or {}).get("conditions") or ()
    yield from checks.validate_unique(
        "status.conditions", [one.get("type", "") for one in given], "type"
    )
    for index, one in enumerate(given):
        if not one.get("type"):
            yield Cause.required(f"status.conditions[{index}].type")


RULES = {
    (FLOW_CONTROL_GROUP, "flowschemas"): Rules(
        default=default_flow_schema,
        prepare_create=clear_status,
        prepare_update=keep_status,
        validate=validate_flow_schema,
        validate_update=lambda new, _: validate_flow_schema(new),
        parts={"status": SubresourceRules(prepare_status, validate_status_conditions)},
        qualified_finalizers=True,
    ),
    (FLOW_CONTROL_GROUP, "prioritylevelconfigurations"): Rules(
        default=default_priority_level,
        prepare_create=clear_status,
        prepare_update=keep_status,
        validate=validate_priority_level,
        validate_update=lambda new, _: validate_priority_level(new),
        parts={"status": SubresourceRules(prepare_status, validate_status_conditions)},
        qualified_finalizers=True,
    ),
}
