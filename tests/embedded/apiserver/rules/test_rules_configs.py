import pytest

from pytest_kscen.objects import names
from pytest_kscen.objects.resources import CONFIG_MAPS, SECRETS, SERVICE_ACCOUNTS

CONFIG_KEY = names.config_key("a b")[0]
DOCKER, ACCOUNT = "kubernetes.io/dockerconfigjson", "kubernetes.io/service-account-token"


def named(**content):
    return {"metadata": {"name": "x"}, **content}


@pytest.mark.parametrize(
    ("content", "wrong"),
    [
        ({"data": {"a": "b", ".b": "c", "A-_": ""}}, []),
        ({"data": {"a b": "c"}}, [f'data[a b]: Invalid value: "a b": {CONFIG_KEY}']),
        ({"data": {"..": "c"}}, ["data[..]: Invalid value: \"..\": must not be '..'"]),
        ({"data": {"..a": "c"}}, ["data[..a]: Invalid value: \"..a\": must not start with '..'"]),
        (
            {"data": {"a": "b"}, "binaryData": {"a": "YQ=="}},
            ['data[a]: Invalid value: "a": duplicate of key present in binaryData'],
        ),
        (
            {"data": {"k" * 254: "x"}},
            [
                (
                    "data[kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk"
                    "kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk"
                    "kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk]: Invalid value: "
                    '"kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk'
                    "kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk"
                    'kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk": must be '
                    "no more than 253 characters"
                )
            ],
        ),
        (
            {"data": {"a": "x" * (1024 * 1024 + 1)}},
            ["[]: Too long: may not be more than 1048576 bytes"],
        ),
    ],
    ids=range(7),
)
def test_config_maps(judge, content, wrong):
    assert judge.create(CONFIG_MAPS, named(**content)) == wrong


@pytest.mark.parametrize("kind", [CONFIG_MAPS, SECRETS], ids=lambda kind: kind.plural)
def test_immutable_config_map_cannot_change(judge, kind):
    judge.made(kind, named(data={"a": "YQ=="}, immutable=True))
    wrong = "Forbidden: field is immutable when `immutable` is set"
    assert judge.change(kind, "x", {"data": {"a": "Yg=="}}) == [f"data: {wrong}"]
    assert judge.change(kind, "x", {"immutable": False}) == [f"immutable: {wrong}"]
    assert judge.change(kind, "x", {"metadata": {"labels": {"a": "b"}}}) == []


def test_secret_type_defaults_to_opaque(judge):
    assert judge.made(SECRETS, named())["type"] == "Opaque"


def test_string_data_becomes_data(judge):
    made = judge.made(
        SECRETS, named(data={"a": "YQ==", "b": "Yg=="}, stringData={"a": "z", "c": ""})
    )
    assert made["data"] == {"a": "eg==", "b": "Yg==", "c": ""}
    assert "stringData" not in made


@pytest.mark.parametrize(
    ("content", "wrong"),
    [
        ({"data": {"a b": "YQ=="}}, [f'data[a b]: Invalid value: "a b": {CONFIG_KEY}']),
        ({"type": "kubernetes.io/dockercfg"}, ["data[.dockercfg]: Required value"]),
        (
            {"type": DOCKER, "data": {".dockerconfigjson": "YQ=="}},
            [
                (
                    'data[.dockerconfigjson]: Invalid value: "<secret contents '
                    "redacted>\": invalid character 'a' looking "
                    "for beginning of value"
                )
            ],
        ),
        ({"type": DOCKER, "stringData": {".dockerconfigjson": "{}"}}, []),
        (
            {"type": "kubernetes.io/basic-auth"},
            ["data[username]: Required value", "data[password]: Required value"],
        ),
        ({"type": "kubernetes.io/basic-auth", "stringData": {"password": ""}}, []),
        ({"type": "kubernetes.io/ssh-auth"}, ["data[ssh-privatekey]: Required value"]),
        (
            {"type": "kubernetes.io/tls"},
            ["data[tls.crt]: Required value", "data[tls.key]: Required value"],
        ),
        (
            {"type": ACCOUNT},
            ["metadata.annotations[kubernetes.io/service-account.name]: Required value"],
        ),
        ({"type": "example.com/mine"}, []),
        ({"data": {"a": "YWFh" * 400000}}, ["data: Too long: may not be more than 1048576 bytes"]),
    ],
    ids=range(11),
)
def test_secrets(judge, content, wrong):
    assert judge.create(SECRETS, named(**content)) == wrong


@pytest.mark.parametrize(
    ("patch", "wrong"),
    [
        ({"data": {"a": "Yg=="}}, []),
        (
            {"type": "example.com/mine"},
            ['type: Invalid value: "example.com/mine": field is immutable'],
        ),
        ({"immutable": True}, []),
    ],
)
def test_secret_changes(judge, patch, wrong):
    judge.made(SECRETS, named(data={"a": "YQ=="}))
    assert judge.change(SECRETS, "x", patch) == wrong


def test_service_account_has_no_generation(judge):
    assert "generation" not in judge.made(SERVICE_ACCOUNTS, named())["metadata"]
