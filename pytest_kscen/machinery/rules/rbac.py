"""Who may do what: roles, and to whom they are bound."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.machinery.kinds import Rules
from pytest_kscen.machinery.rules import checks
from pytest_kscen.machinery.rules.filling import fill, part
from pytest_kscen.machinery.rules.internals import ROLE, internal
from pytest_kscen.objects import names
from pytest_kscen.objects.errors import Cause

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pytest_kscen.machinery.rules.checks import Causes
    from pytest_kscen.objects.resources import Obj

GROUP = "rbac.authorization.k8s.io"
SUBJECTS = ("ServiceAccount", "User", "Group")
_NOT_BOTH = "rules cannot apply to both regular resources and non-resource URLs"


def _rules(obj: Obj, *, namespaced: bool) -> Causes:
    for place, rule in enumerate(obj.get("rules") or ()):
        path, urls = f"rules[{place}]", rule.get("nonResourceURLs")
        if not rule.get("verbs"):
            yield Cause.required(f"{path}.verbs", "verbs must contain at least one value")
        if urls:
            if namespaced:
                why = "namespaced rules cannot apply to non-resource URLs"
                yield Cause.invalid(f"{path}.nonResourceURLs", urls, why)
            if any(rule.get(field) for field in ("apiGroups", "resources", "resourceNames")):
                yield Cause.invalid(f"{path}.nonResourceURLs", urls, _NOT_BOTH)
            continue
        if not rule.get("apiGroups"):
            yield Cause.required(f"{path}.apiGroups", "resource rules must supply at least one api group")
        if not rule.get("resources"):
            yield Cause.required(f"{path}.resources", "resource rules must supply at least one resource")


def validate_role(obj: Obj) -> Causes:
    return _rules(obj, namespaced=True)


def validate_cluster_role(obj: Obj) -> Causes:
    yield from _rules(obj, namespaced=False)
    aggregation = obj.get("aggregationRule")
    if aggregation is not None:
        path, selectors = "aggregationRule.clusterRoleSelectors", aggregation.get("clusterRoleSelectors")
        if not selectors:
            yield Cause.required(path, "at least one clusterRoleSelector required if aggregationRule is non-nil")
        for place, selector in enumerate(selectors or ()):
            yield from checks.selector(f"{path}[{place}]", selector)
            if checks.matches(selector, {}) is None:
                yield Cause.invalid(f"{path}[{place}]", None, "invalid label selector.")


def no_default(_: Obj) -> None:
    """Roles say all there is to say."""


def default_binding(obj: Obj) -> None:
    fill(part(obj, "roleRef"), {})
    if not obj["roleRef"].get("apiGroup"):
        obj["roleRef"]["apiGroup"] = GROUP
    for subject in obj.get("subjects") or ():
        if subject.get("kind") in {"User", "Group"}:
            fill(subject, {"apiGroup": GROUP})


def _binding(obj: Obj, *, namespaced: bool) -> Causes:
    role = obj["roleRef"]
    kinds = ("Role", "ClusterRole") if namespaced else ("ClusterRole",)
    yield from checks.one_of("roleRef.apiGroup", role.get("apiGroup", ""), (GROUP,))
    yield from checks.one_of("roleRef.kind", role.get("kind", ""), kinds)
    yield from checks.required_name("roleRef.name", role.get("name"), names.path_segment)
    for place, subject in enumerate(obj.get("subjects") or ()):
        yield from _subject(f"subjects[{place}]", subject, namespaced=namespaced)


def _subject(path: str, subject: Obj, *, namespaced: bool) -> Causes:
    name, kind, group = (subject.get(field, "") for field in ("name", "kind", "apiGroup"))
    if not name:
        yield Cause.required(f"{path}.name")
    if kind == "ServiceAccount":
        if name:
            yield from checks.named(f"{path}.name", name, names.dns1123_subdomain)
        if group:
            yield Cause.unsupported(f"{path}.apiGroup", group, ("",))
        if not namespaced and not subject.get("namespace"):
            yield Cause.required(f"{path}.namespace")
    elif kind in SUBJECTS:
        yield from checks.one_of(f"{path}.apiGroup", group, (GROUP,))
    else:
        yield Cause.unsupported(f"{path}.kind", kind, SUBJECTS)


def validate_binding(obj: Obj) -> Causes:
    return _binding(obj, namespaced=True)


def validate_cluster_binding(obj: Obj) -> Causes:
    return _binding(obj, namespaced=False)


def _again(validate: Callable[[Obj], Iterable[Cause]]) -> Callable[[Obj, Obj], Iterable[Cause]]:
    def judge(new: Obj, old: Obj) -> Causes:
        yield from validate(new)
        if new.get("roleRef") != old.get("roleRef"):
            yield Cause.invalid("roleRef", internal(ROLE, new["roleRef"]), "cannot change roleRef")

    return judge


RULES = {
    (GROUP, plural): Rules(
        default=default_binding if plural.endswith("bindings") else no_default,
        validate=validate,
        validate_update=_again(validate),
        name=names.path_segment,
        qualified_finalizers=True,
        generation=None,
        create_on_update=True,
        empties=("rules",) if plural.endswith("roles") else (),
    )
    for plural, validate in (
        ("roles", validate_role),
        ("clusterroles", validate_cluster_role),
        ("rolebindings", validate_binding),
        ("clusterrolebindings", validate_cluster_binding),
    )
}
