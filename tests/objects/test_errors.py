import pytest

from pytest_kscen.objects.errors import (
    AlreadyExists,
    ApiError,
    Cause,
    Conflict,
    Expired,
    InternalError,
    NotFound,
    ServerTimeout,
    conflict,
    error_of,
    forbidden,
    internal,
    invalid,
    not_found,
    quoted,
    shown,
)
from pytest_kscen.objects.resources import CONFIG_MAPS, DEPLOYMENTS, PODS


def test_error_names_resource_as_kubernetes():
    assert not_found(DEPLOYMENTS, "web").status == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": 'deployments.apps "web" not found',
        "reason": "NotFound",
        "details": {"name": "web", "group": "apps", "kind": "deployments"},
        "code": 404,
    }
    assert str(conflict(PODS, "p", "stale")) == 'Operation cannot be fulfilled on pods "p": stale'
    assert str(forbidden(PODS, "p", "no")) == 'pods "p" is forbidden: no'
    assert str(forbidden(PODS, "", "no")) == "pods is forbidden: no"


def test_several_causes_are_bracketed():
    name, labels = Cause.required("metadata.name"), Cause.invalid("metadata.labels", "-x", "bad")
    assert (
        str(invalid(CONFIG_MAPS, "c", [labels]))
        == 'ConfigMap "c" is invalid: metadata.labels: Invalid value: "-x": bad'
    )
    assert str(invalid(DEPLOYMENTS, "", [name, labels])) == (
        'Deployment.apps "" is invalid: [metadata.name: Required value, metadata.labels: '
        'Invalid value: "-x": bad]'
    )


def test_duplicate_cause_is_in_message_once():
    refusal = invalid(CONFIG_MAPS, "c", [Cause.forbidden("data", "no")] * 2)
    assert str(refusal) == 'ConfigMap "c" is invalid: data: Forbidden: no'
    assert (
        refusal.status["details"]["causes"]
        == [{"reason": "FieldValueForbidden", "message": "Forbidden: no", "field": "data"}] * 2
    )


@pytest.mark.parametrize(
    ("cause", "reason", "message"),
    [
        (Cause.invalid("f", 0, "too low"), "FieldValueInvalid", "Invalid value: 0: too low"),
        (
            Cause.invalid("f", {"a": [True, None]}, "no"),
            "FieldValueInvalid",
            'Invalid value: {"a":[true,null]}: no',
        ),
        (
            Cause.mistyped("f", "x", "must be a number"),
            "FieldValueTypeInvalid",
            'Invalid value: "x": must be a number',
        ),
        (Cause.required("f", "say it"), "FieldValueRequired", "Required value: say it"),
        (
            Cause.unsupported("f", "c", ["a", "b"]),
            "FieldValueNotSupported",
            'Unsupported value: "c": supported values: "a", "b"',
        ),
        (Cause.duplicate("f", "x"), "FieldValueDuplicate", 'Duplicate value: "x"'),
        (Cause.not_found("f", "x"), "FieldValueNotFound", 'Not found: "x"'),
        (Cause.too_long("f", 63), "FieldValueTooLong", "Too long: may not be more than 63 bytes"),
        (Cause.too_many("f", 2, 1), "FieldValueTooMany", "Too many: 2: must have at most 1 item"),
    ],
)
def test_causes_have_kubernetes_messages(cause, reason, message):
    assert (cause.reason, cause.message) == (reason, message)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a", '"a"'),
        ('"\\', r'"\"\\"'),
        ("é", '"é"'),
        ("\n\x00\x7f", r'"\n\x00\x7f"'),
        ("\u200b", r'"\u200b"'),
    ],
)
def test_strings_are_quoted_as_in_go(text, expected):
    assert quoted(text) == shown(text) == expected


def test_status_becomes_matching_exception():
    for refusal in (
        NotFound("m"),
        AlreadyExists("m"),
        Conflict("m"),
        Expired("m"),
        ServerTimeout("m"),
        internal("m"),
    ):
        again = error_of(refusal.status)
        assert (type(again), again.status) == (type(refusal), refusal.status)
    assert type(error_of({"code": 409})) is Conflict
    assert type(error_of({"code": 418})) is ApiError
    assert "reason" not in ApiError("m").status
    assert internal("m").status["details"] == {"causes": [{"message": "m"}]}
    assert issubclass(InternalError, ApiError)
