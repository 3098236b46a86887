import copy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from schema_builders import (
    EITHER,
    EMBEDDED,
    LIST_MAP,
    PRESERVE,
    list_of,
    map_of,
    struct,
    text,
    whole,
)

from pytest_kscen.embedded.apiserver.schema.custom import CustomSchema
from pytest_kscen.objects.errors import BadRequest

SPEC = struct(
    {
        "s": text(),
        "nullable": text(nullable=True),
        "default": text(default="dd"),
        "inner": struct({"a": text(default="x"), "b": whole(default=3)}, default={}),
        "objects": list_of(struct({"a": text(), "c": text(default="c")})),
        "map": map_of(struct({"a": text()})),
        "either": EITHER,
        "open": {"type": "object", "properties": {"known": struct({"a": text()})}, **PRESERVE},
        "any": PRESERVE,
        "embedded": {"type": "object", **EMBEDDED, **PRESERVE},
        "closed": {"type": "object", "properties": {"spec": struct({"a": text()})}, **EMBEDDED},
        "keyed": list_of(struct({"k": text()}, required=["k"]), **LIST_MAP),
    }
)
SCHEMA = CustomSchema("Thing", "v1", struct({"spec": SPEC}))
FILLED = {"default": "dd", "inner": {"a": "x", "b": 3}}


def decoded(spec, old=None, strictness="Warn", warnings=None):
    obj = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a"}, "spec": spec}
    return SCHEMA.decode(
        obj, old, strictness=strictness, warnings=[] if warnings is None else warnings
    )


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ({}, {}),
        ({"s": None}, {}),
        ({"nullable": None}, {"nullable": None}),
        ({"default": None}, {}),
        ({"default": "q"}, {"default": "q"}),
        ({"inner": {"a": None}}, {}),
        ({"objects": [{"a": "x", "z": 1}]}, {"objects": [{"a": "x", "c": "c"}]}),
        ({"objects": [None]}, {"objects": [None]}),
        ({"map": {"q": None, "r": {"a": "b", "zz": 1}}}, {"map": {"r": {"a": "b"}}}),
        ({"open": {"x": 1, "known": {"a": "x", "b": 1}}}, {"open": {"x": 1, "known": {"a": "x"}}}),
        ({"any": {"a": None, "b": [1.0, 2.5, 10**20]}}, {"any": {"a": None, "b": [1, 2.5, 1e20]}}),
        ({"either": 1.0}, {"either": 1}),
        (
            {"closed": {"apiVersion": "v1", "kind": "Pod", "foo": 1, "spec": {"a": "b", "c": 1}}},
            {"closed": ...},
        ),
        ({"s": {"a": 1}}, {"s": {}}),
        (
            {"embedded": {"metadata": {"labels": {}, "name": "x"}}},
            {"embedded": {"metadata": {"name": "x"}}},
        ),
    ],
)
def test_object_is_pruned_and_defaulted(given, kept):
    if kept == {"closed": ...}:
        kept = {"closed": {"apiVersion": "v1", "kind": "Pod", "spec": {"a": "b"}}}
    assert decoded(given)["spec"] == {**FILLED, **kept}


STRANGE = {
    "unknown": 1,
    "objects": [{"a": "x", "z": 1}],
    "a.b": 1,
    "embedded": {"metadata": {"foo": 1}},
}
TOLD = ["spec.a.b", "spec.objects[0].z", "spec.unknown", "spec.embedded.metadata.foo"]


def test_unknown_fields_are_reported_in_kubernetes_order():
    warnings = []
    decoded(STRANGE, warnings=warnings)
    words = [f'unknown field "{path}"' for path in TOLD]
    assert warnings == words
    with pytest.raises(BadRequest) as refusal:
        decoded(STRANGE, strictness="Strict")
    assert refusal.value.message == (
        'Thing in version "v1" cannot be handled as a Thing: strict decoding error: '
        f"{', '.join(words)}"
    )


@pytest.mark.parametrize(
    ("embedded", "why"),
    [
        (
            {"metadata": {"name": 1}},
            (
                'spec.embedded.metadata: Invalid value: {"name":1}: json: cannot '
                "unmarshal number into Go struct field "
                "ObjectMeta.name of type string"
            ),
        ),
        ({"apiVersion": 1}, "spec.embedded.apiVersion: Invalid value: 1: must be a string"),
    ],
)
def test_embedded_resource_requires_kind_and_version(embedded, why):
    with pytest.raises(BadRequest) as refusal:
        decoded({"embedded": embedded})
    assert refusal.value.why == why


def test_metadata_is_decoded_as_for_any_kind():
    with pytest.raises(BadRequest) as refusal:
        SCHEMA.decode({"metadata": {"name": 1}}, None, strictness="Warn", warnings=[])
    assert (
        refusal.value.why
        == "json: cannot unmarshal number into Go struct field ObjectMeta.name of type string"
    )
    warnings = []
    new = SCHEMA.decode(
        {"metadata": {"name": "a", "foo": 1}, "bar": 1}, None, strictness="Warn", warnings=warnings
    )
    assert new == {"metadata": {"name": "a"}}
    assert warnings == ['unknown field "metadata.foo"', 'unknown field "bar"']


def test_unchanged_parts_are_shared():
    old = decoded({"objects": [{"a": "x"}], "any": {"deep": {"a": 1}}})
    new = decoded({**old["spec"], "s": "new"}, old)
    assert new["spec"]["objects"] is old["spec"]["objects"]
    assert new["spec"]["any"] is old["spec"]["any"]


def test_defaults_are_copied():
    one, other = decoded({}), decoded({})
    assert one["spec"]["inner"] is not other["spec"]["inner"]


json = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.floats(-2, 2) | st.sampled_from(["", "a"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["a", "k", "spec", "metadata", "zz"]), inner, max_size=3)
    ),
    max_leaves=5,
)


@settings(max_examples=80)
@given(st.dictionaries(st.sampled_from(sorted(SPEC["properties"])), json, max_size=4))
def test_decoding_twice_changes_nothing_and_leaves_nothing_unknown(spec):
    try:
        once = decoded(spec)
    except BadRequest:
        return
    assert decoded(once["spec"], strictness="Strict") == once


def test_true_and_one_are_distinct():
    old = decoded({"any": {"a": [True, 1, 1.5], "b": 2}})
    new = decoded({"any": {"a": [1, 1, 1.5], "b": 2}}, old)
    assert [type(part) for part in new["spec"]["any"]["a"]] == [int, int, float]
    assert decoded(copy.deepcopy(old["spec"]), old)["spec"] is old["spec"]
