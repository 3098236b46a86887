from __future__ import annotations

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_kscen.objects.patches import PatchError, json_patch, merge_patch, same_json

scalars = st.none() | st.integers(0, 3) | st.sampled_from(["", "a", "b"])
documents = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc/~"), inner, max_size=3)
    ),
    max_leaves=8,
)
objects = st.dictionaries(st.sampled_from("abc"), documents, max_size=3)


def op(op, path, **more):
    return {"op": op, "path": path, **more}


@pytest.mark.parametrize(
    ("operation", "outcome"),
    [
        (op("add", "/b", value=2), {"a": [1, 2], "o": {"k": 1}, "b": 2}),
        (op("add", "/a/0", value=0), {"a": [0, 1, 2], "o": {"k": 1}}),
        (op("add", "/a/2", value=3), {"a": [1, 2, 3], "o": {"k": 1}}),
        (op("add", "/a/-", value=3), {"a": [1, 2, 3], "o": {"k": 1}}),
        (op("add", "/a/-1", value=3), {"a": [1, 2, 3], "o": {"k": 1}}),
        (op("add", "/b"), {"a": [1, 2], "o": {"k": 1}, "b": None}),
        (op("remove", "/a/0"), {"a": [2], "o": {"k": 1}}),
        (op("remove", "/o/k"), {"a": [1, 2], "o": {}}),
        (op("replace", "/a/-1", value=9), {"a": [1, 9], "o": {"k": 1}}),
        (op("replace", "/new", value=9), {"a": [1, 2], "o": {"k": 1}, "new": 9}),
        (op("replace", "", value={}), {}),
        (op("move", "/b", **{"from": "/o/k"}), {"a": [1, 2], "o": {}, "b": 1}),
        (op("copy", "/b", **{"from": "/o"}), {"a": [1, 2], "o": {"k": 1}, "b": {"k": 1}}),
        (op("copy", "/a/-", **{"from": "/o/k"}), {"a": [1, 2, 1], "o": {"k": 1}}),
        (op("copy", "/b", **{"from": "/nothing"}), {"a": [1, 2], "o": {"k": 1}, "b": None}),
        (op("test", "/a/1", value=2), {"a": [1, 2], "o": {"k": 1}}),
        (op("test", "/nothing", value=None), {"a": [1, 2], "o": {"k": 1}}),
        (op("test", "", value={"o": {"k": 1}, "a": [1, 2]}), {"a": [1, 2], "o": {"k": 1}}),
        (op("add", "a~b/x~1y~0z", value=1), {"a": [1, 2], "o": {"k": 1}, "x/y~z": 1}),
    ],
)
def test_json_patch_operation_is_applied(operation, outcome):
    assert json_patch({"a": [1, 2], "o": {"k": 1}}, [operation]) == outcome


@pytest.mark.parametrize(
    "operation",
    [
        op("frob", "/a"),
        {"op": "add", "value": 1},
        op("add", "/x/y", value=1),
        op("add", "/a/3", value=1),
        op("add", "/a/one", value=1),
        op("add", "", value=1),
        op("add", "/o/k/deep", value=1),
        op("remove", "/x"),
        op("remove", "/a/2"),
        op("remove", ""),
        op("replace", "/a/2", value=1),
        op("replace", "", value="text"),
        op("move", "/x"),
        op("move", "/x", **{"from": "/y"}),
        op("test", "/a/1", value=1),
        op("test", "/a/0", value=True),
        op("test", "/a/0", value=1.0),
        op("test", "/nothing", value=0),
    ],
)
def test_inapplicable_json_patch_operation_is_refused(operation):
    with pytest.raises(PatchError):
        json_patch({"a": [1, 2], "o": {"k": 1}}, [operation])


@pytest.mark.parametrize(
    ("operation", "message"),
    [
        (
            op("remove", "/nope"),
            (
                "error in remove for path: '/nope': Unable to remove nonexistent key: nope: "
                "missing value"
            ),
        ),
        (
            op("remove", "/x/y"),
            'remove operation does not apply: doc is missing path: "/x/y": missing value',
        ),
        (
            op("add", "/x/y"),
            'add operation does not apply: doc is missing path: "/x/y": missing value',
        ),
        (
            op("add", "/a/9"),
            (
                "error in add for path: '/a/9': Unable to access invalid index: 9: invalid "
                "index referenced"
            ),
        ),
        (
            op("replace", "/a/9"),
            "replace operation does not apply: doc is missing key: /a/9: missing value",
        ),
        (op("test", "/a/1", value=1), "testing value /a/1 failed: test failed"),
        (op("frob", "/a"), "Unexpected kind: frob"),
    ],
)
def test_json_patch_error_messages(operation, message):
    with pytest.raises(PatchError) as refusal:
        json_patch({"a": [1, 2], "o": {"k": 1}}, [operation])
    assert str(refusal.value) == message


def test_json_patch_copies_changed_path_only():
    document = {"a": {"deep": [1]}, "b": {"c": {"d": 1}, "e": {}}}
    new = json_patch(document, [op("add", "/b/c/d", value=2)])
    assert document["b"]["c"]["d"] == 1
    assert new["a"] is document["a"]
    assert new["b"]["e"] is document["b"]["e"]


def test_copy_operations_have_size_limit():
    fat = [op("copy", f"/copy{n}", **{"from": "/fat"}) for n in range(4)]
    with pytest.raises(PatchError, match="accumulated size increase of copy is 4000008"):
        json_patch({"fat": "x" * 1_000_000}, fat)


@pytest.mark.parametrize(
    ("target", "patch", "outcome"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": "foo"}, None, None),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
        ({"e": None}, {"e": None}, {}),
        ({}, {"a": [{"b": None, "c": 1}, None]}, {"a": [{"c": 1}, None]}),
    ],
)
def test_merge_patch_is_applied(target, patch, outcome):
    assert merge_patch(target, patch) == outcome


def merge_patch_between(old, new):
    """Return the merge patch from old to new."""
    if not isinstance(old, dict) or not isinstance(new, dict):
        return new
    gone = {name: None for name in old if name not in new}
    return gone | {
        name: merge_patch_between(old.get(name), value)
        for name, value in new.items()
        if name not in old or old[name] != value
    }


def without_nulls(value):
    if isinstance(value, dict):
        return {name: without_nulls(part) for name, part in value.items() if part is not None}
    return [without_nulls(part) for part in value] if isinstance(value, list) else value


@given(objects.map(without_nulls), objects.map(without_nulls))
def test_merging_difference_gives_target(old, new):
    assert same_json(merge_patch(old, merge_patch_between(old, new)), new)


@given(objects, objects)
def test_merge_is_idempotent_and_keeps_arguments(document, patch):
    before = copy.deepcopy((document, patch))
    once = merge_patch(document, patch)
    assert merge_patch(once, patch) is once
    assert (document, patch) == before


@given(objects.map(without_nulls))
def test_merge_patch_shares_unchanged_parts(document):
    assert merge_patch(document, {}) is document
    assert merge_patch(document, copy.deepcopy(document)) is document
    new = merge_patch(document, {"new": 1})
    assert all(new[name] is value for name, value in document.items())


def test_equal_element_keeps_identity():
    there = [{"name": "a"}, {"name": "b"}]
    merged = merge_patch(
        {"list": there}, {"list": [there[1], {"name": "c", "gone": None}, there[0]]}
    )["list"]
    assert merged == [{"name": "b"}, {"name": "c"}, {"name": "a"}]
    assert (merged[0] is there[1], merged[2] is there[0]) == (True, True)
