"""Rules of webhook configurations, and the validators that admission policies and
CustomResourceDefinitions share with them.

Webhooks are called by admission, not here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pytest_kscen.embedded.apiserver.kinds import Rules
from pytest_kscen.embedded.apiserver.rules import checks
from pytest_kscen.embedded.apiserver.rules.fields import set_defaults
from pytest_kscen.objects import names
from pytest_kscen.objects.errors import Cause

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kscen.embedded.apiserver.rules.checks import Causes
    from pytest_kscen.objects.resources import Obj

ADMISSION_GROUP = "admissionregistration.k8s.io"
FAILURE_POLICIES, MATCH_POLICIES, RULE_SCOPES = (
    ("Fail", "Ignore"),
    ("Equivalent", "Exact"),
    ("*", "Cluster", "Namespaced"),
)
SIDE_EFFECTS = ("None", "NoneOnDryRun")
ALL_SIDE_EFFECTS = ("None", "NoneOnDryRun", "Some", "Unknown")
OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
REVIEW_VERSIONS = ("v1", "v1beta1")
REINVOCATION_POLICIES = ("IfNeeded", "Never")
MAX_CONDITIONS = 64
MAX_TIMEOUT_SECONDS = 30
SELECTORS = ("namespaceSelector", "objectSelector")
_URL_FORM = "; desired format: https://host[/path]"


def default_webhooks(obj: Obj) -> None:
    for hook in obj.get("webhooks") or ():
        set_defaults(
            hook, {"failurePolicy": "Fail", "matchPolicy": "Equivalent", "timeoutSeconds": 10}
        )
        default_rule_scopes(hook.get("rules"))
        for selector in SELECTORS:
            if selector not in hook:
                hook[selector] = {}
        service = (hook.get("clientConfig") or {}).get("service")
        if service:
            set_defaults(service, {"port": 443})


def default_mutating_webhooks(obj: Obj) -> None:
    default_webhooks(obj)
    for hook in obj.get("webhooks") or ():
        set_defaults(hook, {"reinvocationPolicy": "Never"})


def default_rule_scopes(rules: Sequence[Obj] | None) -> None:
    for rule in rules or ():
        set_defaults(rule, {"scope": "*"})


def validate_webhooks(obj: Obj) -> Causes:
    return _validate_configuration(obj, None)


def validate_webhooks_update(new: Obj, old: Obj) -> Causes:
    if new.get("webhooks") is not old.get("webhooks"):
        yield from _validate_configuration(new, old)


def _validate_configuration(obj: Obj, old: Obj | None) -> Causes:
    before = (old or {}).get("webhooks") or ()
    strict_effects = all(hook.get("sideEffects") in SIDE_EFFECTS for hook in before)
    seen: set[str] = set()
    for index, hook in enumerate(obj.get("webhooks") or ()):
        path, name = f"webhooks[{index}]", hook.get("name", "")
        effects = SIDE_EFFECTS if strict_effects else ALL_SIDE_EFFECTS
        yield from _validate_webhook_name(f"{path}.name", hook.get("name", ""))
        for number, rule in enumerate(hook.get("rules") or ()):
            yield from validate_rule(f"{path}.rules[{number}]", rule)
        yield from checks.validate_enum(
            f"{path}.failurePolicy", hook.get("failurePolicy"), FAILURE_POLICIES
        )
        yield from checks.validate_enum(
            f"{path}.matchPolicy", hook.get("matchPolicy"), MATCH_POLICIES
        )
        if "sideEffects" in hook:
            yield from checks.validate_enum(f"{path}.sideEffects", hook["sideEffects"], effects)
        else:
            yield Cause.required(f"{path}.sideEffects", f"must specify one of {', '.join(effects)}")
        if not 1 <= hook["timeoutSeconds"] <= MAX_TIMEOUT_SECONDS:
            detail = "the timeout value must be between 1 and 30 seconds"
            yield Cause.invalid(f"{path}.timeoutSeconds", hook["timeoutSeconds"], detail)
        for selector in SELECTORS:
            yield from checks.validate_label_selector(f"{path}.{selector}", hook.get(selector))
        if "reinvocationPolicy" in hook:
            yield from checks.validate_enum(
                f"{path}.reinvocationPolicy", hook["reinvocationPolicy"], REINVOCATION_POLICIES
            )
        yield from validate_client_config(f"{path}.clientConfig", hook.get("clientConfig") or {})
        yield from validate_match_conditions(
            f"{path}.matchConditions", hook.get("matchConditions") or ()
        )
        yield from validate_review_versions(
            f"{path}.admissionReviewVersions",
            hook.get("admissionReviewVersions") or [],
            f"must specify one of {', '.join(REVIEW_VERSIONS)}",
        )
        if name and name in seen:
            yield Cause.duplicate(f"{path}.name", name)
        seen.add(name)


def _validate_webhook_name(path: str, name: str) -> Causes:
    if not name:
        yield Cause.required(path)
    elif wrong := names.dns1123_subdomain(name):
        yield Cause.invalid(path, name, ",".join(wrong))
    elif name.count(".") < 2:  # noqa: PLR2004
        yield Cause.invalid(
            path, name, "should be a domain with at least three segments separated by dots"
        )


def validate_rule(path: str, rule: Obj) -> Causes:
    operations = rule.get("operations") or []
    if not operations:
        yield Cause.required(f"{path}.operations")
    if len(operations) > 1 and "*" in operations:
        yield Cause.invalid(
            f"{path}.operations", operations, "if '*' is present, must not specify other operations"
        )
    for index, operation in enumerate(operations):
        yield from checks.validate_enum(f"{path}.operations[{index}]", operation, OPERATIONS)
    for field, message in (("apiGroups", "API groups"), ("apiVersions", "API versions")):
        given = rule.get(field) or []
        if not given:
            yield Cause.required(f"{path}.{field}")
        if len(given) > 1 and "*" in given:
            yield Cause.invalid(
                f"{path}.{field}", given, f"if '*' is present, must not specify other {message}"
            )
    for index, version in enumerate(rule.get("apiVersions") or ()):
        if not version:
            yield Cause.required(f"{path}.apiVersions[{index}]")
    yield from _validate_resources(f"{path}.resources", rule.get("resources") or [])
    if "scope" in rule:
        yield from checks.validate_enum(f"{path}.scope", rule["scope"], RULE_SCOPES)


def _validate_resources(path: str, given: list[str]) -> Causes:
    if not given:
        yield Cause.required(path)
    resources_with_all_parts: set[str] = set()
    parts_of_all_resources: set[str] = set()
    plain = False
    for index, text in enumerate(given):
        resource, slash, part = text.partition("/")
        if not text:
            yield Cause.required(f"{path}[{index}]")
        elif not slash:
            plain = text != "*"
        else:
            if resource in resources_with_all_parts:
                yield Cause.invalid(
                    f"{path}[{index}]",
                    text,
                    f"if '{resource}/*' is present, must not specify {text}",
                )
            if part in parts_of_all_resources:
                yield Cause.invalid(
                    f"{path}[{index}]", text, f"if '*/{part}' is present, must not specify {text}"
                )
            resources_with_all_parts |= {resource} if part == "*" else set()
            parts_of_all_resources |= {part} if resource == "*" else set()
    if len(given) > 1 and "*/*" in given:
        yield Cause.invalid(path, given, "if '*/*' is present, must not specify other resources")
    if "*" in given and plain:
        detail = "if '*' is present, must not specify other resources without subresources"
        yield Cause.invalid(path, given, detail)


def validate_client_config(path: str, given: Obj) -> Causes:
    if ("url" in given) == ("service" in given):
        yield Cause.required(path, "exactly one of url or service is required")
    elif "url" in given:
        here = f"{path}.url"
        text = given["url"]
        try:
            url = urlsplit(text)
        except ValueError as error:
            yield Cause.required(here, f"url must be a valid URL: {error}{_URL_FORM}")
            return
        if url.scheme != "https":
            yield Cause.invalid(
                here, url.scheme, f"'https' is the only allowed URL scheme{_URL_FORM}"
            )
        user, at, host = url.netloc.rpartition("@")
        if not host:
            yield Cause.invalid(here, host, f"host must be specified{_URL_FORM}")
        if at:
            yield Cause.invalid(here, user, "user information is not permitted in the URL")
        if url.fragment:
            yield Cause.invalid(here, url.fragment, "fragments are not permitted in the URL")
        if url.query:
            yield Cause.invalid(here, url.query, "query parameters are not permitted in the URL")
    else:
        yield from _validate_service_reference(f"{path}.service", given["service"])


def _validate_service_reference(path: str, given: Obj) -> Causes:
    for named_field, field in (
        ("name", "namespace"),
        ("namespace", "name"),
    ):  # Kubernetes itself confuses the two fields
        if not given.get(field):
            yield Cause.required(f"{path}.{named_field}")
    port, route = given.get("port", 0), given.get("path", "")
    if not 1 <= port <= checks.MAX_PORT:
        yield Cause.invalid(
            f"{path}.port", port, f"port is not valid: {names.within(1, checks.MAX_PORT)}"
        )
    if route in {"", "/"}:
        return
    if route == "//":
        yield Cause.invalid(f"{path}.path", route, "segment[0] may not be empty")
        return
    if not route.startswith("/"):
        yield Cause.invalid(f"{path}.path", route, "must start with a '/'")
    for index, step in enumerate(route[1:].removesuffix("/").split("/")):
        if not step:
            yield Cause.invalid(f"{path}.path", route, f"segment[{index}] may not be empty")
        for message in names.dns1123_subdomain(step) if step else ():
            yield Cause.invalid(f"{path}.path", route, f"segment[{index}]: {message}")


def validate_review_versions(path: str, given: list[str], required: str = "") -> Causes:
    """Yield the causes for the review versions that a webhook accepts.

    `required` is the detail of the cause for an empty list.
    """
    if not given:
        yield Cause.required(path, required)
        return
    for index, version in enumerate(given):
        if version in given[:index]:
            yield Cause.invalid(f"{path}[{index}]", version, "duplicate version")
        else:
            yield from checks.validate_name(f"{path}[{index}]", version, names.dns1035_label)
    if not set(given) & set(REVIEW_VERSIONS):
        yield Cause.invalid(
            path, given, f"must include at least one of {', '.join(REVIEW_VERSIONS)}"
        )


def validate_match_conditions(path: str, given: Sequence[Obj]) -> Causes:
    if len(given) > MAX_CONDITIONS:
        yield Cause.too_many(path, len(given), MAX_CONDITIONS)
    seen: set[str] = set()
    for index, condition in enumerate(given):
        here, name = f"{path}[{index}]", condition.get("name", "")
        if not condition.get("expression", "").strip():
            yield Cause.required(f"{here}.expression")
        yield from checks.validate_required_name(f"{here}.name", name, names.label_key)
        if name and name in seen:
            yield Cause.duplicate(f"{here}.name", name)
        seen.add(name)


def have_webhooks_changed(new: Obj, old: Obj) -> bool:
    return new.get("webhooks") != old.get("webhooks")


RULES = {
    (ADMISSION_GROUP, "validatingwebhookconfigurations"): Rules(
        default=default_webhooks,
        validate=validate_webhooks,
        validate_update=validate_webhooks_update,
        generation=have_webhooks_changed,
        unconditional_update=False,
    ),
    (ADMISSION_GROUP, "mutatingwebhookconfigurations"): Rules(
        default=default_mutating_webhooks,
        validate=validate_webhooks,
        validate_update=validate_webhooks_update,
        generation=have_webhooks_changed,
        unconditional_update=False,
    ),
}
