import pytest

from pytest_kscen.embedded.apiserver.wire.queries import (
    Query,
    delete_options,
    list_options,
    with_selection,
    write_options,
)
from pytest_kscen.kube.api import APPLY_PATCH, DEFAULTS, MERGE_PATCH, Options
from pytest_kscen.objects.errors import ApiError

INVALID = '{}Options.meta.k8s.io "" is invalid: '


def refusal(function, *arguments, **options):
    with pytest.raises(ApiError) as refused:
        function(*arguments, **options)
    return refused.value.code, refused.value.message


def test_list_query_is_parsed():
    query = Query(
        "labelSelector=a%3Db&fieldSelector=c%3Dd&limit=5&continue=x&resourceVersion=7&resourceVersionMatch=Exact&timeoutSeconds=9"
    )
    with pytest.raises(
        ApiError, match="resourceVersionMatch is forbidden when continue is provided"
    ):
        list_options(query, watch=False)
    query = Query(
        "labelSelector=a%3Db&fieldSelector=c%3Dd&limit=5&resourceVersion=7&timeoutSeconds=9"
    )
    assert list_options(query, watch=False) == Options(
        labels="a=b", fields="c=d", limit=5, resource_version="7", timeout=9.0
    )


def test_watch_query_is_parsed():
    query = Query("allowWatchBookmarks=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan")
    options = list_options(query, watch=True)
    assert (options.bookmarks, options.send_initial_events) == (True, True)
    assert list_options(Query("watch=1&timeoutSeconds=-3"), watch=True).timeout is None


def test_deprecated_watch_path_is_parsed():
    assert list_options(Query(""), watch=True, name="p").fields == "metadata.name=p"


@pytest.mark.parametrize(
    ("text", "value"), [("x", True), ("", True), ("0", False), ("FALSE", False), ("no", True)]
)
def test_booleans_are_parsed_as_in_go(text, value):
    assert Query(f"flag={text}").flag("flag") is value
    assert Query("").flag("flag") is None


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("x", "invalid syntax"),
        ("", "invalid syntax"),
        ("1.5", "invalid syntax"),
        ("9" * 30, "value out of range"),
    ],
)
def test_invalid_numbers_are_refused(text, why):
    assert refusal(list_options, Query(f"limit={text}"), watch=False) == (
        400,
        f'strconv.ParseInt: parsing "{text}": {why}',
    )


@pytest.mark.parametrize(
    ("query", "watch", "message"),
    [
        (
            "resourceVersionMatch=NotOlderThan",
            False,
            "resourceVersionMatch is forbidden unless resourceVersion is provided",
        ),
        (
            "resourceVersionMatch=Exact&resourceVersion=0",
            False,
            'resourceVersionMatch "exact" is forbidden for resourceVersion "0"',
        ),
        ("sendInitialEvents=false", False, "sendInitialEvents is forbidden for list"),
        (
            "sendInitialEvents=true",
            True,
            "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
        ),
        (
            "resourceVersionMatch=NotOlderThan",
            True,
            "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
        ),
    ],
)
def test_invalid_list_and_watch_queries_are_refused(query, watch, message):
    code, said = refusal(list_options, Query(query), watch=watch)
    assert code == 422
    assert said.startswith('ListOptions.meta.k8s.io "" is invalid: ')
    assert said.endswith(f"Forbidden: {message}")


def test_write_query_is_parsed():
    query = Query("dryRun=All&fieldManager=me&fieldValidation=Strict")
    assert write_options(query, "create") == Options(
        dry_run=True, field_manager="me", field_validation="Strict"
    )
    assert write_options(Query("force=true&fieldManager=me"), "patch", APPLY_PATCH).force
    assert write_options(Query(""), "create") is DEFAULTS


@pytest.mark.parametrize(
    ("query", "verb", "patch_type", "message"),
    [
        (
            "dryRun=Foo",
            "create",
            "",
            (
                'CreateOptions.meta.k8s.io "" is invalid: dryRun: Unsupported value: '
                '["Foo"]: supported values: "All"'
            ),
        ),
        (
            "fieldValidation=Foo",
            "update",
            "",
            INVALID.format("Update")
            + (
                'fieldValidation: Unsupported value: "Foo": supported values: "", "Ignore", '
                '"Strict", "Warn"'
            ),
        ),
        (
            f"fieldManager={'a' * 129}",
            "create",
            "",
            (
                'CreateOptions.meta.k8s.io "" is invalid: fieldManager: Too long: may not be '
                "more than 128 bytes"
            ),
        ),
        (
            "fieldManager=%01",
            "create",
            "",
            INVALID.format("Create")
            + r'fieldManager: Invalid value: "\x01": invalid character U+0001 (at position 0)',
        ),
        (
            "force=false",
            "patch",
            MERGE_PATCH,
            (
                'PatchOptions.meta.k8s.io "" is invalid: force: Forbidden: may not be '
                "specified for non-apply patch"
            ),
        ),
        (
            "",
            "patch",
            APPLY_PATCH,
            (
                'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is '
                "required for apply patch"
            ),
        ),
    ],
)
def test_invalid_write_queries_are_refused(query, verb, patch_type, message):
    assert refusal(write_options, Query(query), verb, patch_type) == (422, message)


def test_deletion_options_in_query_or_body():
    query = Query("gracePeriodSeconds=5&propagationPolicy=Foreground")
    assert delete_options(query, None) == Options(grace_period=5, propagation="Foreground")
    body = {
        "dryRun": ["All"],
        "preconditions": {"uid": "u", "resourceVersion": "3"},
        "orphanDependents": True,
        "unknown": 1,
    }
    expected = Options(
        dry_run=True, precondition_uid="u", precondition_version="3", orphan_dependents=True
    )
    assert delete_options(query, body) == expected


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            {"kind": "Pod", "apiVersion": "v1"},
            'no kind "Pod" is registered for version "v1" in scheme "pkg/runtime/scheme.go:111"',
        ),
        (
            {"gracePeriodSeconds": "x"},
            (
                "json: cannot unmarshal string into Go struct field "
                "DeleteOptions.gracePeriodSeconds of type int64"
            ),
        ),
        (
            {"dryRun": "All"},
            (
                "json: cannot unmarshal string into Go struct field DeleteOptions.dryRun of "
                "type []string"
            ),
        ),
    ],
)
def test_malformed_deletion_options_are_refused(body, message):
    assert refusal(delete_options, Query(""), body) == (400, message)


def test_invalid_deletion_options_are_refused():
    query = Query("propagationPolicy=Orphan&orphanDependents=true")
    why = 'Invalid value: "Orphan": orphanDependents and deletionPropagation cannot be both set'
    assert refusal(delete_options, query, None) == (
        422,
        f'DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: {why}',
    )


def test_collection_deletion_uses_list_query():
    options = with_selection(Options(grace_period=0), Query("labelSelector=a&gracePeriodSeconds=0"))
    assert (options.labels, options.grace_period) == ("a", 0)
