"""Which fields the server prints though they are empty: asked through a webhook that refuses each object by quoting it.

A mutating webhook sees an object after decoding and defaulting, and before validation, so any object will do.
"""

from __future__ import annotations

import ipaddress
import ssl
import tempfile
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from pytest_kscen.machinery.recorded.probing import ELEMENT, ENTRY
from pytest_kscen.machinery.schema.special import META, SPECIAL

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kscen.machinery.recorded.probing import Place, Post, Schemas

NAME = "kscen-record"
# webhooks are not asked about the admission kinds themselves; these are the pointers there
UNSHOWN_POINTERS = (
    *("failurePolicy", "matchPolicy", "sideEffects", "timeoutSeconds", "reinvocationPolicy", "scope"),
    *("url", "path", "port", "parameterNotFoundAction", "reason"),
)
# what a deletion asks for is no object, so no webhook sees it
POINTERS_OF_DELETIONS = {
    f"{META}.DeleteOptions": ("gracePeriodSeconds", "orphanDependents", "propagationPolicy"),
    f"{META}.Preconditions": ("resourceVersion", "uid"),
}
ZEROS: dict[str, Any] = {"string": "", "integer": 0, "number": 0, "boolean": False}


def probe_zeros(post: Post, schemas: Schemas, places: list[Place]) -> None:
    """Mark what is printed of absent fields where OpenAPI's default does not tell, and pointers, where a zero stays."""
    for place in places:
        properties = schemas[place.definition].get("properties", {})
        bare = _printed(post, place, {})
        for field, schema in properties.items():
            if bare is not None and field in bare and _is_unsaid(schema, bare[field]):
                schema["x-go-zero"] = bare[field]
            if bare is not None and "default" in schema and field not in bare:
                schema["x-go-omitted"] = True
            if schema.get("type") in ZEROS and _stays(post, place, field, schema, bare):
                schema["x-go-pointer"] = True
    for definition, fields in POINTERS_OF_DELETIONS.items():
        for field in fields:
            schemas[definition]["properties"][field]["x-go-pointer"] = True


def _is_unsaid(schema: dict[str, Any], printed: Any) -> bool:
    """Null, and the zeros of types that have a JSON form of their own."""
    return printed is None or (schema.get("$ref") in SPECIAL and "default" not in schema and printed in ("0", 0))


def _stays(post: Post, place: Place, field: str, schema: dict[str, Any], bare: dict[str, Any] | None) -> bool:
    """Whether Go tells a zero from nothing here."""
    if bare is None:
        return field in UNSHOWN_POINTERS
    zero = ZEROS[schema["type"]]
    kept = _printed(post, place, {field: zero})
    if kept is None:  # what is refused was noticed
        return True
    return bool(kept.get(field, ...) == zero) and not ("default" in schema and bare.get(field) == zero)


def _printed(post: Post, place: Place, value: Any) -> dict[str, Any] | None:
    """What the server makes of a value at a place."""
    body = place.body(value)
    metadata = body.setdefault("metadata", {})
    metadata["name"] = metadata.get("name") or NAME
    metadata["labels"] = {**(metadata.get("labels") or {}), NAME: ""}
    _, _, quoted = post(place.collection, body).get("message", "").partition("denied the request: ")
    if not quoted:
        return None
    printed = orjson.loads(quoted)
    for step in place.path:
        printed = printed[0] if step == ELEMENT else printed.get("key" if step == ENTRY else step)
        if not printed and printed != {}:
            return None
    return dict(printed)


class _Echo(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        request = orjson.loads(self.rfile.read(int(self.headers["Content-Length"])))["request"]
        refusal = {"uid": request["uid"], "allowed": False, "status": {"message": orjson.dumps(request["object"]).decode()}}
        body = orjson.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": refusal})
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@contextmanager
def echo_webhook(host: str) -> Iterator[dict[str, Any]]:
    """A webhook on this machine, and the configuration that makes a server call it."""
    key, certificate = _certificate(host)
    with tempfile.TemporaryDirectory() as folder:
        chain = Path(folder, "chain.pem")
        chain.write_bytes(key + certificate)
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(chain)
    server = ThreadingHTTPServer((host, 0), _Echo)
    server.socket = tls.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield _configuration(f"https://{host}:{server.server_port}/", certificate)
    finally:
        server.shutdown()
        server.server_close()


def _configuration(url: str, certificate: bytes) -> dict[str, Any]:
    import base64

    everything = {"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"], "operations": ["CREATE"]}
    webhook = {
        "name": "echo.kscen.io",
        "clientConfig": {"url": url, "caBundle": base64.b64encode(certificate).decode()},
        "rules": [everything],
        "objectSelector": {"matchLabels": {NAME: ""}},
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
    }
    return {"metadata": {"name": NAME}, "webhooks": [webhook]}


def _certificate(host: str) -> tuple[bytes, bytes]:
    from datetime import UTC, datetime

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, NAME)])
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(datetime(2020, 1, 1, tzinfo=UTC))
        .not_valid_after(datetime(2120, 1, 1, tzinfo=UTC))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(host))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    plain = serialization.NoEncryption()
    private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    return private, certificate.public_bytes(serialization.Encoding.PEM)
