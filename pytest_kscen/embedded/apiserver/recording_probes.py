"""Probes that learn what OpenAPI lacks, from a server's refusals: Go's type names, and which zeros
it prints.

Each definition is probed once, at the first place where it occurs below a kind that can be created.
Requests are dry runs or are refused, so nothing is created.
"""

from __future__ import annotations

import ipaddress
import re
import ssl
import tempfile
import threading
from collections import deque
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from pytest_kscen.embedded.apiserver.schema.compiling import go_type
from pytest_kscen.embedded.apiserver.schema.scalars import META_V1, SPECIAL_DECODERS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Post = Callable[[str, Any], dict[str, Any]]
    Schemas = dict[str, dict[str, Any]]


TYPE_REFUSAL = re.compile(r"into Go struct field (\w+)\.(\S+) of type (.+)")
LIST_STEP, MAP_STEP = "[]", "{}"
MAX_DEPTH = 12


class DefinitionLocation(NamedTuple):
    """First occurrence of a definition: the collection of the objects, and the path of fields below
    them. `labels` are Go's names of these fields.
    """

    collection: str
    path: tuple[str, ...]
    definition: str
    labels: tuple[str, ...]

    def body(self, value: Any) -> Any:
        """Return the smallest object that has this value at the location."""
        for step in reversed(self.path):
            value = [value] if step == LIST_STEP else {"key" if step == MAP_STEP else step: value}
        return value


def probe_types(post: Post, schemas: Schemas, roots: dict[str, str]) -> list[DefinitionLocation]:
    """Mark Go's type names and field names in the schemas where they cannot be derived. Return the
    location of each definition.

    `roots` maps the paths of collections to the definitions of their kinds.
    """
    waiting = deque(
        DefinitionLocation(collection, (), definition, ())
        for collection, definition in roots.items()
    )
    found: dict[str, DefinitionLocation] = {}
    while waiting:
        place = waiting.popleft()
        if place.definition in found or place.definition in SPECIAL_DECODERS:
            continue
        found[place.definition] = place
        for field, schema in schemas[place.definition].get("properties", {}).items():
            label = _probe_field(post, place, field, schema)
            waiting.extend(_locations_below(place, field, label, schema))
    return list(found.values())


def _probe_field(post: Post, place: DefinitionLocation, field: str, schema: dict[str, Any]) -> str:
    """Probe a field and its elements with values of a wrong type. Return the field's part of Go's
    path.
    """
    label = field
    for inner, path in _nested_schemas(schema):
        if path and "$ref" in inner:  # probed at its own definition
            continue
        wrong: Any = True if inner.get("$ref") in SPECIAL_DECODERS else "wrong"
        if inner.get("type") == "string":
            wrong = 1
        for step in reversed(path):
            wrong = [wrong] if step == LIST_STEP else {"key": wrong}
        found = TYPE_REFUSAL.search(
            post(place.collection, place.body({field: wrong})).get("message", "")
        )
        if found is None:
            continue
        if not path:
            label = found[2].removeprefix(".".join((*place.labels, "")))
            if label != field:
                schema["x-go-path"] = label
        if found[3] != go_type(inner) and inner.get("$ref") not in SPECIAL_DECODERS:
            inner["x-go-type"] = found[3]
    return label


def _nested_schemas(schema: dict[str, Any]) -> Iterator[tuple[dict[str, Any], tuple[str, ...]]]:
    """Yield a field's schema and those of its elements, from the outside in, each with its path."""
    path: tuple[str, ...] = ()
    yield schema, path
    while "items" in schema or "additionalProperties" in schema:
        path += (LIST_STEP,) if "items" in schema else (MAP_STEP,)
        schema = schema.get("items") or schema["additionalProperties"]
        yield schema, path


def _locations_below(
    place: DefinitionLocation, field: str, label: str, schema: dict[str, Any]
) -> Iterator[DefinitionLocation]:
    """Yield the locations of the definitions that a field leads to.

    The metadata of the object itself is skipped, because the server changes it.
    """
    if (place.path, field) == ((), "metadata"):
        return
    *_, (innermost, steps) = _nested_schemas(schema)
    path = (*place.path, field, *steps)
    if "$ref" in innermost and len(path) < MAX_DEPTH:
        yield DefinitionLocation(place.collection, path, innermost["$ref"], (*place.labels, label))


# Zeros are probed through a mutating webhook that refuses each object and quotes it in the message.
# It receives an object after decoding and defaulting, and before validation, so any object will do.


PROBE_NAME = "kscen-record"
# pointers of the admission kinds, for which webhooks are not called
UNPROBED_POINTERS = (
    *(
        "failurePolicy",
        "matchPolicy",
        "sideEffects",
        "timeoutSeconds",
        "reinvocationPolicy",
        "scope",
    ),
    *("url", "path", "port", "parameterNotFoundAction", "reason"),
)
# options of deletions are no objects, so webhooks do not receive them
DELETION_POINTERS = {
    f"{META_V1}.DeleteOptions": ("gracePeriodSeconds", "orphanDependents", "propagationPolicy"),
    f"{META_V1}.Preconditions": ("resourceVersion", "uid"),
}
ZERO_VALUES: dict[str, Any] = {"string": "", "integer": 0, "number": 0, "boolean": False}


def probe_zeros(post: Post, schemas: Schemas, places: list[DefinitionLocation]) -> None:
    """Mark in the schemas the absent fields that the server prints, and the pointers.

    A field is a pointer if its zero is stored.
    """
    for place in places:
        properties = schemas[place.definition].get("properties", {})
        bare = _printed_object(post, place, {})
        for field, schema in properties.items():
            if bare is not None and field in bare:
                # A printed value is null, or a zero that the schema does not declare as default.
                undeclared = schema.get("$ref") in SPECIAL_DECODERS and "default" not in schema
                if bare[field] is None or (undeclared and bare[field] in ("0", 0)):
                    schema["x-go-zero"] = bare[field]
            if bare is not None and "default" in schema and field not in bare:
                schema["x-go-omitted"] = True
            if schema.get("type") in ZERO_VALUES and _keeps_zero(post, place, field, schema, bare):
                schema["x-go-pointer"] = True
    for definition, fields in DELETION_POINTERS.items():
        for field in fields:
            schemas[definition]["properties"][field]["x-go-pointer"] = True


def _keeps_zero(
    post: Post,
    place: DefinitionLocation,
    field: str,
    schema: dict[str, Any],
    bare: dict[str, Any] | None,
) -> bool:
    """Report whether Go distinguishes a zero from an absent value in this field."""
    if bare is None:
        return field in UNPROBED_POINTERS
    zero = ZERO_VALUES[schema["type"]]
    kept = _printed_object(post, place, {field: zero})
    if kept is None:  # a refusal proves that the zero was decoded
        return True
    return bool(kept.get(field, ...) == zero) and not (
        "default" in schema and bare.get(field) == zero
    )


def _printed_object(post: Post, place: DefinitionLocation, value: Any) -> dict[str, Any] | None:
    """Return the object that the server prints for a value at a location.

    None if the webhook was not called, or if the value is not printed.
    """
    body = place.body(value)
    metadata = body.setdefault("metadata", {})
    metadata["name"] = metadata.get("name") or PROBE_NAME
    metadata["labels"] = {**(metadata.get("labels") or {}), PROBE_NAME: ""}
    _, _, quoted = post(place.collection, body).get("message", "").partition("denied the request: ")
    if not quoted:
        return None
    printed = orjson.loads(quoted)
    for step in place.path:
        printed = (
            printed[0] if step == LIST_STEP else printed.get("key" if step == MAP_STEP else step)
        )
        if not printed and printed != {}:
            return None
    return dict(printed)


class _EchoHandler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        request = orjson.loads(self.rfile.read(int(self.headers["Content-Length"])))["request"]
        refusal = {
            "uid": request["uid"],
            "allowed": False,
            "status": {"message": orjson.dumps(request["object"]).decode()},
        }
        body = orjson.dumps(
            {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": refusal}
        )
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def echo_webhook(host: str) -> Iterator[dict[str, Any]]:
    """Serve a webhook on this address until the context ends, and yield the configuration that
    makes the server call it.
    """
    key, certificate = _certificate(host)
    with tempfile.TemporaryDirectory() as folder:
        chain = Path(folder, "chain.pem")
        chain.write_bytes(key + certificate)
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(chain)
    server = ThreadingHTTPServer((host, 0), _EchoHandler)
    server.socket = tls.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        url = f"https://{host}:{server.server_port}/"
        import base64

        everything = {
            "apiGroups": ["*"],
            "apiVersions": ["*"],
            "resources": ["*"],
            "operations": ["CREATE"],
        }
        webhook = {
            "name": "echo.kscen.io",
            "clientConfig": {"url": url, "caBundle": base64.b64encode(certificate).decode()},
            "rules": [everything],
            "objectSelector": {"matchLabels": {PROBE_NAME: ""}},
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
        }
        yield {"metadata": {"name": PROBE_NAME}, "webhooks": [webhook]}
    finally:
        server.shutdown()
        server.server_close()


def _certificate(host: str) -> tuple[bytes, bytes]:
    from datetime import UTC, datetime

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, PROBE_NAME)])
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(datetime(2020, 1, 1, tzinfo=UTC))
        .not_valid_after(datetime(2120, 1, 1, tzinfo=UTC))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(host))]),
            critical=False,
        )
        .sign(key, hashes.SHA256())
    )
    plain = serialization.NoEncryption()
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain
    )
    return private, certificate.public_bytes(serialization.Encoding.PEM)
