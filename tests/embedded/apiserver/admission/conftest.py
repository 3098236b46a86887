from __future__ import annotations

import base64
import datetime
import http.server
import ipaddress
import json
import socketserver
import ssl
import threading

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from pytest_kscen.chance import Chance
from pytest_kscen.clock import VirtualRunner
from pytest_kscen.embedded.apiserver.admission.plugins import standard_admission
from pytest_kscen.embedded.apiserver.builtin_kinds import builtin_kinds
from pytest_kscen.embedded.apiserver.kinds import Kinds
from pytest_kscen.embedded.apiserver.server import ApiServer
from pytest_kscen.kube.api import MERGE_PATCH, Options, Request
from pytest_kscen.objects.resources import NAMESPACES, SERVICE_ACCOUNTS


class AdmissionServer:
    """API server with Kubernetes' admission plugins and a namespace `n`, called synchronously."""

    def __init__(self, runner):
        self.runner = runner
        self.server = ApiServer(
            runner.clock, Chance("admission"), Kinds(builtin_kinds()), standard_admission()
        )
        self.admission = self.server.core.admission
        self.warnings = []
        self.create(NAMESPACES, "n", namespace="")
        self.create(SERVICE_ACCOUNTS, "default")

    def ask(
        self,
        verb,
        resource,
        name="",
        body=None,
        *,
        namespace="n",
        subresource="",
        patch_type="",
        **options,
    ):
        namespace = namespace if resource.namespaced else ""
        request = Request(
            verb, resource, namespace, name, subresource, body, Options(**options), patch_type
        )
        try:
            return self.runner.ask(self.server.handle(request)).body
        finally:
            self.warnings = request.warnings

    def create(self, resource, name, *, metadata=None, namespace="n", dry_run=False, **content):
        body = {"metadata": {"name": name, **(metadata or {})}, **content}
        return self.ask("create", resource, body=body, namespace=namespace, dry_run=dry_run)

    def patch(self, resource, name, body, **more):
        return self.ask("patch", resource, name, body, patch_type=MERGE_PATCH, **more)

    def get(self, resource, name, **more):
        return self.ask("get", resource, name, **more)

    def delete(self, resource, name, **more):
        return self.ask("delete", resource, name, **more)


@pytest.fixture
def site():
    runner = VirtualRunner()
    yield AdmissionServer(runner)
    runner.close()


def certificate(*addresses, names=()):
    """Return a key and a self-signed certificate as PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "hook")])
    alternatives = [x509.IPAddress(ipaddress.ip_address(each)) for each in addresses] + [
        x509.DNSName(each) for each in names
    ]
    signed = (
        x509.CertificateBuilder(name, name, key.public_key(), 7)
        .not_valid_before(datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC))
        .not_valid_after(datetime.datetime(2120, 1, 1, tzinfo=datetime.UTC))
        .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    plain = serialization.NoEncryption()
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain
    )
    return private, signed.public_bytes(serialization.Encoding.PEM)


class WebhookResponse:
    """Response of a webhook: a review, or raw bytes with a code."""

    def __init__(self, review, raw=None, code=200):
        self.review, self.raw, self.code = review, raw, code

    @property
    def body(self):
        return json.dumps(self.review).encode() if self.raw is None else self.raw


class WebhookServer:
    """HTTPS server that answers each path by a function and records all requests."""

    def __init__(self, folder):
        key, self.certificate = certificate("127.0.0.1", names=["hook.n.svc"])
        (folder / "chain.pem").write_bytes(key + self.certificate)
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(folder / "chain.pem")
        self.answers, self.requests = {}, []
        shop = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                shop.requests.append(asked)
                allowed = {"uid": asked["request"]["uid"], "allowed": True}
                review = {
                    "apiVersion": asked["apiVersion"],
                    "kind": "AdmissionReview",
                    "response": allowed,
                }
                answer = shop.answers[self.path.partition("?")[0]](
                    WebhookResponse(review), asked["request"]
                )
                if answer is None:
                    return
                body = answer.body
                self.send_response(answer.code)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self._server.handle_error = lambda *_: None
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self):
        self._server.shutdown()
        self._server.server_close()

    def config(self, path="/"):
        bundle = base64.b64encode(self.certificate).decode()
        return {"url": f"https://127.0.0.1:{self.port}{path}", "caBundle": bundle}

    @property
    def asked(self):
        """Return the requests without their reviews."""
        return [each["request"] for each in self.requests]


@pytest.fixture
def webhook_server(tmp_path):
    shop = WebhookServer(tmp_path)
    yield shop
    shop.close()
