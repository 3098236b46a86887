"""A case's life: written once as a function of a visitor, kept in the register, run against
every server.
"""

from __future__ import annotations

import contextlib
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlencode

import orjson

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Callable, Generator, Iterable, Iterator, Mapping

    from pytest_kscen.clock import Runner
    from pytest_kscen.clusters.embedded import EmbeddedCluster


USER_AGENT = "conformance"
MAX_POLLS, POLL_INTERVAL = 600, 0.1  # looks, and seconds of cluster time between them

NAMESPACED_GROUPS = {
    "apps/v1": ("controllerrevisions", "daemonsets", "deployments", "replicasets", "statefulsets"),
    "autoscaling/v2": ("horizontalpodautoscalers",),
    "batch/v1": ("cronjobs", "jobs"),
    "coordination.k8s.io/v1": ("leases",),
    "discovery.k8s.io/v1": ("endpointslices",),
    "networking.k8s.io/v1": ("ingresses", "networkpolicies"),
    "policy/v1": ("poddisruptionbudgets",),
    "rbac.authorization.k8s.io/v1": ("rolebindings", "roles"),
}
CLUSTER_SCOPED_GROUPS = {
    "admissionregistration.k8s.io/v1": (
        "mutatingwebhookconfigurations",
        "validatingwebhookconfigurations",
    ),
    "apiextensions.k8s.io/v1": ("customresourcedefinitions",),
    "networking.k8s.io/v1": ("ingressclasses",),
    "rbac.authorization.k8s.io/v1": ("clusterrolebindings", "clusterroles"),
    "scheduling.k8s.io/v1": ("priorityclasses",),
    "storage.k8s.io/v1": ("csidrivers", "storageclasses", "volumeattachments"),
}
_GROUP_OF = {plural: group for group, plurals in NAMESPACED_GROUPS.items() for plural in plurals}
_ROOTS = {
    plural: f"/apis/{group}"
    for group, plurals in CLUSTER_SCOPED_GROUPS.items()
    for plural in plurals
} | dict.fromkeys(("namespaces", "nodes", "persistentvolumes"), "/api/v1")


@dataclass(frozen=True, slots=True)
class CaseResponse:
    """What the server said."""

    status: int
    headers: Mapping[str, str]
    body: Any

    def ok(self, status: int = 200) -> Any:
        """The body of an answer that must have this status."""
        assert self.status == status, f"expected {status}, got {self.status}: {self.body}"
        return self.body

    def refused(self, status: int, reason: str, message: str = "") -> CaseResponse:
        """A Status with this code and reason whose message contains these words."""
        assert (self.status, self.body.get("kind")) == (status, "Status"), (
            f"expected {status}, got {self.status}: {self.body}"
        )
        assert self.body["status"] == "Failure"
        assert self.body["code"] == status
        assert self.body.get("reason", "") == reason, self.body
        assert message in self.body["message"], self.body["message"]
        return self

    @property
    def causes(self) -> list[tuple[str, str]]:
        """The (field, reason) pairs of a refusal's details."""
        return [
            (cause.get("field", ""), cause["reason"])
            for cause in self.body["details"].get("causes", ())
        ]


class CaseClient:
    """One case's client."""

    def __init__(
        self, road: CaseTransport, namespace: str, also: Mapping[str, str] | None = None
    ) -> None:
        """`also` gives the group and version of namespaced plurals that are not Kubernetes' own."""
        self.road = road
        self.namespace = namespace
        self._groups = {**_GROUP_OF, **(also or {})}
        self._left_behind: list[str] = []

    def path(self, short: str) -> str:
        """`configmaps/c` in the visitor's namespace, `nodes/n`, or a path from the root."""
        if short.startswith("/"):
            return short
        plural = short.partition("/")[0]
        if root := _ROOTS.get(plural):
            return f"{root}/{short}"
        group = self._groups.get(plural)
        return (
            f"/apis/{group}/namespaces/{self.namespace}/{short}"
            if group
            else f"/api/v1/namespaces/{self.namespace}/{short}"
        )

    def call(
        self,
        method: str,
        short: str,
        body: Any = None,
        *,
        type: str = "application/json",
        headers: Mapping[str, str] | None = None,
        **query: Any,
    ) -> CaseResponse:
        return self.send(method, short, body, type, query, headers or {})

    def send(  # noqa: PLR0917  # a request's parts, in the order in which HTTP has them
        self,
        method: str,
        short: str,
        body: Any,
        type: str,
        query: Mapping[str, Any],
        headers: Mapping[str, str] = {},
    ) -> CaseResponse:
        payload = body if isinstance(body, bytes) else b"" if body is None else orjson.dumps(body)
        sent = {
            "Accept": "application/json",
            "User-Agent": USER_AGENT,
            **({"Content-Type": type} if payload else {}),
            **headers,
        }
        return _understood(self.road.call(method, self.path(short), query, sent, payload))

    def get(self, short: str, **query: Any) -> CaseResponse:
        return self.call("GET", short, **query)

    def post(self, short: str, body: Any, **query: Any) -> CaseResponse:
        """Create; what lies outside of the namespace is taken away when the case ends."""
        answer = self.call("POST", short, body, **query)
        name = (
            answer.body.get("metadata", {}).get("name") if isinstance(answer.body, dict) else None
        )
        if answer.status == 201 and name and short.partition("/")[0] in _ROOTS:  # noqa: PLR2004
            self._left_behind.append(f"{short}/{name}")
        return answer

    def put(self, short: str, body: Any, **query: Any) -> CaseResponse:
        return self.call("PUT", short, body, **query)

    def delete(self, short: str, body: Any = None, **query: Any) -> CaseResponse:
        return self.call("DELETE", short, body, **query)

    def patch(self, short: str, body: Any, kind: str = "merge", **query: Any) -> CaseResponse:
        """kind: json, merge, strategic or apply."""
        suffix = {
            "json": "json-patch+json",
            "merge": "merge-patch+json",
            "strategic": "strategic-merge-patch+json",
        }
        return self.call(
            "PATCH",
            short,
            body,
            type=f"application/{suffix.get(kind, 'apply-patch+yaml')}",
            **query,
        )

    def apply(self, short: str, body: Any, manager: str, **query: Any) -> CaseResponse:
        return self.patch(short, body, "apply", fieldManager=manager, **query)

    @contextlib.contextmanager
    def watch(self, short: str, **query: Any) -> Iterator[WatchedEvents]:
        stream = self.road.stream(self.path(short), {"watch": "1", **query})
        try:
            yield stream
        finally:
            stream.close()

    def until(self, holds: Callable[[], Any]) -> Any:
        """Wait for what controllers do in their own time."""
        for _ in range(MAX_POLLS):
            if held := holds():
                return held
            self.road.wait(POLL_INTERVAL)
        raise AssertionError(f"never came true: {holds}")

    def settle(self) -> None:
        """Wait until pods may be made here: they need the namespace's service account."""
        self.until(lambda: self.get("serviceaccounts/default").status == 200)  # noqa: PLR2004

    def leave(self) -> None:
        for path in reversed(self._left_behind):
            self.call(
                "PATCH",
                path,
                {"metadata": {"finalizers": None}},
                type="application/merge-patch+json",
            )
            self.delete(path)


def _understood(raw: RawResponse) -> CaseResponse:
    headers = {name.lower(): value for name, value in raw.headers.items()}
    is_json = raw.body.startswith((b"{", b"[")) and "yaml" not in headers.get("content-type", "")
    body = orjson.loads(raw.body) if is_json else raw.body.decode(errors="replace")
    return CaseResponse(raw.status, headers, body)


def next_events(stream: WatchedEvents, count: int) -> list[dict[str, Any]]:
    """The next events of a watch."""
    return [next(stream) for _ in range(count)]


def remaining_events(stream: WatchedEvents) -> list[dict[str, Any]]:
    """All that a watch still says until the server ends it."""
    found = []
    with contextlib.suppress(StopIteration):
        while True:
            found.append(next(stream))
    return found


NAMESPACE_PREFIX = "conformance-"


@dataclass(frozen=True, slots=True)
class Case:
    """One thing that must hold on every server."""

    name: str
    body: Callable[..., None]
    row: tuple[Any, ...] = ()

    def run(self, road: CaseTransport, number: int) -> None:
        """In a namespace of its own, which is left to the server to clear away."""
        visitor = CaseClient(road, f"{NAMESPACE_PREFIX}{number}")
        visitor.call("POST", "/api/v1/namespaces", {"metadata": {"name": visitor.namespace}}).ok(
            201
        )
        try:
            self.body(visitor, *self.row)
        finally:
            visitor.leave()
            visitor.delete(f"/api/v1/namespaces/{visitor.namespace}")


CASES: list[Case] = []


def case(body: Callable[[CaseClient], None]) -> Callable[[CaseClient], None]:
    """Put a case into the register."""
    CASES.append(Case(_case_name(body), body))
    return body


def parametrized_case(
    rows: Iterable[tuple[Any, ...]],
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """One case for each row; a row begins with the words that tell it from the others."""

    def register(body: Callable[..., None]) -> Callable[..., None]:
        CASES.extend(Case(f"{_case_name(body)}[{row[0]}]", body, row[1:]) for row in rows)
        return body

    return register


def _case_name(body: Callable[..., None]) -> str:
    return f"{body.__module__.rpartition('.')[2]}.{body.__name__}"


SOCKET_TIMEOUT = 30.0  # seconds of silence; the slowest answer, a contested eviction, takes ten
MAX_CONNECTIONS = 16  # that may use one road over HTTPS


@dataclass(frozen=True, slots=True)
class RawResponse:
    """An answer as it came."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class WatchedEvents(Protocol):
    """A watch's lines. `next` on a stream that has ended raises StopIteration."""

    def __next__(self) -> dict[str, Any]: ...

    def close(self) -> None: ...


class CaseTransport(Protocol):
    """A road."""

    def call(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any],
        headers: Mapping[str, str],
        body: bytes,
    ) -> RawResponse: ...

    def stream(self, path: str, query: Mapping[str, Any]) -> WatchedEvents:
        """Open a watch; a refusal is an AssertionError that shows the answer."""

    def wait(self, seconds: float) -> None:
        """Let cluster time pass."""


class InProcessTransport:
    """The embedded cluster's wire, without a socket."""

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self._wire = cluster.wire
        self._runner = cluster.runner

    def call(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any],
        headers: Mapping[str, str],
        body: bytes,
    ) -> RawResponse:
        lowered = {name.lower(): value for name, value in headers.items()}
        answer = self._runner.ask(self._wire.call(method, path, urlencode(query), lowered, body))
        if answer.stream is None:
            return RawResponse(answer.status, answer.headers, answer.body)
        return RawResponse(
            answer.status, answer.headers, self._runner.call(_drained(answer.stream))
        )

    def stream(self, path: str, query: Mapping[str, Any]) -> WatchedEvents:
        answer = self._runner.ask(self._wire.call("GET", path, urlencode(query), {}, b""))
        assert answer.stream, answer.body
        return _InProcessWatch(self._runner, answer.stream)

    def wait(self, seconds: float) -> None:
        self._runner.advance(seconds)


async def _drained(stream: Any) -> bytes:
    return b"".join([chunk async for chunk in stream])


class _InProcessWatch:
    def __init__(self, runner: Runner, stream: Any) -> None:
        self._runner = runner
        self._stream = stream
        self._buffered: list[bytes] = []

    def __next__(self) -> dict[str, Any]:
        while not self._buffered:
            try:
                chunk = self._runner.ask(self._stream.__anext__())
            except StopAsyncIteration:
                raise StopIteration from None
            self._buffered = [line for line in chunk.split(b"\n") if line]
        return orjson.loads(self._buffered.pop(0))  # type: ignore[no-any-return]

    def close(self) -> None:
        self._stream.close()


class HttpsTransport:
    """Any server, by a kubeconfig; `wait` is how its time passes, if not by itself."""

    def __init__(
        self, kubeconfig: pathlib.Path, wait: Callable[[float], None] | None = None
    ) -> None:
        import urllib3

        from pytest_kscen.kube.remote import access_of, configuration_of

        access = access_of(configuration_of(kubeconfig))
        self._url = access.server
        self._headers = {"Authorization": access.authorization}
        self._pool = urllib3.PoolManager(
            ssl_context=access.tls, retries=False, timeout=SOCKET_TIMEOUT, maxsize=MAX_CONNECTIONS
        )
        self.wait = wait or _wait

    def call(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any],
        headers: Mapping[str, str],
        body: bytes,
    ) -> RawResponse:
        url = f"{self._url}{path}{'?' if query else ''}{urlencode(query)}"
        answer = self._pool.request(
            method, url, headers={**self._headers, **headers}, body=body or None
        )
        return RawResponse(answer.status, dict(answer.headers), answer.data)

    def stream(self, path: str, query: Mapping[str, Any]) -> WatchedEvents:
        url = f"{self._url}{path}?{urlencode(query)}"
        answer = self._pool.request("GET", url, headers=self._headers, preload_content=False)
        assert answer.status == 200, answer.data  # noqa: PLR2004
        return _HttpsWatch(answer)


def _wait(seconds: float) -> None:
    threading.Event().wait(seconds)


class _HttpsWatch:
    def __init__(self, answer: Any) -> None:
        self._answer = answer
        self._lines = _lines_of(answer)

    def __next__(self) -> dict[str, Any]:
        return orjson.loads(next(self._lines))  # type: ignore[no-any-return]

    def close(self) -> None:
        """End the reading as well: left to the garbage collector, it would give its connection
        back while the pool is locked.
        """
        self._lines.close()
        self._answer.close()


def _lines_of(answer: Any) -> Generator[bytes, None, None]:
    rest = b""
    for chunk in answer.stream(1 << 16):
        *lines, rest = (rest + chunk).split(b"\n")
        yield from filter(None, lines)
