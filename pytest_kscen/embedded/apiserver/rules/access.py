"""Rules of RBAC roles and bindings, and of CertificateSigningRequests.

Registered through `rules.RULES`. Authorization itself is not simulated here: only the objects are
validated.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

from pytest_kscen.embedded.apiserver.kinds import Rules, SubresourceRules
from pytest_kscen.embedded.apiserver.rules import checks
from pytest_kscen.embedded.apiserver.rules.checks import GO_ROLE_REF, as_go_struct
from pytest_kscen.embedded.apiserver.rules.fields import (
    CERTIFICATE_FIELDS,
    ensure_object,
    keep_spec,
    set_defaults,
)
from pytest_kscen.objects import names
from pytest_kscen.objects.errors import Cause

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pytest_kscen.embedded.apiserver.core import Core
    from pytest_kscen.embedded.apiserver.rules.checks import Causes
    from pytest_kscen.objects.resources import Obj


RBAC_GROUP = "rbac.authorization.k8s.io"
SUBJECT_KINDS = ("ServiceAccount", "User", "Group")
_MIXED_RULE = "rules cannot apply to both regular resources and non-resource URLs"


def _validate_policy_rules(obj: Obj, *, namespaced: bool) -> Causes:
    for index, rule in enumerate(obj.get("rules") or ()):
        path, urls = f"rules[{index}]", rule.get("nonResourceURLs")
        if not rule.get("verbs"):
            yield Cause.required(f"{path}.verbs", "verbs must contain at least one value")
        if urls:
            if namespaced:
                detail = "namespaced rules cannot apply to non-resource URLs"
                yield Cause.invalid(f"{path}.nonResourceURLs", urls, detail)
            if any(rule.get(field) for field in ("apiGroups", "resources", "resourceNames")):
                yield Cause.invalid(f"{path}.nonResourceURLs", urls, _MIXED_RULE)
            continue
        if not rule.get("apiGroups"):
            yield Cause.required(
                f"{path}.apiGroups", "resource rules must supply at least one api group"
            )
        if not rule.get("resources"):
            yield Cause.required(
                f"{path}.resources", "resource rules must supply at least one resource"
            )


def validate_role(obj: Obj) -> Causes:
    return _validate_policy_rules(obj, namespaced=True)


def validate_cluster_role(obj: Obj) -> Causes:
    yield from _validate_policy_rules(obj, namespaced=False)
    aggregation = obj.get("aggregationRule")
    if aggregation is not None:
        path, selectors = (
            "aggregationRule.clusterRoleSelectors",
            aggregation.get("clusterRoleSelectors"),
        )
        if not selectors:
            yield Cause.required(
                path, "at least one clusterRoleSelector required if aggregationRule is non-nil"
            )
        for index, selector in enumerate(selectors or ()):
            yield from checks.validate_label_selector(f"{path}[{index}]", selector)
            if checks.selector_matches(selector, {}) is None:
                yield Cause.invalid(f"{path}[{index}]", None, "invalid label selector.")


def default_binding(obj: Obj) -> None:
    set_defaults(ensure_object(obj, "roleRef"), {})
    if not obj["roleRef"].get("apiGroup"):
        obj["roleRef"]["apiGroup"] = RBAC_GROUP
    for subject in obj.get("subjects") or ():
        if subject.get("kind") in {"User", "Group"}:
            set_defaults(subject, {"apiGroup": RBAC_GROUP})


def _validate_any_binding(obj: Obj, *, namespaced: bool) -> Causes:
    role = obj["roleRef"]
    kinds = ("Role", "ClusterRole") if namespaced else ("ClusterRole",)
    yield from checks.validate_enum("roleRef.apiGroup", role.get("apiGroup", ""), (RBAC_GROUP,))
    yield from checks.validate_enum("roleRef.kind", role.get("kind", ""), kinds)
    yield from checks.validate_required_name("roleRef.name", role.get("name"), names.path_segment)
    for index, subject in enumerate(obj.get("subjects") or ()):
        path = f"subjects[{index}]"
        name, kind, group = (subject.get(field, "") for field in ("name", "kind", "apiGroup"))
        if not name:
            yield Cause.required(f"{path}.name")
        if kind == "ServiceAccount":
            if name:
                yield from checks.validate_name(f"{path}.name", name, names.dns1123_subdomain)
            if group:
                yield Cause.unsupported(f"{path}.apiGroup", group, ("",))
            if not namespaced and not subject.get("namespace"):
                yield Cause.required(f"{path}.namespace")
        elif kind in SUBJECT_KINDS:
            yield from checks.validate_enum(f"{path}.apiGroup", group, (RBAC_GROUP,))
        else:
            yield Cause.unsupported(f"{path}.kind", kind, SUBJECT_KINDS)


def validate_role_binding(obj: Obj) -> Causes:
    return _validate_any_binding(obj, namespaced=True)


def validate_cluster_role_binding(obj: Obj) -> Causes:
    return _validate_any_binding(obj, namespaced=False)


def _update_validator(
    validate: Callable[[Obj], Iterable[Cause]],
) -> Callable[[Obj, Obj], Iterable[Cause]]:
    """Return the update validator of a role or binding: the validator of a new object, and an
    immutable `roleRef`.
    """

    def validate_new_and_old(new: Obj, old: Obj) -> Causes:
        yield from validate(new)
        if new.get("roleRef") != old.get("roleRef"):
            yield Cause.invalid(
                "roleRef", as_go_struct(GO_ROLE_REF, new["roleRef"]), "cannot change roleRef"
            )

    return validate_new_and_old


RBAC_RULES = {
    (RBAC_GROUP, plural): Rules(
        default=default_binding if plural.endswith("bindings") else lambda _: None,
        validate=validate,
        validate_update=_update_validator(validate),
        name=names.path_segment,
        qualified_finalizers=True,
        generation=None,
        create_on_update=True,
        owned_empty_lists=("rules",) if plural.endswith("roles") else (),
    )
    for plural, validate in (
        ("roles", validate_role),
        ("clusterroles", validate_cluster_role),
        ("rolebindings", validate_role_binding),
        ("clusterrolebindings", validate_cluster_role_binding),
    )
}


KEY_USAGES = (
    *(
        "any",
        "cert sign",
        "client auth",
        "code signing",
        "content commitment",
        "crl sign",
        "data encipherment",
    ),
    *(
        "decipher only",
        "digital signature",
        "email protection",
        "encipher only",
        "ipsec end system",
        "ipsec tunnel",
    ),
    *(
        "ipsec user",
        "key agreement",
        "key encipherment",
        "microsoft sgc",
        "netscape sgc",
        "ocsp signing",
        "s/mime",
    ),
    *("server auth", "signing", "timestamping"),
)
DECISION_TYPES = ("Approved", "Denied")
PERMANENT_TYPES = (*DECISION_TYPES, "Failed")
MIN_EXPIRATION_SECONDS = 600
LEGACY_UNKNOWN_SIGNER = "kubernetes.io/legacy-unknown"
_BAD_SIGNER_NAME = "must be a fully qualified domain and path of the form 'example.com/signer-name'"
_APPROVED_AND_DENIED = "Approved and Denied conditions are mutually exclusive"
_CERTIFICATE_HEADER = b"-----BEGIN CERTIFICATE-----"
_REQUEST_HEADER, _REQUEST_FOOTER = (
    b"-----BEGIN CERTIFICATE REQUEST-----",
    b"-----END CERTIFICATE REQUEST-----",
)


def prepare_request_create(obj: Obj, _core: Core) -> None:
    requested = {
        name: value
        for name, value in obj["spec"].items()
        if name not in {"username", "uid", "groups", "extra"}
    }
    obj["spec"] = {
        **requested,
        "username": "system:admin",
        "groups": ["system:masters", "system:authenticated"],
    }
    obj["status"] = {}


def prepare_request_update(new: Obj, old: Obj, _core: Core) -> None:
    new["spec"], new["status"] = old["spec"], old.get("status", {})


def prepare_request_status(new: Obj, old: Obj, core: Core) -> None:
    """Prepare a write to `status`, which the signer makes.

    Approved and Denied conditions keep their stored content; the approver alone may change them.
    """
    keep_spec(new, old, core)
    before = {one.get("type"): one for one in _conditions_of(old)}
    kept = [
        before.get(one.get("type"), one) if one.get("type") in DECISION_TYPES else one
        for one in _conditions_of(new)
    ]
    _set_conditions(new, _with_timestamps(kept, old, core))


def prepare_request_approval(new: Obj, old: Obj, core: Core) -> None:
    """Prepare a write to `approval`, which may change nothing but the conditions.

    Conditions without a timestamp get the stored one of the same type and status, or the time of
    the cluster.
    """
    given = _with_timestamps(_conditions_of(new), old, core)
    keep_spec(new, old, core)
    new["status"] = old.get("status", {})
    _set_conditions(new, given)


def _conditions_of(obj: Obj) -> list[Obj]:
    return (obj.get("status") or {}).get("conditions") or []


def _set_conditions(obj: Obj, conditions: list[Obj]) -> None:
    rest = {
        name: value for name, value in (obj.get("status") or {}).items() if name != "conditions"
    }
    obj["status"] = {**rest, **({"conditions": conditions} if conditions else {})}


def _with_timestamps(conditions: list[Obj], old: Obj, core: Core) -> list[Obj]:
    times = {
        (one.get("type"), one.get("status")): one.get("lastTransitionTime")
        for one in _conditions_of(old)
    }
    timed = []
    for one in conditions:
        since = (
            one.get("lastTransitionTime")
            or times.get((one.get("type"), one.get("status")))
            or core.now()
        )
        timed.append(
            {
                **one,
                "lastUpdateTime": one.get("lastUpdateTime") or core.now(),
                "lastTransitionTime": since,
            }
        )
    return timed


def validate_certificate_request(obj: Obj) -> Causes:
    spec = obj["spec"]
    encoded = spec.get("request") or ""
    pem = base64.b64decode(encoded).strip()
    if not (pem.startswith(_REQUEST_HEADER) and pem.endswith(_REQUEST_FOOTER)):
        fault: str = "PEM block type must be CERTIFICATE REQUEST"
    else:
        fault = ""
    if fault:
        yield Cause.invalid("spec.request", spec.get("request"), fault)
    usages, seconds = spec.get("usages") or (), spec.get("expirationSeconds")
    if not usages:
        yield Cause.required("spec.usages")
    for index, usage in enumerate(usages):
        yield from checks.validate_enum(f"spec.usages[{index}]", usage, KEY_USAGES)
    yield from checks.validate_unique("spec.usages", usages)
    if spec.get("signerName") == LEGACY_UNKNOWN_SIGNER:
        yield Cause.invalid(
            "spec.signerName",
            LEGACY_UNKNOWN_SIGNER,
            "the legacy signerName is not allowed via this API version",
        )
    else:
        yield from _validate_signer_name("spec.signerName", spec.get("signerName", ""))
    if seconds is not None and seconds < MIN_EXPIRATION_SECONDS:
        detail = "may not specify a duration less than 600 seconds (10 minutes)"
        yield Cause.invalid("spec.expirationSeconds", seconds, detail)
    yield from _validate_request_conditions(obj)


def _validate_signer_name(path: str, name: str) -> Causes:
    domain, *rest = name.split("/")
    if not name:
        yield Cause.required(path)
        return
    if len(rest) != 1:
        yield Cause.invalid(path, name, _BAD_SIGNER_NAME)
        return
    for section, check, message in (
        (domain, names.dns1123_label, domain),
        (rest[0], names.dns1123_subdomain, rest[0]),
    ):
        wrong = next(((label, check(label)) for label in section.split(".") if check(label)), None)
        for fault in wrong[1] if wrong else ():
            yield Cause.invalid(
                path, message, f'validating label "{wrong[0] if wrong else ""}": {fault}'
            )
    if "." not in domain:
        yield Cause.invalid(
            path, domain, "should be a domain with at least two segments separated by dots"
        )


def _validate_request_conditions(obj: Obj) -> Causes:
    seen: list[str] = []
    for index, one in enumerate(_conditions_of(obj)):
        path, kind, state = (
            f"status.conditions[{index}]",
            one.get("type", ""),
            one.get("status", ""),
        )
        if not kind:
            yield Cause.required(f"{path}.type")
        allowed = ("True",) if kind in PERMANENT_TYPES else checks.CONDITION_STATUSES
        yield from checks.validate_required_enum(f"{path}.status", state, allowed)
        if kind in DECISION_TYPES and set(seen) & (set(DECISION_TYPES) - {kind}):
            yield Cause.invalid("status.conditions", kind, _APPROVED_AND_DENIED)
        if kind in seen:
            yield Cause.duplicate(f"{path}.type", kind)
        seen.append(kind)


def validate_request_status(new: Obj, old: Obj) -> Causes:
    yield from _validate_request_conditions(new)
    yield from _validate_conditions_kept(new, old, may_decide=False)
    signed, before = ((obj.get("status") or {}).get("certificate") for obj in (new, old))
    if before and signed != before:
        yield Cause.forbidden(
            "status.certificate", "updates may not modify existing certificate content"
        )
    if signed and signed != before and _CERTIFICATE_HEADER not in base64.b64decode(signed):
        yield Cause.invalid(
            "status.certificate",
            "<certificate data>",
            "must contain at least one CERTIFICATE PEM block",
        )


def validate_request_approval(new: Obj, old: Obj) -> Causes:
    yield from _validate_request_conditions(new)
    yield from _validate_conditions_kept(new, old, may_decide=True)


def _validate_conditions_kept(new: Obj, old: Obj, *, may_decide: bool) -> Causes:
    after, before = ([one.get("type") for one in _conditions_of(obj)] for obj in (new, old))
    for kind in PERMANENT_TYPES:
        if after.count(kind) < before.count(kind):
            yield Cause.forbidden(
                "status.conditions", f'updates may not remove a condition of type "{kind}"'
            )
    for kind in () if may_decide else DECISION_TYPES:
        if after.count(kind) > before.count(kind):
            yield Cause.forbidden(
                "status.conditions", f'updates may not add a condition of type "{kind}"'
            )


CERTIFICATE_RULES = {
    ("certificates.k8s.io", "certificatesigningrequests"): Rules(
        prepare_create=prepare_request_create,
        prepare_update=prepare_request_update,
        validate=validate_certificate_request,
        parts={
            "status": SubresourceRules(prepare_request_status, validate_request_status),
            "approval": SubresourceRules(prepare_request_approval, validate_request_approval),
        },
        name=names.path_segment,
        qualified_finalizers=True,
        fields=CERTIFICATE_FIELDS,
        generation=None,
    )
}
