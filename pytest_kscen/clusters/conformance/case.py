"""Cases of the conformance kit: their client, their register, and transports to a server.

A case is a function of a client, registered by `@case` and run against every server.
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
MAX_POLLS, POLL_INTERVAL = 600, 0.1  # polls, and seconds of cluster time between them

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
    """Response of the server, decoded if it is JSON, otherwise text."""

    status: int
    headers: Mapping[str, str]
    body: Any

    def ok(self, status: int = 200) -> Any:
        assert self.status == status, f"expected {status}, got {self.status}: {self.body}"
        return self.body

    def refused(self, status: int, reason: str, message: str = "") -> CaseResponse:
        """Check that this is a Status with this code and reason, and a message that contains these
        words.
        """
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
        return [
            (cause.get("field", ""), cause["reason"])
            for cause in self.body["details"].get("causes", ())
        ]


class CaseClient:
    """Client of one case, with short paths in a namespace of its own. Objects outside the namespace
    are deleted at the end of the case.
    """

    def __init__(
        self,
        transport: CaseTransport,
        namespace: str,
        group_versions: Mapping[str, str] | None = None,
    ) -> None:
        """`group_versions` gives group and version of custom namespaced resources by their
        plural.
        """
        self.transport = transport
        self.namespace = namespace
        self._groups = {**_GROUP_OF, **(group_versions or {})}
        self._cluster_scoped: list[str] = []

    def path(self, short: str) -> str:
        """Return the full path of `configmaps/c` in the client's namespace, of `nodes/n`, or of a
        path from the root.
        """
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
        return _decode(self.transport.call(method, self.path(short), query, sent, payload))

    def get(self, short: str, **query: Any) -> CaseResponse:
        return self.call("GET", short, **query)

    def post(self, short: str, body: Any, **query: Any) -> CaseResponse:
        """Create an object; cluster-scoped ones are deleted at the end of the case."""
        answer = self.call("POST", short, body, **query)
        name = (
            answer.body.get("metadata", {}).get("name") if isinstance(answer.body, dict) else None
        )
        if answer.status == 201 and name and short.partition("/")[0] in _ROOTS:  # noqa: PLR2004
            self._cluster_scoped.append(f"{short}/{name}")
        return answer

    def put(self, short: str, body: Any, **query: Any) -> CaseResponse:
        return self.call("PUT", short, body, **query)

    def delete(self, short: str, body: Any = None, **query: Any) -> CaseResponse:
        return self.call("DELETE", short, body, **query)

    def patch(self, short: str, body: Any, kind: str = "merge", **query: Any) -> CaseResponse:
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
        stream = self.transport.stream(self.path(short), {"watch": "1", **query})
        try:
            yield stream
        finally:
            stream.close()

    def until(self, holds: Callable[[], Any]) -> Any:
        """Poll until `holds` returns a true value, for what controllers do in their own time;
        AssertionError after a minute of cluster time.
        """
        for _ in range(MAX_POLLS):
            if held := holds():
                return held
            self.transport.wait(POLL_INTERVAL)
        raise AssertionError(f"never came true: {holds}")

    def wait_for_service_account(self) -> None:
        """Wait until pods can be created: they need the namespace's service account."""
        self.until(lambda: self.get("serviceaccounts/default").status == 200)  # noqa: PLR2004

    def delete_cluster_scoped(self) -> None:
        for path in reversed(self._cluster_scoped):
            self.call(
                "PATCH",
                path,
                {"metadata": {"finalizers": None}},
                type="application/merge-patch+json",
            )
            self.delete(path)


def _decode(response: RawResponse) -> CaseResponse:
    headers = {name.lower(): value for name, value in response.headers.items()}
    is_json = response.body.startswith((b"{", b"[")) and "yaml" not in headers.get(
        "content-type", ""
    )
    body = orjson.loads(response.body) if is_json else response.body.decode(errors="replace")
    return CaseResponse(response.status, headers, body)


def next_events(stream: WatchedEvents, count: int) -> list[dict[str, Any]]:
    return [next(stream) for _ in range(count)]


def remaining_events(stream: WatchedEvents) -> list[dict[str, Any]]:
    """Return all events of a watch until the server ends it."""
    found = []
    with contextlib.suppress(StopIteration):
        while True:
            found.append(next(stream))
    return found


def value_at(value: Any, path: str) -> Any:
    """Return the part at a path such as `containers.0.name`."""
    for step in path.split("."):
        value = value[int(step)] if isinstance(value, list) else value[step]
    return value


NAMESPACE_PREFIX = "conformance-"


@dataclass(frozen=True, slots=True)
class Case:
    """Requirement that must hold on every server, with the parameters of its row."""

    name: str
    body: Callable[..., None]
    row: tuple[Any, ...] = ()

    def run(self, transport: CaseTransport, number: int) -> None:
        """Run in a namespace of its own, whose removal is left to the server."""
        client = CaseClient(transport, f"{NAMESPACE_PREFIX}{number}")
        client.call("POST", "/api/v1/namespaces", {"metadata": {"name": client.namespace}}).ok(201)
        try:
            self.body(client, *self.row)
        finally:
            client.delete_cluster_scoped()
            client.delete(f"/api/v1/namespaces/{client.namespace}")


CASES: list[Case] = []


def case(body: Callable[[CaseClient], None]) -> Callable[[CaseClient], None]:
    CASES.append(Case(_case_name(body), body))
    return body


def parametrized_case(
    rows: Iterable[tuple[Any, ...]],
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Register a case per row; a row begins with the name that distinguishes it from the others."""

    def register(body: Callable[..., None]) -> Callable[..., None]:
        CASES.extend(Case(f"{_case_name(body)}[{row[0]}]", body, row[1:]) for row in rows)
        return body

    return register


def _case_name(body: Callable[..., None]) -> str:
    return f"{body.__module__.rpartition('.')[2]}.{body.__name__}"


SOCKET_TIMEOUT = 30.0  # seconds of silence; the slowest answer, a contested eviction, takes ten
MAX_CONNECTIONS = 16  # of one HTTPS transport


@dataclass(frozen=True, slots=True)
class RawResponse:
    """Response as received: status, headers and undecoded body."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class WatchedEvents(Protocol):
    """Events of a watch. `next` on an ended watch raises StopIteration."""

    def __next__(self) -> dict[str, Any]: ...

    def close(self) -> None: ...


class CaseTransport(Protocol):
    """Way to send requests to a server, in this process or over HTTPS."""

    def call(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any],
        headers: Mapping[str, str],
        body: bytes,
    ) -> RawResponse: ...

    def stream(self, path: str, query: Mapping[str, Any]) -> WatchedEvents:
        """Open a watch; AssertionError with the response if it is refused."""

    def wait(self, seconds: float) -> None:
        """Let this many seconds of cluster time pass."""


class InProcessTransport:
    """Transport to an embedded cluster at the level of HTTP requests, without a socket."""

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
            answer.status, answer.headers, self._runner.call(_read_all(answer.stream))
        )

    def stream(self, path: str, query: Mapping[str, Any]) -> WatchedEvents:
        answer = self._runner.ask(self._wire.call("GET", path, urlencode(query), {}, b""))
        assert answer.stream, answer.body
        return _InProcessWatch(self._runner, answer.stream)

    def wait(self, seconds: float) -> None:
        self._runner.advance(seconds)


async def _read_all(stream: Any) -> bytes:
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
    """Transport to any server by a kubeconfig. `wait` lets time pass on clusters whose time does
    not pass by itself.
    """

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
        self._lines = _split_lines(answer)

    def __next__(self) -> dict[str, Any]:
        return orjson.loads(next(self._lines))  # type: ignore[no-any-return]

    def close(self) -> None:
        """Close the generator too: left to the garbage collector, it would return its connection
        while the pool is locked.
        """
        self._lines.close()
        self._answer.close()


def _split_lines(answer: Any) -> Generator[bytes, None, None]:
    rest = b""
    for chunk in answer.stream(1 << 16):
        *lines, rest = (rest + chunk).split(b"\n")
        yield from filter(None, lines)
