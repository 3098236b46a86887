"""Webhook configurations of a cluster: order, rules, matchConditions and server addresses."""

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
    from pytest_kscen.embedded.apiserver.store import Shelf, Store
    from pytest_kscen.objects.resources import Obj, Resource

    Place = tuple[str, str, str, str, str]


# matchConditions: CEL on the object, the old object and the request, asked before a webhook is.


VARIABLES = ("object", "oldObject", "request")


class Conditions:
    """All of one webhook's. One that is false decides; one that fails does only if none is."""

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
EXEMPT = {
    "mutatingadmissionpolicies", "mutatingadmissionpolicybindings", "mutatingwebhookconfigurations",
    "validatingadmissionpolicies", "validatingadmissionpolicybindings",
    "validatingwebhookconfigurations",
}  # fmt: skip


class Webhook:
    """One of them."""

    def __init__(self, spec: Obj) -> None:
        self.name: str = spec["name"]
        self.client: Obj = spec["clientConfig"]
        self.ca_bundle = base64.b64decode(self.client.get("caBundle") or "")
        self.timeout: int = spec.get("timeoutSeconds") or 10
        self.fails_open: bool = spec.get("failurePolicy") == "Ignore"
        self.is_repeated: bool = spec.get("reinvocationPolicy") == "IfNeeded"
        self.bears_dry_run: bool = spec.get("sideEffects") in {"None", "NoneOnDryRun"}
        self.exact: bool = spec.get("matchPolicy") == "Exact"
        self.versions: Sequence[str] = spec.get("admissionReviewVersions") or ()
        self.conditions = Conditions(spec.get("matchConditions") or (), fails_open=self.fails_open)
        self._rules: Sequence[Obj] = spec.get("rules") or ()
        self._namespaces: Obj = spec.get("namespaceSelector") or {}
        self._objects: Obj = spec.get("objectSelector") or {}

    def kind_for(self, review: Review) -> Kind | None:
        """The version of the kind that a rule asks for: the request's if there is one, else
        another that says the same.
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
        return any(_applies(rule, resource, review) for rule in self._rules)

    def selects(self, review: Review) -> bool:
        if (
            self._namespaces
            and review.namespace
            and not matches_selector(self._namespaces, _labels_around(review))
        ):
            return False
        labels = [obj["metadata"].get("labels") for obj in (review.new, review.old) if obj]
        return not self._objects or any(matches_selector(self._objects, each) for each in labels)


def _applies(rule: Obj, resource: Resource, review: Review) -> bool:
    scope, inside = (
        rule.get("scope", "*"),
        bool(review.namespace) and resource.plural != "namespaces",
    )
    return (
        scope in {"*", "Namespaced" if inside else "Cluster"}
        and _listed(rule, "operations", review.operation)
        and _listed(rule, "apiGroups", resource.group)
        and _listed(rule, "apiVersions", resource.version)
        and any(
            _names(each, resource.plural, review.request.subresource)
            for each in rule.get("resources") or ()
        )
    )


def _listed(rule: Obj, name: str, value: str) -> bool:
    listed = rule.get(name) or ()
    return value in listed or "*" in listed


def _names(listed: str, plural: str, subresource: str) -> bool:
    name, _, part = listed.partition("/")
    return name in {"*", plural} and part in {"*", subresource}


def _labels_around(review: Review) -> Obj:
    """The labels of the namespace; its own, if the write is about a namespace."""
    if review.request.resource.plural == "namespaces":
        return review.obj["metadata"].get("labels") or {}
    found = review.core.store.get(("", "namespaces", "", review.namespace))
    return (found["metadata"].get("labels") if found else None) or {}


class Call(NamedTuple):
    """A webhook to ask, and the version of the object that it wants."""

    webhook: Webhook
    kind: Kind


class Configured:
    """All webhooks of one sort of configuration."""

    def __init__(self, plural: str) -> None:
        self._plural = plural
        self._shelf: Shelf | None = None
        self._seen = -1
        self._webhooks: list[Webhook] = []
        self._concerned: dict[Place, list[Webhook]] = {}

    def are_there(self, store: Store) -> bool:
        """Whether anything is configured. Nearly always it is not, and that must cost nothing."""
        return bool(self._shelf_in(store).buckets)

    def _shelf_in(self, store: Store) -> Shelf:
        if self._shelf is None:
            self._shelf = store.shelf(GROUP, self._plural)
        return self._shelf

    def concerned(self, review: Review) -> Sequence[Webhook]:
        """Those with a rule for this write."""
        shelf = self._shelf_in(review.core.store)
        if not shelf.buckets:
            return ()
        if shelf.end != self._seen:
            self._read(review.core.store)
            self._seen = shelf.end
        request = review.request
        resource = request.resource
        if resource.group == GROUP and resource.plural in EXEMPT:
            return ()
        place = (
            resource.group,
            resource.version,
            resource.plural,
            request.subresource,
            review.operation,
        )
        found = self._concerned.get(place)
        if found is None:
            found = self._concerned[place] = [
                each for each in self._webhooks if each.kind_for(review)
            ]
        return found

    def _read(self, store: Store) -> None:
        configurations = store.all(GROUP, self._plural)
        self._webhooks = [
            Webhook(spec) for each in configurations for spec in each.get("webhooks") or ()
        ]
        self._concerned.clear()

    def calls(self, review: Review) -> Iterator[Call]:
        """Those to ask, in order; each is decided when its turn comes, for the one before may
        have changed the object.
        """
        for webhook in self.concerned(review):
            if call := to_call(webhook, review):
                yield call


def to_call(webhook: Webhook, review: Review) -> Call | None:
    """Whether a webhook is to be asked about a write as it stands now."""
    if not webhook.selects(review):
        return None
    kind = webhook.kind_for(review)
    return Call(webhook, kind) if kind and webhook.conditions.hold(review, kind) else None


# Where a webhook's server is. Nothing listens behind a simulated Service, unless it says who
# stands in for it.


STAND_IN = "kscen.io/address"


@dataclass(frozen=True, slots=True)
class Address:
    """Where a webhook is: what the URL says, who is connected to, and whose certificate that
    must show.
    """

    url: str
    host: str
    port: int
    server_name: str
    ca_bundle: bytes = b""

    @classmethod
    def of_url(cls, url: str, ca_bundle: bytes) -> Address:
        parts = urlsplit(url)
        host = parts.hostname or ""
        return cls(url, host, parts.port or 443, host, ca_bundle)


def address_of(webhook: Webhook, store: Store) -> Address:
    if "url" in webhook.client:
        return Address.of_url(webhook.client["url"], webhook.ca_bundle)
    reference = webhook.client["service"]
    name, namespace, port = reference["name"], reference["namespace"], reference.get("port") or 443
    server_name = f"{name}.{namespace}.svc"
    url = f"https://{server_name}:{port}/{(reference.get('path') or '').lstrip('/')}"
    service = store.get(("", "services", namespace, name))
    asked = f'failed to call webhook: Post "{url}?timeout={webhook.timeout}s"'
    if service is None:
        raise CallError(f'{asked}: service "{name}" not found')
    stand_in = str((service["metadata"].get("annotations") or {}).get(STAND_IN, ""))
    host, _, own_port = stand_in.rpartition(":")
    if not host or not own_port.isdecimal():
        how = (
            f"annotate the service with {STAND_IN}=HOST:PORT of a server on this machine, or "
            "use clientConfig.url"
        )
        raise CallError(f'{asked}: nothing listens behind the simulated service "{name}": {how}')
    return Address(url, host.strip("[]"), int(own_port), server_name, webhook.ca_bundle)
