from __future__ import annotations

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st
from managed_object import builtin, widget_kind

from pytest_kscen.embedded.apiserver.patching import apply_patch, patch_refusal
from pytest_kscen.embedded.apiserver.patching.shapes import shape_of
from pytest_kscen.embedded.apiserver.patching.strategic import strategic_merge_patch
from pytest_kscen.kube.api import (
    APPLY_PATCH,
    JSON_PATCH,
    MERGE_PATCH,
    STRATEGIC_PATCH,
    Options,
    Request,
)
from pytest_kscen.objects.errors import (
    ApiError,
    BadRequest,
    Invalid,
    TooLarge,
    UnsupportedMediaType,
)

POD, DEPLOYMENT, CONFIG_MAP = builtin("Pod"), builtin("Deployment"), builtin("ConfigMap")

ALL = (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH)

LIVE = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "finalizers": ["x/a", "x/b"], "labels": {"l": "1"}},
    "spec": {
        "containers": [
            {
                "name": "x",
                "image": "x",
                "ports": [{"containerPort": 80, "protocol": "TCP"}, {"containerPort": 81}],
            },
            {"name": "y", "image": "y", "env": [{"name": "A", "value": "1"}]},
        ],
        "tolerations": [{"key": "q"}],
        "volumes": [{"name": "v", "emptyDir": {}}],
    },
}


def after(patch, *, kind=POD, live=LIVE):
    before = copy.deepcopy((live, patch))
    new = strategic_merge_patch(shape_of(kind), live, patch)
    assert (live, patch) == before
    return new


def containers(*items, **more):
    return [
        item["name"]
        for item in after({"spec": {"containers": list(items), **more}})["spec"]["containers"]
    ]


def test_lists_merge_by_key():
    new = after(
        {
            "spec": {
                "containers": [{"name": "y", "image": "z", "env": [{"name": "B", "value": "2"}]}]
            }
        }
    )
    assert new["spec"]["containers"][1] == {
        "name": "y",
        "image": "z",
        "env": [{"name": "B", "value": "2"}, {"name": "A", "value": "1"}],
    }
    assert new["spec"]["containers"][0] is LIVE["spec"]["containers"][0]
    assert new["spec"]["volumes"] is LIVE["spec"]["volumes"]


def test_lists_without_strategy_are_replaced():
    assert after({"spec": {"tolerations": [{"key": "z"}]}})["spec"]["tolerations"] == [{"key": "z"}]


def test_null_removes_field():
    assert after({"metadata": {"labels": None}})["metadata"] == {
        "name": "p",
        "finalizers": ["x/a", "x/b"],
    }
    assert after({"metadata": {"labels": {"none": None}}}) == LIVE


@pytest.mark.parametrize(
    ("items", "names"),
    [
        ([{"name": "z"}], "zxy"),
        ([{"name": "y", "$patch": "delete"}], "x"),
        ([{"name": "none", "$patch": "delete"}, {"name": "z"}], "zxy"),
        ([{"$patch": "replace"}, {"name": "q"}, {"name": "x", "$patch": "delete"}], "q"),
        ([{"name": "y"}, {"name": "x"}], "yx"),
    ],
)
def test_list_items_are_added_removed_and_ordered(items, names):
    assert "".join(containers(*items)) == names


def test_set_element_order_directive():
    assert after({"spec": {"$setElementOrder/containers": [{"name": "y"}, {"name": "x"}]}})["spec"][
        "containers"
    ] == [
        LIVE["spec"]["containers"][1],
        LIVE["spec"]["containers"][0],
    ]
    order = [{"name": name} for name in "nyx"]
    assert containers({"name": "n"}, **{"$setElementOrder/containers": order}) == ["n", "y", "x"]
    finalizers = {"$setElementOrder/finalizers": ["x/c", "x/b", "x/a"], "finalizers": ["x/c"]}
    assert after({"metadata": finalizers})["metadata"]["finalizers"] == ["x/c", "x/b", "x/a"]


def test_delete_from_primitive_list_directive():
    assert after({"metadata": {"$deleteFromPrimitiveList/finalizers": ["x/a"]}})["metadata"][
        "finalizers"
    ] == ["x/b"]
    assert after({"metadata": {"finalizers": ["x/c", "x/a"]}})["metadata"]["finalizers"] == [
        "x/c",
        "x/a",
        "x/b",
    ]


def test_map_directives():
    assert after({"spec": {"$patch": "replace", "containers": []}})["spec"] == {"containers": []}
    assert after({"metadata": {"labels": {"$patch": "delete"}}})["metadata"]["labels"] == {}
    volumes = [{"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/x"}}]
    assert after({"spec": {"volumes": volumes}})["spec"]["volumes"] == [
        {"name": "v", "hostPath": {"path": "/x"}}
    ]
    live = {"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}}
    patch = {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}
    assert after(patch, kind=DEPLOYMENT, live=live) == {"spec": {"strategy": {"type": "Recreate"}}}


@pytest.mark.parametrize(
    ("spec", "error", "message"),
    [
        (
            {"containers": [{"image": "z"}]},
            ApiError,
            "map: map[image:z] does not contain declared merge key: name",
        ),
        (
            {"containers": [{"name": "y", "$patch": "frob"}]},
            ApiError,
            "unknown patch type: frob in map: map[$patch:frob name:y]",
        ),
        (
            {"containers": [{"name": "y", "$patch": "merge"}]},
            ApiError,
            "merging lists cannot yet be specified in the patch",
        ),
        ({"$patch": "frob"}, ApiError, "unknown patch type: frob in map: map[$patch:frob]"),
        (
            {"$setElementOrder/containers": "x"},
            ApiError,
            "expected a []interface {}, but received a string",
        ),
        ({"$setElementOrder": []}, BadRequest, "invalid patch format of setElementOrder list"),
        ({"$deleteFromPrimitiveList": []}, BadRequest, "invalid patch format of primitive list"),
        (
            {"$retainKeys": ["none"], "nodeName": "n"},
            BadRequest,
            "invalid patch format of retainKeys",
        ),
        (
            {"$setElementOrder/foo": [{"name": "x"}]},
            ApiError,
            'unable to find api field in struct PodSpec for the json field "foo"',
        ),
        (
            {"$setElementOrder/containers": [{"name": "y"}], "containers": [{"name": "n"}]},
            ApiError,
            (
                "The order in patch list:\n[map[name:n]]\n doesn't match $setElementOrder "
                "list:\n[map[name:y]]\n"
            ),
        ),
        (
            {"tolerations": [{"key": "q"}], "volumes": ["x"]},
            ApiError,
            "list element types are not identical: ",
        ),
    ],
)
def test_invalid_strategic_patch_is_refused(spec, error, message):
    with pytest.raises(ApiError) as refusal:
        after({"spec": spec})
    assert type(refusal.value) is error
    assert refusal.value.message.startswith(message)


items = st.lists(st.sampled_from("abcde"), unique=True, max_size=5)


@given(items, items)
def test_merged_list_is_complete_and_ordered(live, patch):
    pods = [{"spec": {"containers": [{"name": name} for name in names]}} for names in (live, patch)]
    found = [item["name"] for item in after(pods[1], live=pods[0])["spec"]["containers"]]
    assert sorted(found) == sorted({*live, *patch})
    assert [name for name in found if name in patch] == patch
    assert [name for name in found if name not in patch] == [
        name for name in live if name not in patch
    ]
    assert after(pods[1], live={"spec": {"containers": [{"name": name} for name in found]}})[
        "spec"
    ]["containers"] == [{"name": name} for name in found]


def asked(patch_type, body, *, kind=CONFIG_MAP, **options):
    request = Request(
        "patch",
        kind.resource,
        "n",
        "c",
        body=body,
        patch_type=patch_type,
        options=Options(**options),
    )
    old = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "1"}}
    return apply_patch(kind, old, request, 0.0), request


@pytest.mark.parametrize(
    ("patch_type", "body", "error", "message"),
    [
        (
            "text/plain",
            {},
            UnsupportedMediaType,
            (
                "the body of the request was in an unknown format - accepted media types "
                f"include: {', '.join(ALL)}"
            ),
        ),
        (
            JSON_PATCH,
            {},
            BadRequest,
            (
                "error decoding patch: json: cannot unmarshal object into Go value of type "
                "[]handlers.jsonPatchOp"
            ),
        ),
        (
            JSON_PATCH,
            [1],
            BadRequest,
            (
                "error decoding patch: json: cannot unmarshal number into Go value of type "
                "handlers.jsonPatchOp"
            ),
        ),
        (
            JSON_PATCH,
            [{"op": "add", "path": 5}],
            BadRequest,
            (
                "error decoding patch: json: cannot unmarshal number into Go struct field "
                "jsonPatchOp.path of type string"
            ),
        ),
        (
            JSON_PATCH,
            [{"op": "remove", "path": "/x"}],
            Invalid,
            "the server rejected our request due to an error in our request",
        ),
        (
            JSON_PATCH,
            [{"op": "test", "path": "/kind", "value": "ConfigMap"}] * 10_001,
            TooLarge,
            (
                "Request entity too large: The allowed maximum operations in a JSON patch is "
                "10000, got 10001"
            ),
        ),
        (
            MERGE_PATCH,
            [1],
            BadRequest,
            (
                "error decoding patch: json: cannot unmarshal array into Go value of type "
                "map[string]interface {}"
            ),
        ),
        (
            STRATEGIC_PATCH,
            "x",
            BadRequest,
            "json: cannot unmarshal string into Go value of type map[string]interface {}",
        ),
    ],
)
def test_malformed_patch_is_refused(patch_type, body, error, message):
    with pytest.raises(error) as refusal:
        asked(patch_type, body)
    assert refusal.value.message == message


def test_custom_kinds_refuse_strategic_patch():
    with pytest.raises(UnsupportedMediaType) as refusal:
        asked(STRATEGIC_PATCH, {}, kind=widget_kind())
    assert refusal.value.message.endswith(
        "accepted media types include: application/json-patch+json, "
        "application/merge-patch+json, application/apply-patch+yaml"
    )


def test_force_requires_apply():
    with pytest.raises(Invalid, match="force: Forbidden: may not be specified for non-apply patch"):
        asked(MERGE_PATCH, {}, force=True)


def test_unknown_field_in_json_patch_follows_validation_level():
    body = [{"op": "test", "path": "/kind", "value": "ConfigMap", "zork": 1}]
    assert asked(JSON_PATCH, body)[1].warnings == ['json patch unknown field "[0].zork"']
    with pytest.raises(
        Invalid, match=r'strict decoding error: json patch unknown field "\[0\].zork"'
    ):
        asked(JSON_PATCH, body, field_validation="Strict")


@pytest.mark.parametrize(
    ("patch_type", "why", "message"),
    [
        (
            MERGE_PATCH,
            "json: oh",
            ' "" is invalid: patch: Invalid value: "{\\"a\\":1,\\"b\\":{}}": json: oh',
        ),
        (STRATEGIC_PATCH, "oh", ' "" is invalid: patch: Invalid value: "map[data:x]": oh'),
    ],
)
def test_patch_result_of_other_shape_is_refused(patch_type, why, message):
    request = Request("patch", CONFIG_MAP.resource, body={"data": "x"}, patch_type=patch_type)
    refusal = patch_refusal(request, {"b": {}, "a": 1}, why)
    assert (refusal.code, refusal.message) == (422, message)
    assert refusal.status["details"]["causes"][0]["field"] == "patch"


def test_apply_patch_type_is_dispatched():
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"b": "2"}}
    new, _ = asked(APPLY_PATCH, body, field_manager="ann")
    assert new["data"] == {"a": "1", "b": "2"}
