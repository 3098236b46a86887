import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_kscen.embedded.apiserver.wire.parsing import load_yaml, parse_json, syntax_error

MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "unexpected end of JSON input"),
        ('{"a', "unexpected end of JSON input"),
        ('{"a":1,}', "invalid character '}' looking for beginning of object key string"),
        ("{a:1}", "invalid character 'a' looking for beginning of object key string"),
        ('{"a" 1}', "invalid character '1' after object key"),
        ('{"a":1 "b":2}', "invalid character '\"' after object key:value pair"),
        ("[1 2]", "invalid character '2' after array element"),
        ("[1,]", "invalid character ']' looking for beginning of value"),
        ('{"a":01}', "invalid character '1' after object key:value pair"),
        ('{"a":1.}', "invalid character '}' after decimal point in numeric literal"),
        ('{"a":-}', "invalid character '}' in numeric literal"),
        ('{"a":1e}', "invalid character '}' in exponent of numeric literal"),
        ('{"a":"\\x"}', "invalid character 'x' in string escape code"),
        ('{"a":"\\u12"}', "invalid character '\"' in \\u hexadecimal character escape"),
        ('{"a":"\n"}', "invalid character '\\n' in string literal"),
        ('{"a":tru}', "invalid character '}' in literal true (expecting 'e')"),
        ("{} x", "invalid character 'x' after top-level value"),
        ("'", r"invalid character '\'' looking for beginning of value"),
        ("\x01", r"invalid character '\x01' looking for beginning of value"),
    ],
)
def test_malformed_json_has_go_message(text, why):
    assert syntax_error(text.encode()) == why


@settings(
    suppress_health_check=[HealthCheck.too_slow]
)  # a busy machine says nothing of what is made here
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_valid_json_is_accepted(value):
    assert syntax_error(json.dumps(value).encode()) == ""


@pytest.mark.parametrize(
    ("text", "parsed", "doubles"),
    [
        ('{"a":"1","b":"\\":"}', {"a": "1", "b": '":'}, []),
        ('{"a":{"b":1},"a":{"c":2}}', {"a": {"b": 1, "c": 2}}, ["a"]),
        ('{"a":[{"b":1,"b":2}],"c":1,"c":2}', {"a": [{"b": 2}], "c": 2}, ["a[0].b", "c"]),
        ('{"a" :1,"a":2}', {"a": 2}, ["a"]),
        ('{"\\u0061":1,"a":2}', {"a": 2}, ["a"]),
    ],
)
def test_duplicate_fields_are_reported(text, parsed, doubles):
    assert parse_json(text.encode()) == (parsed, [f'duplicate field "{path}"' for path in doubles])


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("yes", True), ("off", False), ("y", True), ("~", None), ("1:30", "1:30"), ("2001-01-01", "2001-01-01"), ("017", 15),
        ("0x1F", 31), ("1_000", 1000), ("-5", -5), ("+5", 5), ("1e3", 1000), (".5", 0.5), ("1.5", 1.5), ("'1'", "1"),
        ("08", 8), ("1.2.3", "1.2.3"), ("", None), ("1_0.5", 10.5), ("1e400", "1e400"), ("<<", "<<"), ("=", "="),
        ("!!binary aGk=", "hi"), ("!!str 5", "5"),
    ],
)  # fmt: skip
def test_yaml_is_parsed_as_by_kubernetes(text, value):
    assert load_yaml(f"a: {text}".encode()) == ({"a": value}, [])


def test_yaml_keys_are_strings_and_first_document_is_used():
    assert load_yaml(b"1: a\ntrue: b\n---\nc: d") == ({"1": "a", "true": "b"}, [])
    assert load_yaml(b"a: {b: 1, b: 2}\na: 3")[1] == [
        'line 1: key "b" already set in map',
        'line 2: key "a" already set in map',
    ]
    assert load_yaml(b"base: &x {a: 1}\nmore: {<<: *x, b: 2}")[0]["more"] == {"a": 1, "b": 2}
    assert load_yaml(b"") == (None, [])


PARSE_ERROR = "couldn't get version/kind; json parse error: "
TYPE_META = (
    r'{ APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }'
)
UNRECOGNIZED = "the object provided is unrecognized (must be of type ConfigMap): "


@pytest.mark.parametrize(
    ("body", "type_", "message"),
    [
        ('{"a', "application/json", PARSE_ERROR + 'unexpected end of JSON input ({"a)'),
        (
            "[]",
            "application/json",
            (
                f"{PARSE_ERROR}json: cannot unmarshal array into Go value of type struct "
                f"{TYPE_META} (5b5d)"
            ),
        ),
        (
            '{"kind":5}',
            "application/json",
            PARSE_ERROR
            + (
                "json: cannot unmarshal number into Go struct field .kind of type string "
                '({"kind":5})'
            ),
        ),
        (
            "a: [1",
            "application/yaml",
            "yaml: line 1: did not find expected ',' or ']' (613a205b31)",
        ),
        (
            '{"kind":"ConfigMap","apiVersion":"a/b/c"}',
            "application/json",
            'unexpected GroupVersion string: a/b/c ({"kind":"ConfigMap","apiVersio ...)',
        ),
    ],
)
def test_undecodable_body_is_refused(client, body, type_, message):
    assert client.refusal("POST", MAPS, body, content_type=type_) == (400, UNRECOGNIZED + message)


def test_empty_body_is_refused(client):
    expected = f"{UNRECOGNIZED}{PARSE_ERROR}unexpected end of JSON input (<empty>)"
    assert client.refusal("POST", MAPS, b"") == (400, expected)
    assert client.refusal("POST", MAPS, b"", content_type="application/yaml")[0] == 422


@pytest.mark.parametrize(
    "type_", ["text/plain", "application/cbor", "application/json;foo", "application/xml"]
)
def test_unsupported_media_type_is_refused(client, type_):
    status, message = client.refusal("POST", MAPS, "{}", content_type=type_)
    assert status == 415
    assert message.startswith(
        "the body of the request was in an unknown format - accepted media types "
        "include: application/json"
    )
    assert client.refusal("PATCH", f"{MAPS}/c", "{}", content_type="application/json") == (
        415,
        "415: Unsupported Media Type",
    )


def test_yaml_request_and_response(client):
    body = "metadata:\n  name: c\ndata:\n  a: 'yes'\n"
    answer = client.raw(
        "POST", MAPS, body, content_type="application/yaml", accept="application/yaml"
    )
    assert (answer.status, answer.headers["Content-Type"]) == (201, "application/yaml")
    assert load_yaml(answer.body)[0]["data"] == {"a": "yes"}


def test_duplicate_fields_follow_validation_level(client):
    body = '{"metadata":{"name":"c"},"data":{"a":"1","a":"2"}}'
    answer = client.raw("POST", f"{MAPS}?dryRun=All", body)
    assert answer.headers["Warning"] == r'299 - "duplicate field \"data.a\""'
    assert (
        "Warning"
        not in client.raw("POST", f"{MAPS}?dryRun=All&fieldValidation=Ignore", body).headers
    )
    status, message = client.refusal("POST", f"{MAPS}?fieldValidation=Strict", body)
    assert (status, message) == (
        400,
        (
            'ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding '
            'error: duplicate field "data.a"'
        ),
    )
    assert client.ask("GET", MAPS)[1]["items"] == []


def test_oversized_body_is_refused(client):
    status, message = client.refusal("POST", MAPS, b"x" * (3 * 1024 * 1024 + 1))
    assert (status, message) == (413, "Request entity too large: limit is 3145728")


@pytest.mark.parametrize(
    ("type_", "body", "message"),
    [
        ("merge", '{"a', "error decoding patch: unexpected end of JSON input"),
        ("merge", "null", "Invalid JSON Patch"),
        (
            "merge",
            "[]",
            (
                "error decoding patch: json: cannot unmarshal array into Go value of type "
                "map[string]interface {}"
            ),
        ),
        (
            "strategic-merge",
            "5",
            "json: cannot unmarshal number into Go value of type map[string]interface {}",
        ),
        (
            "json",
            "{}",
            (
                "error decoding patch: json: cannot unmarshal object into Go value of type "
                "[]handlers.jsonPatchOp"
            ),
        ),
    ],
)
def test_malformed_patch_is_refused(client, type_, body, message):
    content_type = f"application/{type_}-patch+json"
    assert client.refusal("PATCH", f"{MAPS}/c", body, content_type=content_type) == (
        404,
        'configmaps "c" not found',
    )
    client.ask("POST", MAPS, {"metadata": {"name": "c"}})
    assert client.refusal("PATCH", f"{MAPS}/c", body, content_type=content_type) == (400, message)
