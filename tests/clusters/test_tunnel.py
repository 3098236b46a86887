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


class Nobody:
    """A web of no pods."""

    def serves(self, address):
        return False


def through(tmp_path, visit):
    """What a visitor, who is given a way to knock, sees of a tunnel; all its tasks are gone
    afterwards.
    """

    async def knock(target=""):
        reader, writer = await asyncio.open_unix_connection(tmp_path / "tunnel")
        visitors.append(writer)
        if not target:
            return reader, writer, b""
        writer.write(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n".encode())
        return reader, writer, await reader.readuntil(b"\r\n\r\n")

    async def live():
        tunnel = Tunnel(tmp_path / "tunnel", make_keys().context(), read_log, Nobody())
        await tunnel.open()
        try:
            async with asyncio.timeout(10):
                return await visit(knock)
        finally:
            await tunnel.close()
            assert asyncio.all_tasks() == {asyncio.current_task()}
            for writer in visitors:
                writer.transport.abort()
            await asyncio.sleep(0)

    visitors = []
    return asyncio.run(live())


async def ask(knock, path):
    reader, writer, answer = await knock("172.18.0.2:10250")
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
def test_a_kubelet_answers_at_any_address(tmp_path, path, answer):
    assert through(tmp_path, lambda knock: ask(knock, path)) == answer


def test_what_is_for_others_is_passed_on(tmp_path):
    async def visit(knock):
        async def echo(reader, writer):
            writer.write((await reader.read()).upper())
            writer.close()

        other = await asyncio.start_server(echo, "127.0.0.1", 0)
        reader, writer, answer = await knock(f"127.0.0.1:{other.sockets[0].getsockname()[1]}")
        assert answer.startswith(b"HTTP/1.1 200 ")
        writer.write(b"x" * 300_000)
        writer.write_eof()
        said = await reader.read()
        other.close()
        return said

    assert through(tmp_path, visit) == b"X" * 300_000


def test_where_nobody_listens_the_refusal_is_passed_on(tmp_path):
    async def visit(knock):
        nobody = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
        port = nobody.sockets[0].getsockname()[1]
        nobody.close()
        return (await knock(f"127.0.0.1:{port}"))[2]

    assert through(tmp_path, visit).startswith(b"HTTP/1.1 502 ")


@pytest.mark.parametrize(
    "words", [b"", b"GET /", b"what?\r\n\r\n", b"CONNECT nowhere HTTP/1.1\r\n\r\n", b"x" * 100_000]
)
def test_who_talks_nonsense_is_shown_out(tmp_path, words):
    async def visit(knock):
        reader, writer, _ = await knock()
        writer.write(words)
        writer.write_eof()
        with contextlib.suppress(ConnectionResetError):
            return await reader.read()
        return b""

    assert through(tmp_path, visit) == b""


def test_it_closes_though_somebody_stays(tmp_path):
    async def visit(knock):
        await knock()
        await asyncio.sleep(0.01)

    through(tmp_path, visit)
