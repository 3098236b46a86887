"""The fast path of validation returns the same results and messages as full validation."""

import copy

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from pytest_kscen.embedded.apiserver.schema.custom import CustomSchema
from pytest_kscen.objects.errors import BadRequest

TEXT = {"type": "string", "maxLength": 3}
ELEMENT = {
    "type": "object",
    "required": ["a"],
    "properties": {
        "a": TEXT,
        "b": {"type": "integer", "default": 7, "minimum": 0},
        "c": {"type": "array", "items": {"type": "object", "properties": {"a": TEXT}}},
    },
}
CONTENT = {
    "type": "object",
    "properties": {
        "text": {**TEXT, "enum": ["a", "b", "abc"]},
        "number": {"type": "number", "maximum": 3},
        "truth": {"type": "boolean", "nullable": True},
        "either": {"x-kubernetes-int-or-string": True},
        "filled": {
            "type": "object",
            "default": {"a": "x"},
            "properties": {"a": TEXT, "b": {"type": "integer", "default": 1}},
        },
        "texts": {"type": "array", "items": TEXT, "x-kubernetes-list-type": "set", "maxItems": 3},
        "lists": {"type": "array", "items": {"type": "array", "items": {"type": "integer"}}},
        "map": {
            "type": "array",
            "items": ELEMENT,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["a"],
        },
        "atoms": {"type": "array", "items": ELEMENT},
        "more": {"type": "object", "additionalProperties": ELEMENT, "minProperties": 1},
        "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "one": {
            "type": "object",
            "properties": {"a": TEXT, "b": TEXT},
            "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
        },
        "whole": {
            "type": "object",
            "x-kubernetes-embedded-resource": True,
            "properties": {"a": TEXT},
        },
    },
}
ROOT = {
    "type": "object",
    "required": ["spec"],
    "properties": {
        "metadata": {"type": "object", "properties": {"name": {"type": "string", "maxLength": 2}}},
        "spec": CONTENT,
        "status": CONTENT,
    },
}

SCALARS = st.sampled_from(
    [None, True, False, 0, 1, -1, 1.0, 1.5, 7, 1 << 70, "", "a", "b", "abc", "long", "v1"]
)
NAMES = st.sampled_from(["a", "b", "c", "x", "apiVersion", "kind", "metadata"])
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)
SHORT, WHOLE = st.sampled_from(["", "a", "b", "abc"]), st.sampled_from([0, 1, 1.0, 2])
ELEMENTS = st.fixed_dictionaries(
    {"a": SHORT},
    optional={"b": WHOLE, "c": st.lists(st.fixed_dictionaries({"a": SHORT}), max_size=2)},
)
FITTING = {
    "text": SHORT,
    "number": WHOLE,
    "truth": st.booleans(),
    "either": SHORT | WHOLE,
    "filled": st.fixed_dictionaries({}, optional={"a": SHORT, "b": WHOLE}),
    "texts": st.lists(SHORT, max_size=3),
    "lists": st.lists(st.lists(WHOLE, max_size=2), max_size=2),
    "map": st.lists(ELEMENTS, max_size=3),
    "atoms": st.lists(ELEMENTS, max_size=3),
    "more": st.dictionaries(NAMES, ELEMENTS, max_size=2),
    "any": st.dictionaries(NAMES, VALUES, max_size=2),
    "one": st.fixed_dictionaries({}, optional={"a": SHORT, "b": SHORT}),
    "whole": st.just({"apiVersion": "v1", "kind": "K", "a": "b"}),
}
WRONG = st.dictionaries(st.sampled_from([*FITTING, "stranger"]), VALUES, max_size=1)
CONTENTS = st.builds(
    lambda right, wrong: {**right, **wrong},
    st.fixed_dictionaries({}, optional=FITTING),
    st.just({}) | WRONG,
)
METADATA = st.fixed_dictionaries(
    {"name": st.sampled_from(["a", "abc"])}, optional={"labels": VALUES}
)
OBJECTS = st.fixed_dictionaries(
    {"apiVersion": st.just("g/v1"), "kind": st.just("K"), "metadata": METADATA, "spec": CONTENTS}
)
STATUSES = st.builds(lambda obj, status: {**obj, "status": status}, OBJECTS, CONTENTS)


def write_result(schema, body, old, subresource):
    """Return the object, errors and warnings of a write."""
    warnings = []
    try:
        new = schema.decode(body, old, strictness="Warn", warnings=warnings)
    except BadRequest as refusal:
        return None, refusal.message, warnings
    return new, [repr(cause) for cause in schema.validate(new, old, subresource)], warnings


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.lists(st.tuples(OBJECTS | STATUSES, st.sampled_from(["", "status"])), min_size=1, max_size=5)
)
def test_fast_and_slow_path_agree(writes):
    quick, slow = CustomSchema("K", "v1", ROOT), CustomSchema("K", "v1", ROOT)
    slow._take = None
    old = None
    for body, subresource in writes:
        given_body = (
            body
            if old is None
            else {**old, **{name: part for name, part in body.items() if name != "metadata"}}
        )
        before = copy.deepcopy(given_body)
        found, wanted = (
            write_result(schema, given_body, old, subresource) for schema in (quick, slow)
        )
        assert repr(found) == repr(wanted)
        assert repr(given_body) == repr(before)
        old = found[0] or old


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(OBJECTS, OBJECTS)
def test_acceptance_depends_on_the_old_object(one, other):
    quick, slow = CustomSchema("K", "v1", ROOT), CustomSchema("K", "v1", ROOT)
    slow._take = None
    one, other = (write_result(slow, each, None, "")[0] for each in (one, other))
    assume(one and other)
    assert repr(write_result(quick, one, one, "")) == repr(write_result(slow, one, one, ""))
    assert repr(write_result(quick, {**other, "spec": one["spec"]}, other, "")) == repr(
        write_result(slow, {**other, "spec": one["spec"]}, other, "")
    )
    assert repr(write_result(quick, one, None, "")) == repr(write_result(slow, one, None, ""))


def test_decoded_object_is_not_shared():
    schema = CustomSchema("K", "v1", ROOT)
    body = {
        "apiVersion": "g/v1",
        "kind": "K",
        "metadata": {"name": "a"},
        "spec": {"atoms": [{"a": "x"}], "more": {"a": {"a": "x"}}},
    }
    first = schema.decode(body, None, strictness="Warn", warnings=[])
    body["spec"]["atoms"][0]["a"] = body["spec"]["more"]["a"]["a"] = "y"
    second = schema.decode(body, None, strictness="Warn", warnings=[])
    assert first["spec"] == {
        "atoms": [{"a": "x", "b": 7}],
        "more": {"a": {"a": "x", "b": 7}},
        "filled": {"a": "x", "b": 1},
    }
    assert second["spec"] == {
        "atoms": [{"a": "y", "b": 7}],
        "more": {"a": {"a": "y", "b": 7}},
        "filled": {"a": "x", "b": 1},
    }


def test_rewritten_element_is_the_stored_one():
    schema = CustomSchema("K", "v1", ROOT)
    body = {
        "apiVersion": "g/v1",
        "kind": "K",
        "metadata": {"name": "a"},
        "spec": {"map": [{"a": "x"}, {"a": "y"}]},
    }
    first = schema.decode(body, None, strictness="Warn", warnings=[])
    second = schema.decode(
        {**body, "spec": {"map": [{"a": "y"}, {"a": "x"}]}}, first, strictness="Warn", warnings=[]
    )
    assert second["spec"]["map"][0] is first["spec"]["map"][1]
    assert second["spec"]["map"][1] is first["spec"]["map"][0]


def test_growing_list_validates_each_element_once():
    schema = CustomSchema("K", "v1", ROOT)
    body = {"apiVersion": "g/v1", "kind": "K", "metadata": {"name": "a"}}
    atoms = [{"a": f"{number:x}"} for number in range(2000)]
    first = schema.decode({**body, "spec": {"atoms": atoms}}, None, strictness="Warn", warnings=[])
    grown = [*first["spec"]["atoms"], {"a": "new"}]
    second = schema.decode(
        {**body, "spec": {"atoms": grown}}, first, strictness="Warn", warnings=[]
    )
    assert all(
        one is other
        for one, other in zip(first["spec"]["atoms"], second["spec"]["atoms"], strict=False)
    )
