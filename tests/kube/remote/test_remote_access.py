"""Kubeconfigs: address of the server and credentials."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import gc
import ipaddress
import json
import socket
import ssl
import threading
import warnings
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from scripted_server import InstantClock, watched_names

from pytest_kscen.clock import WallRunner
from pytest_kscen.kube.remote import Access, Connection, RemoteApi, access_of, configuration_of
from pytest_kscen.objects.resources import NODES


def kubeconfig(path: Any, cluster: dict[str, Any], user: dict[str, Any]) -> Access:
    path.write_text(
        json.dumps(
            {
                "clusters": [
                    {"name": "c", "cluster": {"server": "https://example.org:6443", **cluster}}
                ],
                "users": [{"name": "u", "user": user}],
                "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
                "current-context": "x",
            }
        )
    )
    return access_of(configuration_of(path))


def test_each_credential_kind_is_sent(tmp_path):
    path = tmp_path / "kubeconfig"
    (tmp_path / "token").write_text("from-file")
    plugin = tmp_path / "plugin"
    credential = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "status": {"token": "from-plugin"},
    }
    plugin.write_text(f"#!/bin/sh\necho '{json.dumps(credential)}'\n")
    plugin.chmod(0o755)
    execs = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": str(plugin),
        "interactiveMode": "Never",
    }
    assert kubeconfig(path, {}, {"token": "inline"}).authorization == "Bearer inline"
    assert kubeconfig(path, {}, {"tokenFile": "token"}).authorization == "Bearer from-file"
    assert kubeconfig(path, {}, {"exec": execs}).authorization == "Bearer from-plugin"
    assert kubeconfig(path, {}, {"username": "u", "password": "p"}).authorization == "Basic dTpw"
    assert kubeconfig(path, {}, {}).authorization == ""


def test_server_name_and_proxy_are_used(tmp_path, monkeypatch):
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


def test_mutual_tls_is_verified(tmp_path, runner, server):
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
        connection = Connection(
            kubeconfig(tmp_path / "kubeconfig", {"server": url, **authority}, user), InstantClock()
        )
        with pytest.raises(ConnectionError, match=outcome) if outcome else contextlib.nullcontext():
            runner.call(RemoteApi(connection).get(NODES, "n"))
        runner.call(connection.close())


def identity(folder: Any, address: str) -> tuple[Any, Any]:
    """Return a self-signed certificate for server and client, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.oid.NameOID.COMMON_NAME, "test")])
    begins = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), 1, begins, begins.replace(year=2099))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))]),
            critical=False,
        )
        .sign(key, hashes.SHA256())
    )
    pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    (folder / "tls.crt").write_bytes(certificate.public_bytes(pem))
    (folder / "tls.key").write_bytes(
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain)
    )
    return folder / "tls.crt", folder / "tls.key"


@pytest.fixture
def unresponsive_server(tmp_path):
    """Start a TLS server that begins each response and then sends nothing, not even a close."""
    certificate, key = identity(tmp_path, "127.0.0.1")
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, key)
    spoken: list[ssl.SSLSocket] = []

    def speak(listening: Any) -> None:
        with contextlib.suppress(OSError):
            while True:
                one = tls.wrap_socket(
                    listening.accept()[0], server_side=True, suppress_ragged_eofs=True
                )
                spoken.append(one)
                one.recv(65536)
                one.sendall(
                    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
                )

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=speak, args=(listening,), daemon=True)
        thread.start()
        yield f"https://127.0.0.1:{listening.getsockname()[1]}", certificate
        listening.shutdown(socket.SHUT_RDWR)
        thread.join()
        for one in spoken:
            one.close()


def test_connections_to_unresponsive_peer_are_closed(tmp_path, unresponsive_server):
    url, certificate = unresponsive_server
    gc.collect()
    with warnings.catch_warnings(record=True) as unclosed:
        warnings.simplefilter("always", ResourceWarning)
        leave(
            kubeconfig(
                tmp_path / "kubeconfig",
                {"server": url, "certificate-authority": certificate.name},
                {},
            )
        )
        gc.collect()
    assert [str(one.message) for one in unclosed] == []


def leave(access: Access) -> None:
    """Close a watch, cancel a request, and end the loop immediately afterwards."""
    runner = WallRunner()
    connection = Connection(access, runner.clock)
    api = RemoteApi(connection)

    async def leave_both() -> None:
        both = [
            asyncio.ensure_future(watched_names(api.watch(NODES))),
            asyncio.ensure_future(api.get(NODES, "n")),
        ]
        await asyncio.wait(both, timeout=0.2)
        for one in both:
            one.cancel()
        await asyncio.wait(both)
        await connection.close()

    runner.call(leave_both())
    runner.close()
