"""Who visits a server in a case: requests by short paths in a namespace of its own, and answers that can be asserted on."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pytest_kscen.clusters.conformance.transport import Raw, Stream, Transport

AGENT = "conformance"
PATIENCE, PAUSE = 600, 0.1  # looks, and seconds of cluster time between them

GROUPS = {
    "apps/v1": ("controllerrevisions", "daemonsets", "deployments", "replicasets", "statefulsets"),
    "autoscaling/v2": ("horizontalpodautoscalers",),
    "batch/v1": ("cronjobs", "jobs"),
    "coordination.k8s.io/v1": ("leases",),
    "discovery.k8s.io/v1": ("endpointslices",),
    "networking.k8s.io/v1": ("ingresses", "networkpolicies"),
    "policy/v1": ("poddisruptionbudgets",),
    "rbac.authorization.k8s.io/v1": ("rolebindings", "roles"),
}
CLUSTER_WIDE = {
    "admissionregistration.k8s.io/v1": ("mutatingwebhookconfigurations", "validatingwebhookconfigurations"),
    "apiextensions.k8s.io/v1": ("customresourcedefinitions",),
    "networking.k8s.io/v1": ("ingressclasses",),
    "rbac.authorization.k8s.io/v1": ("clusterrolebindings", "clusterroles"),
    "scheduling.k8s.io/v1": ("priorityclasses",),
    "storage.k8s.io/v1": ("csidrivers", "storageclasses", "volumeattachments"),
}
_GROUP_OF = {plural: group for group, plurals in GROUPS.items() for plural in plurals}
_ROOTS = {plural: f"/apis/{group}" for group, plurals in CLUSTER_WIDE.items() for plural in plurals} | dict.fromkeys(
    ("namespaces", "nodes", "persistentvolumes"), "/api/v1"
)


@dataclass(frozen=True, slots=True)
class Answer:
    """What the server said."""

    status: int
    headers: Mapping[str, str]
    body: Any

    def ok(self, status: int = 200) -> Any:
        """The body of an answer that must have this status."""
        assert self.status == status, f"expected {status}, got {self.status}: {self.body}"
        return self.body

    def refused(self, status: int, reason: str, message: str = "") -> Answer:
        """A Status with this code and reason whose message contains these words."""
        assert (self.status, self.body.get("kind")) == (status, "Status"), f"expected {status}, got {self.status}: {self.body}"
        assert self.body["status"] == "Failure"
        assert self.body["code"] == status
        assert self.body.get("reason", "") == reason, self.body
        assert message in self.body["message"], self.body["message"]
        return self

    @property
    def causes(self) -> list[tuple[str, str]]:
        """The (field, reason) pairs of a refusal's details."""
        return [(cause.get("field", ""), cause["reason"]) for cause in self.body["details"].get("causes", ())]


class Visitor:
    """One case's client."""

    def __init__(self, road: Transport, namespace: str, also: Mapping[str, str] | None = None) -> None:
        """`also` gives the group and version of namespaced plurals that are not Kubernetes' own."""
        self.road = road
        self.namespace = namespace
        self._groups = {**_GROUP_OF, **(also or {})}
        self._left_behind: list[str] = []

    # --- requests ---

    def path(self, short: str) -> str:
        """`configmaps/c` in the visitor's namespace, `nodes/n`, or a path from the root."""
        if short.startswith("/"):
            return short
        plural = short.partition("/")[0]
        if root := _ROOTS.get(plural):
            return f"{root}/{short}"
        group = self._groups.get(plural)
        return f"/apis/{group}/namespaces/{self.namespace}/{short}" if group else f"/api/v1/namespaces/{self.namespace}/{short}"

    def call(
        self,
        method: str,
        short: str,
        body: Any = None,
        *,
        type: str = "application/json",
        headers: Mapping[str, str] | None = None,
        **query: Any,
    ) -> Answer:
        return self.send(method, short, body, type, query, headers or {})

    def send(  # noqa: PLR0917  # a request's parts, in the order in which HTTP has them
        self, method: str, short: str, body: Any, type: str, query: Mapping[str, Any], headers: Mapping[str, str] = {}
    ) -> Answer:
        payload = body if isinstance(body, bytes) else b"" if body is None else orjson.dumps(body)
        sent = {"Accept": "application/json", "User-Agent": AGENT, **({"Content-Type": type} if payload else {}), **headers}
        return _understood(self.road.call(method, self.path(short), query, sent, payload))

    def get(self, short: str, **query: Any) -> Answer:
        return self.call("GET", short, **query)

    def post(self, short: str, body: Any, **query: Any) -> Answer:
        """Create; what lies outside of the namespace is taken away when the case ends."""
        answer = self.call("POST", short, body, **query)
        name = answer.body.get("metadata", {}).get("name") if isinstance(answer.body, dict) else None
        if answer.status == 201 and name and short.partition("/")[0] in _ROOTS:  # noqa: PLR2004
            self._left_behind.append(f"{short}/{name}")
        return answer

    def put(self, short: str, body: Any, **query: Any) -> Answer:
        return self.call("PUT", short, body, **query)

    def delete(self, short: str, body: Any = None, **query: Any) -> Answer:
        return self.call("DELETE", short, body, **query)

    def patch(self, short: str, body: Any, kind: str = "merge", **query: Any) -> Answer:
        """kind: json, merge, strategic or apply."""
        suffix = {"json": "json-patch+json", "merge": "merge-patch+json", "strategic": "strategic-merge-patch+json"}
        return self.call("PATCH", short, body, type=f"application/{suffix.get(kind, 'apply-patch+yaml')}", **query)

    def apply(self, short: str, body: Any, manager: str, **query: Any) -> Answer:
        return self.patch(short, body, "apply", fieldManager=manager, **query)

    @contextlib.contextmanager
    def watch(self, short: str, **query: Any) -> Iterator[Stream]:
        stream = self.road.stream(self.path(short), {"watch": "1", **query})
        try:
            yield stream
        finally:
            stream.close()

    # --- waiting and leaving ---

    def until(self, holds: Callable[[], Any]) -> Any:
        """Wait for what controllers do in their own time."""
        for _ in range(PATIENCE):
            if held := holds():
                return held
            self.road.wait(PAUSE)
        raise AssertionError(f"never came true: {holds}")

    def settle(self) -> None:
        """Wait until pods may be made here: they need the namespace's service account."""
        self.until(lambda: self.get("serviceaccounts/default").status == 200)  # noqa: PLR2004

    def leave(self) -> None:
        for path in reversed(self._left_behind):
            self.call("PATCH", path, {"metadata": {"finalizers": None}}, type="application/merge-patch+json")
            self.delete(path)


def _understood(raw: Raw) -> Answer:
    headers = {name.lower(): value for name, value in raw.headers.items()}
    is_json = raw.body.startswith((b"{", b"[")) and "yaml" not in headers.get("content-type", "")
    body = orjson.loads(raw.body) if is_json else raw.body.decode(errors="replace")
    return Answer(raw.status, headers, body)


def events(stream: Stream, count: int) -> list[dict[str, Any]]:
    """The next events of a watch."""
    return [next(stream) for _ in range(count)]


def rest(stream: Stream) -> list[dict[str, Any]]:
    """All that a watch still says until the server ends it."""
    found = []
    with contextlib.suppress(StopIteration):
        while True:
            found.append(next(stream))
    return found
