"""Webhook configurations of a cluster: order, rules, matchConditions and server addresses.

Read again only when the configurations change. Used by dispatch.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from pytest_kscen.embedded.apiserver.admission.webhooks.review import CallError, admission_request
from pytest_kscen.objects.selectors import matches_selector

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_kscen.cel import Program
    from pytest_kscen.embedded.apiserver.admission.chain import Review
    from pytest_kscen.embedded.apiserver.kinds import Kind
    from pytest_kscen.embedded.apiserver.store import ResourceStore, Store
    from pytest_kscen.objects.resources import Obj, Resource

    Place = tuple[str, str, str, str, str]


VARIABLES = ("object", "oldObject", "request")


class MatchConditions:
    """CEL conditions of one webhook, evaluated before it is called.

    A false condition decides, even if another one fails; failures count only if none is false.
    """

    def __init__(self, listed: Sequence[Obj], *, fails_open: bool) -> None:
        self._expressions = [str(each["expression"]) for each in listed]
        self._fails_open = fails_open

    def hold(self, review: Review, kind: Kind) -> bool:
        if not self._expressions:
            return True
        request = admission_request(review, kind, "")
        variables = {
            "object": request.pop("object"),
            "oldObject": request.pop("oldObject"),
            "request": request,
        }
        wrong = []
        for expression in self._expressions:
            try:
                if _compiled(expression).value(variables) is not True:
                    return False
            except ValueError as error:
                wrong.append(f"expression '{expression}' resulted in error: {error}")
        if wrong and not self._fails_open:
            raise review.forbidden(wrong[0] if len(wrong) == 1 else f"[{', '.join(wrong)}]")
        return not wrong


@lru_cache(maxsize=256)
def _compiled(expression: str) -> Program:
    from pytest_kscen.cel import compile_expression
    from pytest_kscen.cel.types import DYN

    return compile_expression(expression, dict.fromkeys(VARIABLES, DYN))


GROUP = "admissionregistration.k8s.io"
EXEMPT_RESOURCES = {
    "mutatingadmissionpolicies", "mutatingadmissionpolicybindings", "mutatingwebhookconfigurations",
    "validatingadmissionpolicies", "validatingadmissionpolicybindings",
    "validatingwebhookconfigurations",
}  # fmt: skip


class Webhook:
    def __init__(self, spec: Obj) -> None:
        self.name: str = spec["name"]
        self.client: Obj = spec["clientConfig"]
        self.ca_bundle = base64.b64decode(self.client.get("caBundle") or "")
        self.timeout: int = spec.get("timeoutSeconds") or 10
        self.fails_open: bool = spec.get("failurePolicy") == "Ignore"
        self.reinvoked: bool = spec.get("reinvocationPolicy") == "IfNeeded"
        self.supports_dry_run: bool = spec.get("sideEffects") in {"None", "NoneOnDryRun"}
        self.exact: bool = spec.get("matchPolicy") == "Exact"
        self.versions: Sequence[str] = spec.get("admissionReviewVersions") or ()
        self.conditions = MatchConditions(
            spec.get("matchConditions") or (), fails_open=self.fails_open
        )
        self._rules: Sequence[Obj] = spec.get("rules") or ()
        self._namespaces: Obj = spec.get("namespaceSelector") or {}
        self._objects: Obj = spec.get("objectSelector") or {}

    def kind_for(self, review: Review) -> Kind | None:
        """Return the version of the object that a rule asks for, or None if no rule matches.

        The request's version is preferred, then another version of the same stored object.
        """
        kind = review.core.kind_of(review.request)
        if self._has_rule(kind.resource, review):
            return kind
        others = (
            []
            if self.exact
            else [
                other
                for other in review.core.kinds
                if other.home == kind.home and other is not kind
            ]
        )
        return next((other for other in others if self._has_rule(other.resource, review)), None)

    def _has_rule(self, resource: Resource, review: Review) -> bool:
        inside = bool(review.namespace) and resource.plural != "namespaces"
        plurals, subresources = {"*", resource.plural}, {"*", review.request.subresource}
        return any(
            rule.get("scope", "*") in {"*", "Namespaced" if inside else "Cluster"}
            and _rule_lists(rule, "operations", review.operation)
            and _rule_lists(rule, "apiGroups", resource.group)
            and _rule_lists(rule, "apiVersions", resource.version)
            and any(
                name in plurals and part in subresources
                for name, _, part in (each.partition("/") for each in rule.get("resources") or ())
            )
            for rule in self._rules
        )

    def selects(self, review: Review) -> bool:
        if (
            self._namespaces
            and review.namespace
            and not matches_selector(self._namespaces, _namespace_labels(review))
        ):
            return False
        labels = [obj["metadata"].get("labels") for obj in (review.new, review.old) if obj]
        return not self._objects or any(matches_selector(self._objects, each) for each in labels)


def _rule_lists(rule: Obj, name: str, value: str) -> bool:
    listed = rule.get(name) or ()
    return value in listed or "*" in listed


def _namespace_labels(review: Review) -> Obj:
    """Return the labels of the write's namespace; of the object itself if it is a namespace."""
    if review.request.resource.plural == "namespaces":
        return review.obj["metadata"].get("labels") or {}
    found = review.core.store.get(("", "namespaces", "", review.namespace))
    return (found["metadata"].get("labels") if found else None) or {}


class WebhookCall(NamedTuple):
    """Webhook to call, and the version of the object to send."""

    webhook: Webhook
    kind: Kind


class WebhookConfigurations:
    """Webhooks of one kind of configuration, mutating or validating, in the order of names.

    Parsed again only after the configurations changed.
    """

    def __init__(self, plural: str) -> None:
        self._plural = plural
        self._resource_store: ResourceStore | None = None
        self._seen = -1
        self._webhooks: list[Webhook] = []
        self._matching: dict[Place, list[Webhook]] = {}

    def any_configured(self, store: Store) -> bool:
        """Return True if any configuration exists.

        Called for nearly every write, and nearly always False, so it must be cheap.
        """
        return bool(self._resource_store_in(store).buckets)

    def _resource_store_in(self, store: Store) -> ResourceStore:
        if self._resource_store is None:
            self._resource_store = store.resource_store(GROUP, self._plural)
        return self._resource_store

    def matching(self, review: Review) -> Sequence[Webhook]:
        resource_store = self._resource_store_in(review.core.store)
        if not resource_store.buckets:
            return ()
        if resource_store.end != self._seen:
            configurations = review.core.store.all(GROUP, self._plural)
            self._webhooks = [
                Webhook(spec) for each in configurations for spec in each.get("webhooks") or ()
            ]
            self._matching.clear()
            self._seen = resource_store.end
        request = review.request
        resource = request.resource
        if resource.group == GROUP and resource.plural in EXEMPT_RESOURCES:
            return ()
        place = (
            resource.group,
            resource.version,
            resource.plural,
            request.subresource,
            review.operation,
        )
        found = self._matching.get(place)
        if found is None:
            found = self._matching[place] = [
                each for each in self._webhooks if each.kind_for(review)
            ]
        return found

    def calls(self, review: Review) -> Iterator[WebhookCall]:
        """Yield the calls in order; each is decided after the previous one may have changed the
        object.
        """
        for webhook in self.matching(review):
            if call := call_for(webhook, review):
                yield call


def call_for(webhook: Webhook, review: Review) -> WebhookCall | None:
    """Return the call of a webhook for a write as it is now, or None if it does not apply.

    Checks selectors, rules and matchConditions, in this order; a failing condition may refuse the
    write.
    """
    if not webhook.selects(review):
        return None
    kind = webhook.kind_for(review)
    return WebhookCall(webhook, kind) if kind and webhook.conditions.hold(review, kind) else None


ADDRESS_ANNOTATION = "kscen.io/address"


@dataclass(frozen=True, slots=True)
class WebhookAddress:
    """Address of a webhook's server.

    `url` is shown in messages, `host` and `port` are connected to, and `server_name` is the name
    on the certificate.
    """

    url: str
    host: str
    port: int
    server_name: str
    ca_bundle: bytes = b""

    @classmethod
    def of_url(cls, url: str, ca_bundle: bytes) -> WebhookAddress:
        parts = urlsplit(url)
        host = parts.hostname or ""
        return cls(url, host, parts.port or 443, host, ca_bundle)


def address_of(webhook: Webhook, store: Store) -> WebhookAddress:
    if "url" in webhook.client:
        return WebhookAddress.of_url(webhook.client["url"], webhook.ca_bundle)
    reference = webhook.client["service"]
    name, namespace, port = reference["name"], reference["namespace"], reference.get("port") or 443
    server_name = f"{name}.{namespace}.svc"
    url = f"https://{server_name}:{port}/{(reference.get('path') or '').lstrip('/')}"
    service = store.get(("", "services", namespace, name))
    failed_call = f'failed to call webhook: Post "{url}?timeout={webhook.timeout}s"'
    if service is None:
        raise CallError(f'{failed_call}: service "{name}" not found')
    address = str((service["metadata"].get("annotations") or {}).get(ADDRESS_ANNOTATION, ""))
    host, _, own_port = address.rpartition(":")
    if not host or not own_port.isdecimal():
        remedy = (
            f"annotate the service with {ADDRESS_ANNOTATION}=HOST:PORT of a server on this "
            "machine, or use clientConfig.url"
        )
        raise CallError(
            f'{failed_call}: nothing listens behind the simulated service "{name}": {remedy}'
        )
    return WebhookAddress(url, host.strip("[]"), int(own_port), server_name, webhook.ca_bundle)
