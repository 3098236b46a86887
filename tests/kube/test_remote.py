"""The remote Api against a server that says what each test tells it to say."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import ipaddress
import json
import ssl
from typing import Any

import pytest
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from pytest_kscen.clock import WallRunner
from pytest_kscen.kube.informer import Informer
from pytest_kscen.kube.remote import Access, Connection, RemoteApi, access_of, configuration_of
from pytest_kscen.kube.remote import connection as patience
from pytest_kscen.kube.requests import Event
from pytest_kscen.objects.errors import ApiError, NotFound, TooManyRequests, Unauthorized
from pytest_kscen.objects.resources import CONFIG_MAPS, DEPLOYMENTS, NODES, PODS, Resource

ROLES = Resource("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", namespaced=False)


class Scripted:
    """A server with a script: each request gets the next answer, and is kept with its body."""

    def __init__(self, loop: WallRunner) -> None:
        self.loop = loop
        self.script: list[Any] = []
        self.asked: list[str] = []
        self.bodies: list[Any] = []
        self.headers: list[Any] = []
        self.url = ""

    def says(self, *answers: Any) -> None:
        self.script += answers

    async def start(self) -> None:
        app = web.Application()
        app.router.add_route("*", "/{tail:.*}", self.answer)
        self.runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self.runner.setup()
        self.url = await self.serve()

    async def serve(self, tls: ssl.SSLContext | None = None) -> str:
        """Open another port."""
        await web.TCPSite(self.runner, "127.0.0.1", 0, ssl_context=tls).start()
        return f"{'https' if tls else 'http'}://127.0.0.1:{self.runner.addresses[-1][1]}"

    async def answer(self, request: web.Request) -> web.StreamResponse:
        text = await request.text()
        self.asked.append(f"{request.method} {request.raw_path}")
        self.bodies.append(json.loads(text) if text else None)
        self.headers.append(request.headers)
        answer = self.script.pop(0) if self.script else {}
        if callable(answer):
            return await answer(request)
        if isinstance(answer, web.StreamResponse):
            return answer
        return web.json_response(answer)


@pytest.fixture
def runner():
    runner = WallRunner()
    yield runner
    runner.close()


@pytest.fixture
def server(runner):
    server = Scripted(runner)
    runner.call(server.start())
    yield server
    runner.call(server.runner.cleanup())


class Hasty:
    """A clock on which nothing takes time; it remembers what was to be waited for."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    def now(self) -> float:
        return sum(self.slept)

    async def sleep(self, seconds: float, *, background: bool = False) -> None:
        self.slept.append(seconds)


@pytest.fixture
def clock():
    return Hasty()


@pytest.fixture
def connection(runner, server, clock):
    connection = Connection(Access(server.url), clock)
    yield connection
    runner.call(connection.close())


@pytest.fixture
def api(connection):
    return RemoteApi(connection)


def refusal(code: int, reason: str, message: str, headers: dict[str, str] | None = None) -> web.Response:
    status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": message}
    return web.json_response(status, status=code, headers=headers)


def lines(*events: tuple[str, str], ends: str = "") -> Any:
    """A watch's stream; it may end with half a line, or break off."""

    async def stream(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for type_, name in events:
            await response.write(json.dumps({"type": type_, "object": {"metadata": {"name": name}}}).encode() + b"\n")
        if ends == "half a line":
            await response.write(b'{"type": "ADDED", "obj')
        if ends == "breaking off":
            request.transport.abort()
        if ends == "never":
            await asyncio.Event().wait()
        return response

    return stream


async def drop(request: web.Request) -> web.StreamResponse:
    request.transport.abort()
    return web.Response()


async def names(watch: Any) -> list[str]:
    return [event.object["metadata"]["name"] async for event in watch]


# --- how a call is spelt on the wire ---

POD = {"metadata": {"name": "p", "namespace": "ns"}}


@pytest.mark.parametrize(
    ("call", "wire", "body"),
    [
        (lambda api: api.get(PODS, "p", "ns"), "GET /api/v1/namespaces/ns/pods/p", None),
        (
            lambda api: api.get(DEPLOYMENTS, "d", "ns", subresource="scale"),
            "GET /apis/apps/v1/namespaces/ns/deployments/d/scale",
            None,
        ),
        (lambda api: api.get(NODES, "n", "ignored"), "GET /api/v1/nodes/n", None),
        (lambda api: api.get(ROLES, "system:node"), "GET /apis/rbac.authorization.k8s.io/v1/clusterroles/system:node", None),
        (lambda api: api.get(PODS, "a/b?c", "ns"), "GET /api/v1/namespaces/ns/pods/a%2Fb%3Fc", None),
        (lambda api: api.create(PODS, POD), "POST /api/v1/namespaces/ns/pods", POD),
        (
            lambda api: api.create(PODS, POD, dry_run=True, field_manager="me"),
            "POST /api/v1/namespaces/ns/pods?dryRun=All&fieldManager=me",
            POD,
        ),
        (
            lambda api: api.create(PODS, {}, "ns", name="p", subresource="eviction"),
            "POST /api/v1/namespaces/ns/pods/p/eviction",
            {},
        ),
        (lambda api: api.update(PODS, POD, subresource="status"), "PUT /api/v1/namespaces/ns/pods/p/status", POD),
        (lambda api: api.patch(PODS, "p", {"a": 1}, "ns"), "PATCH /api/v1/namespaces/ns/pods/p", {"a": 1}),
        (
            lambda api: api.apply(PODS, POD, field_manager="me", force=True),
            "PATCH /api/v1/namespaces/ns/pods/p?fieldManager=me&force=true",
            POD,
        ),
        (lambda api: api.delete(PODS, "p", "ns"), "DELETE /api/v1/namespaces/ns/pods/p", None),
        (
            lambda api: api.delete(PODS, "p", "ns", grace_period=0, propagation="Orphan", precondition_uid="u"),
            "DELETE /api/v1/namespaces/ns/pods/p",
            {
                "kind": "DeleteOptions",
                "apiVersion": "v1",
                "gracePeriodSeconds": 0,
                "propagationPolicy": "Orphan",
                "preconditions": {"uid": "u"},
            },
        ),
        (
            lambda api: api.delete_collection(PODS, "ns", labels="a in (b,c)"),
            "DELETE /api/v1/namespaces/ns/pods?labelSelector=a+in+%28b%2Cc%29",
            None,
        ),
        (lambda api: api.resource_of("v1", "Pod"), "GET /api/v1", None),
    ],
)
def test_a_call_is_one_request(server, api, call, wire, body):
    server.says({"resources": [{"name": "pods", "kind": "Pod", "namespaced": True}]})
    server.loop.call(call(api))
    assert (server.asked, server.bodies) == ([wire], [body])


def test_a_list_says_where_it_stands_and_its_items_what_they_are(runner, server, api):
    server.says({"metadata": {"resourceVersion": "7", "continue": "more"}, "items": [{"metadata": {"name": "p"}}]})
    listing = runner.call(api.list(PODS, labels="a=b", fields="x=y", limit=1, continue_token="c", resource_version="0"))
    assert server.asked == ["GET /api/v1/pods?labelSelector=a%3Db&fieldSelector=x%3Dy&limit=1&continue=c&resourceVersion=0"]
    assert (listing.resource_version, listing.continue_token) == ("7", "more")
    assert listing.items == [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}]


def test_a_list_of_nothing_is_empty(runner, server, api):
    server.says({"metadata": {"resourceVersion": "7"}, "items": None})
    assert runner.call(api.list(PODS)).items == []


def test_a_log_is_text(runner, server, api):
    server.says(web.Response(body=b"one\ntwo \xff\n"))
    assert runner.call(api.log("p", "ns", container="c")) == "one\ntwo \N{REPLACEMENT CHARACTER}\n"
    assert server.asked == ["GET /api/v1/namespaces/ns/pods/p/log?container=c"]


def test_every_actor_goes_by_its_name(runner, server, api):
    for named in (api, api.named("chaos")):
        runner.call(named.get(NODES, "n"))
    assert [headers["User-Agent"] for headers in server.headers] == ["pytest-kscen", "chaos"]


def test_patches_say_what_they_are(runner, server, api):
    for kind in ("application/merge-patch+json", "application/json-patch+json"):
        runner.call(api.patch(NODES, "n", {}, patch_type=kind))
        assert server.headers[-1]["Content-Type"] == kind


# --- refusals and losses ---


def test_a_refusal_is_the_error_that_the_server_means(runner, server, api):
    server.says(refusal(404, "NotFound", 'pods "p" not found'))
    with pytest.raises(NotFound, match=r'^pods "p" not found$') as refused:
        runner.call(api.get(PODS, "p", "ns"))
    assert refused.value.status["reason"] == "NotFound"


def test_a_refusal_in_plain_words_is_an_api_error_too(runner, server, api):
    server.says(web.Response(status=502, text="<html>bad gateway</html>"))
    with pytest.raises(ApiError, match="bad gateway") as refused:
        runner.call(api.create(PODS, {}, "ns"))
    assert refused.value.status["code"] == 502


def test_what_the_server_wants_repeated_is_repeated_whatever_it_is(runner, server, api, clock):
    server.says(refusal(429, "TooManyRequests", "later", {"Retry-After": "3"}), {"done": True})
    assert runner.call(api.create(PODS, POD)) == {"done": True}
    assert server.bodies == [POD, POD]
    assert clock.slept == [3.0]


def test_an_eviction_that_must_wait_for_others_is_not_repeated(runner, server, api):
    server.says(refusal(429, "TooManyRequests", "Cannot evict pod"))
    with pytest.raises(TooManyRequests, match="Cannot evict pod"):
        runner.call(api.create(PODS, {}, "ns", name="p", subresource="eviction"))
    assert len(server.asked) == 1


def test_a_read_whose_connection_broke_is_asked_again(runner, server, api):
    server.says(drop, lines(("ADDED", "cut"), ends="breaking off"), {"found": True})
    assert runner.call(api.get(PODS, "p", "ns")) == {"found": True}
    assert len(server.asked) == 3


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
def test_a_write_whose_connection_broke_may_have_happened(runner, server, api, method):
    calls = {"POST": api.create(PODS, POD), "PUT": api.update(PODS, POD), "DELETE": api.delete(PODS, "p", "ns")}
    server.says({}, drop)
    runner.call(api.get(NODES, "n"))
    with pytest.raises(ConnectionError, match=rf"^{method} http://127\.0\.0\.1:\d+/api/v1/namespaces/ns/pods"):
        runner.call(calls.pop(method))
    assert len(server.asked) == 2
    for other in calls.values():
        other.close()


def test_a_server_that_is_gone_is_given_up(runner, server, api, clock):
    server.says(*[drop] * 9)
    with pytest.raises(ConnectionError, match="Server disconnected"):
        runner.call(api.get(PODS, "p", "ns"))
    assert len(server.asked) == 5
    assert clock.slept == [0.1, 0.2, 0.4, 0.8]


def test_credentials_that_expired_are_read_again_once(runner, server):
    tokens = ["Bearer new", "Bearer new"]
    reload = lambda: Access(server.url, tokens.pop())  # noqa: E731
    connection = Connection(Access(server.url, "Bearer old"), runner.clock, reload)
    server.says(refusal(401, "Unauthorized", "Unauthorized"), {"known": True}, refusal(401, "Unauthorized", "Unauthorized"))
    assert runner.call(RemoteApi(connection).get(NODES, "n")) == {"known": True}
    assert [headers["Authorization"] for headers in server.headers] == ["Bearer old", "Bearer new"]
    with pytest.raises(Unauthorized):
        runner.call(RemoteApi(connection).get(NODES, "n"))
    assert len(server.asked) == 3
    runner.call(connection.close())


def test_many_at_once_are_answered_in_bounded_parallel(runner, server, api, monkeypatch):
    at_once = most = 0

    async def busy(_: web.Request) -> web.Response:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        await asyncio.sleep(0.001)
        at_once -= 1
        return web.json_response({})

    server.says(*[busy] * 300)

    async def ask_all() -> list[Any]:
        return await asyncio.gather(*(api.get(NODES, "n") for _ in range(300)))

    assert runner.call(ask_all()) == [{}] * 300
    assert 1 < most <= patience.IN_FLIGHT


# --- watches ---


def test_a_watch_ends_when_the_server_ends_it(runner, server, api):
    server.says(lines(("ADDED", "a"), ("MODIFIED", "a")))
    watch = api.watch(PODS, "ns", resource_version="5", bookmarks=True, timeout=1.5)
    events = runner.call(asyncio.wait_for(_all(watch), 5))
    assert server.asked == ["GET /api/v1/namespaces/ns/pods?resourceVersion=5&timeoutSeconds=2&allowWatchBookmarks=true&watch=true"]
    assert events == [Event("ADDED", {"metadata": {"name": "a"}}), Event("MODIFIED", {"metadata": {"name": "a"}})]


async def _all(watch: Any) -> list[Event]:
    return [event async for event in watch]


def test_a_line_may_be_of_any_length(runner, server, api):
    long = "x" * 3_000_000
    server.says(lines(("ADDED", long), ("ADDED", "b")))
    assert runner.call(names(api.watch(PODS))) == [long, "b"]


@pytest.mark.parametrize("ends", ["half a line", "breaking off"])
def test_a_watch_that_breaks_off_says_so_after_what_came_whole(runner, server, api, ends):
    server.says(lines(("ADDED", "a"), ends=ends))
    seen: list[str] = []

    async def read() -> None:
        async for event in api.watch(PODS):
            seen.append(event.object["metadata"]["name"])  # noqa: PERF401  # what came before it broke off counts

    with pytest.raises(ConnectionError, match=r"the watch /api/v1/pods\?watch=true broke off"):
        runner.call(read())
    assert seen == ["a"]


def test_a_watch_that_is_refused_says_why(runner, server, api):
    server.says(refusal(403, "Forbidden", "pods is forbidden"))
    with pytest.raises(ApiError, match="pods is forbidden"):
        runner.call(names(api.watch(PODS)))


async def silent(_: web.Request) -> web.StreamResponse:
    await asyncio.Event().wait()
    raise AssertionError


@pytest.mark.parametrize("answer", [silent, lines(ends="never")], ids=["before it is open", "while it is open"])
def test_a_closed_watch_ends_at_once_for_who_reads_it(runner, server, api, connection, answer):
    server.says(answer)

    async def close_while_reading() -> list[str]:
        watch = api.watch(PODS)
        reader = asyncio.ensure_future(names(watch))
        await asyncio.sleep(0.05)
        watch.close()
        watch.close()
        return await asyncio.wait_for(reader, 1)

    assert runner.call(close_while_reading()) == []
    assert connection._streams == {}


def test_a_reader_that_is_cancelled_is_cancelled(runner, server, api, connection):
    server.says(silent)

    async def cancel() -> None:
        reader = asyncio.ensure_future(names(api.watch(PODS)))
        await asyncio.sleep(0.05)
        reader.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reader

    runner.call(cancel())
    assert connection._streams == {}


def test_a_closed_watch_is_empty(runner, api):
    watch = api.watch(PODS)
    watch.close()
    assert runner.call(names(watch)) == []


def test_closing_the_connection_ends_its_watches_and_refuses_the_rest(runner, server, api, connection):
    server.says(lines(("ADDED", "a"), ends="never"))

    async def close() -> list[str]:
        reader = asyncio.ensure_future(names(api.watch(PODS)))
        await asyncio.sleep(0.05)
        await connection.close()
        return await asyncio.wait_for(reader, 1)

    assert runner.call(close()) == ["a"]
    with pytest.raises(ConnectionError, match="the connection is closed"):
        runner.call(api.get(NODES, "n"))


def test_an_informer_lives_through_all_of_it(runner, server, api, clock):
    def listing(version: str, *found: str) -> dict[str, Any]:
        metadata = {"resourceVersion": version}
        items = [{"metadata": {"name": name, "uid": name, "resourceVersion": version}} for name in found]
        return {"metadata": metadata, "items": items}

    gone = {"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}}

    async def expired(_: web.Request) -> web.Response:
        return web.Response(text=json.dumps(gone) + "\n")

    server.says(listing("1", "a"), lines(ends="breaking off"), expired, listing("9", "a", "b"), lines(ends="never"))
    seen: list[str] = []
    there = asyncio.Event()

    def handle(new: Any, _: Any) -> None:
        seen.append(new["metadata"]["name"])
        if "b" in seen:
            there.set()

    async def follow() -> None:
        informer = Informer(api, clock, CONFIG_MAPS)
        informer.on_change(handle)
        running = asyncio.ensure_future(informer.run())
        await asyncio.wait([running, asyncio.ensure_future(there.wait())], timeout=20, return_when=asyncio.FIRST_COMPLETED)
        running.cancel()

    runner.call(follow())
    assert seen[0] == "a"
    assert seen[-1] == "b"


# --- discovery ---


def test_kinds_are_asked_for_once_and_again_when_one_is_missing(runner, server, api):
    rows = [
        {"name": "deployments", "kind": "Deployment", "namespaced": True},
        {"name": "deployments/scale", "kind": "Scale", "namespaced": True},
    ]
    server.says({"resources": rows}, {"resources": [*rows, {"name": "news", "kind": "New", "namespaced": False}]})
    for _ in range(2):
        assert runner.call(api.resource_of("apps/v1", "Deployment")) == DEPLOYMENTS
    assert runner.call(api.named("other").resource_of("apps/v1", "New")) == Resource("apps", "v1", "news", "New", namespaced=False)
    assert server.asked == ["GET /apis/apps/v1"] * 2


def test_a_kind_that_nobody_serves_is_not_found(runner, server, api):
    server.says(refusal(404, "NotFound", "the server could not find the requested resource"))
    with pytest.raises(NotFound, match=r'^no matches for kind "Scale" in version "none/v1"$'):
        runner.call(api.resource_of("none/v1", "Scale"))


# --- kubeconfigs ---


def kubeconfig(path: Any, cluster: dict[str, Any], user: dict[str, Any]) -> Access:
    path.write_text(
        json.dumps(
            {
                "clusters": [{"name": "c", "cluster": {"server": "https://example.org:6443", **cluster}}],
                "users": [{"name": "u", "user": user}],
                "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
                "current-context": "x",
            }
        )
    )
    return access_of(configuration_of(path))


def test_credentials_of_every_simple_kind(tmp_path):
    path = tmp_path / "kubeconfig"
    (tmp_path / "token").write_text("from-file")
    plugin = tmp_path / "plugin"
    credential = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": "from-plugin"}}
    plugin.write_text(f"#!/bin/sh\necho '{json.dumps(credential)}'\n")
    plugin.chmod(0o755)
    execs = {"apiVersion": "client.authentication.k8s.io/v1", "command": str(plugin), "interactiveMode": "Never"}
    assert kubeconfig(path, {}, {"token": "inline"}).authorization == "Bearer inline"
    assert kubeconfig(path, {}, {"tokenFile": "token"}).authorization == "Bearer from-file"
    assert kubeconfig(path, {}, {"exec": execs}).authorization == "Bearer from-plugin"
    assert kubeconfig(path, {}, {"username": "u", "password": "p"}).authorization == "Basic dTpw"
    assert kubeconfig(path, {}, {}).authorization == ""


def test_a_server_may_go_by_another_name_or_stand_behind_a_proxy(tmp_path, monkeypatch):
    path = tmp_path / "kubeconfig"
    assert kubeconfig(path, {"tls-server-name": "inner"}, {}).server_name == "inner"
    assert kubeconfig(path, {"proxy-url": "http://proxy:3128"}, {}).proxy == "http://proxy:3128"
    unchecked = kubeconfig(path, {"insecure-skip-tls-verify": True}, {}).tls
    assert not unchecked.check_hostname
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:3128")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    assert kubeconfig(path, {"server": "https://127.0.0.1:6443"}, {}).proxy is None
    assert kubeconfig(path, {"server": "https://localhost:6443"}, {}).proxy is None


def test_client_certificates_are_shown_and_the_servers_is_checked(tmp_path, runner, server):
    certificate, key = identity(tmp_path, "127.0.0.1")
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=certificate)
    tls.verify_mode = ssl.CERT_REQUIRED
    tls.load_cert_chain(certificate, key)
    url = runner.call(server.serve(tls))
    shown = {"client-certificate": certificate.name, "client-key": key.name}
    for trusted, user, outcome in [
        (True, shown, ""),
        (False, shown, "certificate is not trusted"),
        (True, {}, "disconnected|ertificate"),
    ]:
        authority = {"certificate-authority": certificate.name} if trusted else {}
        connection = Connection(kubeconfig(tmp_path / "kubeconfig", {"server": url, **authority}, user), Hasty())
        with pytest.raises(ConnectionError, match=outcome) if outcome else contextlib.nullcontext():
            runner.call(RemoteApi(connection).get(NODES, "n"))
        runner.call(connection.close())


def identity(folder: Any, address: str) -> tuple[Any, Any]:
    """A certificate that vouches for itself, for either side, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.oid.NameOID.COMMON_NAME, "test")])
    begins = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), 1, begins, begins.replace(year=2099))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    (folder / "tls.crt").write_bytes(certificate.public_bytes(pem))
    (folder / "tls.key").write_bytes(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain))
    return folder / "tls.crt", folder / "tls.key"
