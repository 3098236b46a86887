from __future__ import annotations

import asyncio
import contextlib
import ssl

import pytest

from pytest_kscen.clusters.controlplane.tunnel import Tunnel
from pytest_kscen.embedded.apiserver.credentials import make_keys
from pytest_kscen.objects.errors import BadRequest


async def read_log(namespace, pod, container, query):
    if container == "waiting":
        raise BadRequest("it is waiting to start")
    return f"{namespace}/{pod}/{container} {query}\n"


class NoPods:
    """Web server registry without pods."""

    def serves(self, address):
        return False


def run_with_tunnel(tmp_path, client_actions):
    """Return the result of `visit`, given a function that connects to a tunnel; check that no task
    is left.
    """

    async def connect(target=""):
        reader, writer = await asyncio.open_unix_connection(tmp_path / "tunnel")
        writers.append(writer)
        if not target:
            return reader, writer, b""
        writer.write(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n".encode())
        return reader, writer, await reader.readuntil(b"\r\n\r\n")

    async def serve_tunnel():
        tunnel = Tunnel(tmp_path / "tunnel", make_keys().context(), read_log, NoPods())
        await tunnel.open()
        try:
            async with asyncio.timeout(10):
                return await client_actions(connect)
        finally:
            await tunnel.close()
            assert asyncio.all_tasks() == {asyncio.current_task()}
            for writer in writers:
                writer.transport.abort()
            await asyncio.sleep(0)

    writers = []
    return asyncio.run(serve_tunnel())


async def ask(connect, path):
    reader, writer, answer = await connect("172.18.0.2:10250")
    assert answer.startswith(b"HTTP/1.1 200 ")
    tls = ssl.create_default_context()
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    await writer.start_tls(tls, server_hostname="node")
    writer.write(f"GET {path} HTTP/1.1\r\nHost: node\r\n\r\n".encode())
    said = (await reader.read()).decode()
    return said.split(" ")[1], said.partition("\r\n\r\n")[2]


@pytest.mark.parametrize(
    ("path", "answer"),
    [
        (
            "/containerLogs/ns/p/c?tailLines=3&timestamps=true",
            ("200", "ns/p/c {'tailLines': '3', 'timestamps': 'true'}\n"),
        ),
        ("/containerLogs/ns/p/waiting", ("400", "it is waiting to start")),
        ("/exec/ns/p/c", ("404", "simulated kubelets do not serve /exec/ns/p/c")),
    ],
)
def test_kubelet_is_served_at_any_address(tmp_path, path, answer):
    assert run_with_tunnel(tmp_path, lambda connect: ask(connect, path)) == answer


def test_other_targets_are_forwarded(tmp_path):
    async def client_actions(connect):
        async def echo(reader, writer):
            writer.write((await reader.read()).upper())
            writer.close()

        other = await asyncio.start_server(echo, "127.0.0.1", 0)
        reader, writer, answer = await connect(f"127.0.0.1:{other.sockets[0].getsockname()[1]}")
        assert answer.startswith(b"HTTP/1.1 200 ")
        writer.write(b"x" * 300_000)
        writer.write_eof()
        said = await reader.read()
        other.close()
        return said

    assert run_with_tunnel(tmp_path, client_actions) == b"X" * 300_000


def test_refused_connection_is_reported(tmp_path):
    async def client_actions(connect):
        nobody = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
        port = nobody.sockets[0].getsockname()[1]
        nobody.close()
        return (await connect(f"127.0.0.1:{port}"))[2]

    assert run_with_tunnel(tmp_path, client_actions).startswith(b"HTTP/1.1 502 ")


@pytest.mark.parametrize(
    "words", [b"", b"GET /", b"what?\r\n\r\n", b"CONNECT nowhere HTTP/1.1\r\n\r\n", b"x" * 100_000]
)
def test_malformed_request_is_disconnected(tmp_path, words):
    async def client_actions(connect):
        reader, writer, _ = await connect()
        writer.write(words)
        writer.write_eof()
        with contextlib.suppress(ConnectionResetError):
            return await reader.read()
        return b""

    assert run_with_tunnel(tmp_path, client_actions) == b""


def test_close_succeeds_with_open_connection(tmp_path):
    async def client_actions(connect):
        await connect()
        await asyncio.sleep(0.01)

    run_with_tunnel(tmp_path, client_actions)
