import json
import struct

import pytest

from pytest_kscen.embedded.apiserver.recorded import (
    definition,
    definition_of,
    protobuf_fields,
    resources,
)
from pytest_kscen.embedded.apiserver.wire.protobuf import BrokenProtobuf, decode_object

MAPS = "/api/v1/namespaces/default/configmaps"
PROTOBUF = "application/vnd.kubernetes.protobuf"
FROM_KUBECTL = bytes.fromhex(
    "6b3873000a0f0a0276311209436f6e6669674d6170121b0a110a016112001a0022002a0032003800420012060a0178120179"
    "1a002200"
)


def varint(number):
    number %= 2**64
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def message(*fields):
    out = b""
    for number, value in fields:
        if isinstance(value, float):
            out += varint(number << 3 | 1) + struct.pack("<d", value)
        elif isinstance(value, int):
            out += varint(number << 3) + varint(value)
        else:
            content = value.encode() if isinstance(value, str) else value
            out += varint(number << 3 | 2) + varint(len(content)) + content
    return out


def envelope(api_version, kind, *fields):
    return b"k8s\x00" + message(
        (1, message((1, api_version), (2, kind))), (2, message(*fields)), (3, ""), (4, "")
    )


NAMED = (1, message((1, "o"), (2, ""), (7, 0), (8, b""), (11, message((1, "app"), (2, "x")))))
METADATA = {"name": "o", "labels": {"app": "x"}}


def test_kubectl_message_is_decoded():
    expected = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "a"},
        "data": {"x": "y"},
    }
    assert decode_object(FROM_KUBECTL) == expected


def test_numbers_strings_and_int_or_string():
    ports = [
        message((1, "a"), (3, 80), (4, message((1, 0), (2, 8080), (3, "")))),
        message((3, 81), (4, message((1, 1), (3, "web")))),
    ]
    body = envelope("v1", "Service", NAMED, (2, message(*((1, port) for port in ports), (3, ""))))
    assert decode_object(body) == {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": METADATA,
        "spec": {
            "ports": [
                {"name": "a", "port": 80, "targetPort": 8080},
                {"port": 81, "targetPort": "web"},
            ]
        },
    }


def test_explicit_and_default_zero():
    spec = decode_object(envelope("apps/v1", "Deployment", NAMED, (2, message((1, 0), (5, 0)))))[
        "spec"
    ]
    assert spec == {"replicas": 0}
    spec = decode_object(envelope("v1", "Pod", NAMED, (2, message((4, -1), (3, ""), (25, 0)))))[
        "spec"
    ]
    assert spec == {"terminationGracePeriodSeconds": -1, "priority": 0}


def test_embedded_types_are_inlined():
    volume = message((1, "v"), (2, message((2, message((1, "Memory"), (2, message((1, "1Gi"))))))))
    empty = message((1, "w"), (2, message((2, b""))))
    body = envelope("v1", "Pod", NAMED, (2, message((1, volume), (1, empty))))
    assert decode_object(body)["spec"]["volumes"] == [
        {"name": "v", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}},
        {"name": "w", "emptyDir": {}},
    ]


def test_times_bytes_and_raw_json_are_decoded():
    instant = message((1, 1767225600), (2, 123456000))
    lease = decode_object(
        envelope("coordination.k8s.io/v1", "Lease", NAMED, (2, message((1, "me"), (3, instant))))
    )
    assert lease["spec"] == {"holderIdentity": "me", "acquireTime": "2026-01-01T00:00:00.123456Z"}
    secret = decode_object(
        envelope("v1", "Secret", NAMED, (2, message((1, "k"), (2, b"\xff\x00"))))
    )
    assert secret["data"] == {"k": "/wA="}
    revision = decode_object(
        envelope("apps/v1", "ControllerRevision", NAMED, (2, message((1, b'{"a":[1]}'))), (3, 7))
    )
    assert (revision["data"], revision["revision"]) == ({"a": [1]}, 7)


def test_definition_schema_is_decoded():
    schema = message(
        (5, "object"),
        (9, 5.0),
        (24, message((1, message((5, "string"))))),
        (30, message((1, 1))),
        (38, 1),
        (29, message((1, "p"), (2, message((8, message((1, b'"x"'))))))),
    )
    version = message((1, "v1"), (4, message((1, schema))))
    crd = decode_object(
        envelope(
            "apiextensions.k8s.io/v1", "CustomResourceDefinition", NAMED, (2, message((7, version)))
        )
    )
    assert crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"] == {
        "type": "object",
        "maximum": 5,
        "items": {"type": "string"},
        "additionalProperties": True,
        "x-kubernetes-preserve-unknown-fields": True,
        "properties": {"p": {"default": "x"}},
    }


@pytest.mark.parametrize(
    "body", [b"{}", b"k8s\x00\xff\xff", b"k8s\x00\x0a\x7f", b"k8s\x00" + message((1, 5))]
)
def test_malformed_message_is_refused(client, body):
    with pytest.raises(BrokenProtobuf):
        decode_object(body)
    assert client.refusal("POST", MAPS, body, content_type=PROTOBUF)[0] == 400


def test_protobuf_request_receives_json_response(client):
    status, made = client.ask(
        "POST", MAPS, FROM_KUBECTL, content_type=PROTOBUF, accept=f"{PROTOBUF},application/json"
    )
    assert (status, made["data"]) == (201, {"x": "y"})
    options = envelope("v1", "DeleteOptions", (1, 0), (5, "All"))
    assert client.ask("DELETE", f"{MAPS}/a", options, content_type=PROTOBUF)[0] == 200
    assert client.ask("GET", f"{MAPS}/a")[0] == 200


def test_every_field_has_a_number():
    seen, pending = set(), [definition_of(*_gvk(path, row)) for path, row in resources().items()]
    while pending:
        name = pending.pop()
        if name in seen:
            continue
        seen.add(name)
        schema = definition(name)
        assert set(schema.get("properties", {})) - {"kind", "apiVersion"} <= _numbered(name), name
        pending += _references(schema)
    assert len(seen) > 400


def _gvk(path, row):
    group, version, _ = path.split("/")
    return group, version, row["kind"]


def _numbered(name):
    fields = protobuf_fields(name).values()
    embedded = [part for field in fields if field.startswith("+") for part in _numbered(field[1:])]
    return {*fields, *embedded}


def _references(schema):
    return [part.split('"')[0] for part in json.dumps(schema).split('"$ref": "')[1:]]
