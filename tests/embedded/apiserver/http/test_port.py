from __future__ import annotations

import gzip
import http.client
import json
import ssl
import stat
import threading
import time
from base64 import b64decode

import pytest
import yaml

from pytest_kscen.chance import Chance
from pytest_kscen.clock import VirtualRunner
from pytest_kscen.embedded.apiserver.builtin_kinds import builtin_kinds
from pytest_kscen.embedded.apiserver.http import HttpsPort
from pytest_kscen.embedded.apiserver.kinds import Kinds
from pytest_kscen.embedded.apiserver.server import ApiServer
from pytest_kscen.embedded.apiserver.wire import Wire

MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture
def runner():
    runner = VirtualRunner()
    yield runner
    runner.close()


@pytest.fixture
def server(runner):
    return ApiServer(runner.clock, Chance(1), Kinds(builtin_kinds()))


@pytest.fixture
def wire(server):
    return Wire(server)


@pytest.fixture
def port(wire, runner, tmp_path):
    port = HttpsPort(wire, runner, tmp_path)
    yield port
    port.close()


class Client:
    """HTTP client that uses only the kubeconfig."""

    def __init__(self, port):
        config = yaml.safe_load(port.kubeconfig.read_text())
        cluster = config["clusters"][0]["cluster"]
        authority = b64decode(cluster["certificate-authority-data"]).decode()
        tls = ssl.create_default_context(cadata=authority)
        tls.verify_flags |= ssl.VERIFY_X509_STRICT
        self.token = config["users"][0]["user"]["token"]
        self.connection = http.client.HTTPSConnection(
            "127.0.0.1", int(cluster["server"].rpartition(":")[2]), context=tls, timeout=10
        )

    def send(self, method, path, body=None, **headers):
        headers = {
            "Authorization": f"Bearer {self.token}",
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }
        self.connection.request(
            method,
            path,
            body if isinstance(body, bytes) else json.dumps(body) if body else None,
            headers,
        )
        return self.connection.getresponse()

    def ask(self, method, path, body=None, **headers):
        response = self.send(method, path, body, **headers)
        return response.status, json.loads(response.read())


@pytest.fixture
def client(port):
    client = Client(port)
    yield client
    client.connection.close()


class SpiedWatch:
    """Watch that counts its events and records whether it is closed."""

    def __init__(self, watch):
        self._watch = watch
        self.taken = 0
        self.closed = threading.Event()

    async def __anext__(self):
        event = await self._watch.__anext__()
        self.taken += 1
        return event

    def close(self):
        self.closed.set()
        self._watch.close()


@pytest.fixture
def watches(server, monkeypatch):
    opened, watch = [], server.watch

    def spy(request):
        opened.append(SpiedWatch(watch(request)))
        return opened[-1]

    monkeypatch.setattr(server, "watch", spy)
    return opened


def config_map(name, size=1):
    return {"metadata": {"name": name}, "data": {"a": "x" * size}}


def test_request_takes_no_cluster_time(client, runner):
    before = runner.clock.now()
    assert client.ask("POST", MAPS, config_map("c"))[0] == 201
    status, found = client.ask("GET", f"{MAPS}/c")
    assert (status, found["data"]) == (200, {"a": "x"})
    assert runner.clock.now() == before
    assert runner.replayable


def test_kubeconfig_file_is_private(port):
    assert stat.S_IMODE(port.kubeconfig.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("path", "header", "status"),
    [
        (MAPS, {"Authorization": ""}, 401),
        (MAPS, {"Authorization": "Bearer wrong"}, 401),
        ("/version", {"Authorization": "Bearer wrong"}, 401),
        ("/api", {}, 401),
        ("/version", {}, 200),
        ("/readyz", {}, 200),
        ("/livez/ping", {}, 200),
        ("/healthz", {}, 200),
    ],
)
def test_anonymous_requests_reach_health_and_version_only(client, path, header, status):
    client.connection.request("GET", path, headers=header)
    response = client.connection.getresponse()
    body = response.read()
    assert response.status == status
    if status == 401:
        assert json.loads(body) == {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": "Unauthorized",
            "reason": "Unauthorized",
            "code": 401,
        }


def test_watch_sends_events_immediately(client, port, runner):
    other = Client(port)
    other.ask("POST", MAPS, config_map("c"))
    stream = client.send("GET", f"{MAPS}?watch=true")
    assert json.loads(stream.readline())["type"] == "ADDED"
    other.ask("DELETE", f"{MAPS}/c")
    assert json.loads(stream.readline())["type"] == "DELETED"
    other.connection.close()


def test_waiting_watch_advances_time_by_wall_clock(client, runner):
    began = runner.clock.now()
    stream = client.send("GET", f"{MAPS}?watch=true&timeoutSeconds=1")
    assert stream.read() == b""
    assert runner.clock.now() - began == pytest.approx(1, abs=0.1)
    assert not runner.replayable


def test_disconnected_client_closes_watch(client, watches):
    client.send("GET", f"{MAPS}?watch=true").close()
    client.connection.close()
    assert watches[0].closed.wait(5)


def test_slow_client_blocks_no_other_client(client, port, runner, watches):
    client.send("GET", f"{MAPS}?watch=true")
    other = Client(port)
    for count in range(60):
        assert other.ask("POST", MAPS, config_map(f"c{count}", 200_000))[0] == 201
    reader = other.send("GET", f"{MAPS}?watch=true&timeoutSeconds=1")
    assert len(reader.read().splitlines()) == 60
    assert watches[1].taken == 60
    assert watches[0].taken < 60
    other.connection.close()


def test_many_concurrent_watches_are_served(port, watches):
    count = 100
    clients = [Client(port) for _ in range(count)]
    streams = [client.send("GET", f"{MAPS}?watch=true") for client in clients]
    threads = threading.active_count()
    clients.append(Client(port))
    clients[-1].ask("POST", MAPS, config_map("c"))
    assert {json.loads(stream.readline())["object"]["metadata"]["name"] for stream in streams} == {
        "c"
    }
    assert threading.active_count() == threads
    for client in clients:
        client.connection.close()
    assert all(watch.closed.wait(5) for watch in watches)


@pytest.mark.parametrize("chunked", [False, True])
def test_oversized_body_is_refused(client, chunked):
    body = b"x" * (3 * 1024 * 1024 + 1)
    if chunked:
        client.connection.putrequest("POST", MAPS)
        client.connection.putheader("Authorization", f"Bearer {client.token}")
        client.connection.putheader("Transfer-Encoding", "chunked")
        client.connection.endheaders(body, encode_chunked=True)
        response = client.connection.getresponse()
        status, refusal = response.status, json.loads(response.read())
    else:
        status, refusal = client.ask("POST", MAPS, body)
    assert (status, refusal["reason"]) == (413, "RequestEntityTooLarge")
    assert refusal["message"] == "Request entity too large: limit is 3145728"


def test_large_list_is_compressed_on_request(client):
    client.ask("POST", MAPS, config_map("c", 200_000))
    response = client.send("GET", MAPS, Accept_Encoding="gzip")
    assert response.headers["Content-Encoding"] == "gzip"
    assert len(json.loads(gzip.decompress(response.read()))["items"]) == 1
    assert client.send("GET", MAPS).read().startswith(b'{"')


def test_exception_is_internal_error(client, wire, monkeypatch, caplog):
    async def broken(*_):
        raise ZeroDivisionError

    monkeypatch.setattr(wire, "call", broken)
    status, refusal = client.ask("GET", MAPS)
    assert (status, refusal["reason"]) == (500, "InternalError")
    assert "ZeroDivisionError" in caplog.text


def test_request_in_progress_continues_during_test_calls(client, runner):
    stream = client.send("GET", f"{MAPS}?watch=true&timeoutSeconds=3600")
    began = time.monotonic()
    runner.advance(3600)
    assert stream.read() == b""
    assert time.monotonic() - began < 5


def test_close_leaves_no_connections(wire, runner, tmp_path):
    before = set(threading.enumerate())
    port = HttpsPort(wire, runner, tmp_path)
    client = Client(port)
    stream = client.send("GET", f"{MAPS}?watch=true")
    port.close()
    assert stream.read() == b""
    client.connection.close()
    runner.close()
    assert set(threading.enumerate()) == before


def test_request_without_path_is_answered(client):
    known = client.send("OPTIONS", "*")
    assert (known.status, known.read()) == (404, b"404 page not found\n")
    client.connection.request("OPTIONS", "*")
    assert client.connection.getresponse().status == 401


@pytest.mark.parametrize("shown", [b"Bearer \xff", b"Bearer", b"\xf0\x9f", b"Basic eDp4"])
def test_invalid_token_is_unauthorized(client, shown):
    status, answer = client.ask("GET", MAPS, Authorization=shown)
    assert (status, answer["reason"]) == (401, "Unauthorized")
