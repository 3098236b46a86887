from __future__ import annotations

import pytest

from pytest_kscen.embedded.apiserver.schema.builtin import BuiltinSchema
from pytest_kscen.embedded.apiserver.schema.decode_errors import TypeMismatch


@pytest.mark.parametrize(
    ("mismatch", "words"),
    [
        (TypeMismatch("x", "map[string]string"), "cannot restore map from string"),
        (TypeMismatch({}, "[]string"), "cannot restore slice from map"),
        (TypeMismatch(1, "v1.PodSpec"), "cannot restore struct from: int64"),
        (TypeMismatch(1, "string"), "cannot convert int64 to string"),
        (TypeMismatch(1, "v1.PodPhase", basic="string"), "cannot convert int64 to v1.PodPhase"),
        (TypeMismatch(1.5, "int32"), "cannot convert float64 to int32"),
        (TypeMismatch([], "v1.PodPhase", basic="string"), "unrecognized type: string"),
        (TypeMismatch(True, "int32"), "unrecognized type: int32"),
    ],
)
def test_converter_has_its_own_messages(mismatch, words):
    mismatch.add_step("ObjectMeta", "somewhere")
    assert mismatch.converter_message() == words


LEASE, SECRET = (
    BuiltinSchema("coordination.k8s.io", "v1", "Lease"),
    BuiltinSchema("", "v1", "Secret"),
)


@pytest.mark.parametrize(
    ("schema", "body", "is_json", "why"),
    [
        (
            LEASE,
            {"spec": {"renewTime": 1}},
            False,
            "json: cannot unmarshal number into Go value of type string",
        ),
        (
            LEASE,
            {"spec": {"renewTime": 1}},
            True,
            (
                "json: cannot unmarshal number into Go struct field LeaseSpec.spec.renewTime "
                "of type string"
            ),
        ),
        (
            SECRET,
            {"data": {"x": "?"}},
            False,
            "error decoding from json: illegal base64 data at input byte 0",
        ),
        (SECRET, {"data": {"x": ["?"]}}, False, "unrecognized type: uint8"),
        (SECRET, {"data": {"x": "?"}, "immutable": {}}, False, "unrecognized type: bool"),
        (SECRET, {"data": {"x": "?"}, "type": 1}, True, "illegal base64 data at input byte 0"),
        (
            SECRET,
            {"data": {"x": 1}, "stringData": {"y": 2}},
            True,
            "json: cannot unmarshal number into Go struct field Secret.data of type []uint8",
        ),
        (
            SECRET,
            {"data": {"x": "?"}, "metadata": {"creationTimestamp": "soon"}},
            True,
            'parsing time "soon" as "2006-01-02T15:04:05Z07:00": cannot parse "soon" as "2006"',
        ),
    ],
)
def test_one_of_several_faults_is_reported(schema, body, is_json, why):
    assert schema.patch_error(body, is_json=is_json) == why


def test_bytes_are_decoded_from_number_list():
    assert SECRET.decode(
        {"data": {"x": [1, 255, None], "y": []}}, None, strictness="Warn", warnings=[]
    )["data"] == {
        "x": "Af8A",
        "y": "",
    }
