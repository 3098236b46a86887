import pytest
from hypothesis import given
from hypothesis import strategies as st
from schema_builders import (
    EITHER,
    EMBEDDED,
    LIST_MAP,
    LIST_SET,
    PRESERVE,
    list_of,
    map_of,
    number,
    struct,
    text,
    whole,
)

from pytest_kscen.embedded.apiserver.schema.custom import CustomSchema

REQUIRED = {"required": ["a"]}
SPEC = struct(
    {
        "s": text(),
        "i": whole(),
        "n": number(),
        "b": {"type": "boolean"},
        "enum": text(enum=["a", "b"]),
        "numbers": whole(enum=[1, 2]),
        "min": whole(minimum=1, maximum=5),
        "open": number(minimum=1, exclusiveMinimum=True, maximum=5.5, exclusiveMaximum=True),
        "length": text(minLength=2, maxLength=4),
        "pattern": text(pattern="^[a-z]+$"),
        "items": list_of(text(), minItems=1, maxItems=2),
        "objects": list_of(struct({"a": text(), "b": whole()}, required=["a"])),
        "map": map_of(whole(), minProperties=1, maxProperties=2),
        "third": whole(multipleOf=3),
        "half": number(multipleOf=0.5),
        "time": text(format="date-time"),
        "small": whole(format="int32"),
        "either": EITHER,
        "any": struct({"a": text(), "b": text()}, anyOf=[REQUIRED, {"required": ["b"]}]),
        "one": struct({"a": text(), "b": text()}, oneOf=[REQUIRED, {"required": ["b"]}]),
        "all": struct(
            {"a": text(), "b": text()}, allOf=[REQUIRED, {"properties": {"b": {"minLength": 3}}}]
        ),
        "not": struct({"a": text()}, **{"not": REQUIRED}),
        "set": list_of(text(), **LIST_SET),
        "keyed": list_of(struct({"k": text(), "v": whole(maximum=5)}, required=["k"]), **LIST_MAP),
        "embedded": {"type": "object", **EMBEDDED, **PRESERVE},
        "nested": list_of(list_of(whole())),
    }
)
SCHEMA = CustomSchema(
    "Thing", "v1", struct({"spec": SPEC, "status": struct({"phase": text(enum=["A", "B"])})})
)


def messages(causes):
    return [f"{cause.field}: {cause.message}" for cause in causes]


def causes_of(spec, old=None):
    return messages(SCHEMA.validate({"spec": spec}, None if old is None else {"spec": old}))


def mistyped(path, wanted, found):
    return (
        f'spec.{path}: Invalid value: "{found}": spec.{path} in body must be of type '
        f'{wanted}: "{found}"'
    )


def invalid(path, value, why):
    return f"spec.{path}: Invalid value: {value}: spec.{path} in body {why}"


NOWHERE = '<nil>: Invalid value: "": '

# each asked of a real kube-apiserver
FAULTS = [
    ({"s": 1}, [mistyped("s", "string", "integer")]),
    ({"s": True}, [mistyped("s", "string", "boolean")]),
    ({"s": {}}, [mistyped("s", "string", "object")]),
    ({"i": "a"}, [mistyped("i", "integer", "string")]),
    (
        {"i": 1.5},
        [
            mistyped("i", "integer", "number"),
            f"{NOWHERE}Checked value must be of type integer (default format) in spec.i",
        ],
    ),
    ({"n": 1}, []),
    ({"b": 0}, [mistyped("b", "boolean", "integer")]),
    ({"enum": "c"}, ['spec.enum: Unsupported value: "c": supported values: "a", "b"']),
    (
        {"enum": 1},
        [
            mistyped("enum", "string", "integer"),
            'spec.enum: Unsupported value: 1: supported values: "a", "b"',
        ],
    ),
    ({"numbers": 3}, ['spec.numbers: Unsupported value: 3: supported values: "1", "2"']),
    ({"min": 0}, [invalid("min", 0, "should be greater than or equal to 1")]),
    ({"min": 6}, [invalid("min", 6, "should be less than or equal to 5")]),
    ({"open": 1}, [invalid("open", 1, "should be greater than 1")]),
    ({"open": 5.5}, [invalid("open", 5.5, "should be less than 5.5")]),
    ({"length": "a"}, [invalid("length", '"a"', "should be at least 2 chars long")]),
    ({"length": "abcde"}, ["spec.length: Too long: may not be more than 4 bytes"]),
    ({"pattern": "A1"}, [invalid("pattern", '"A1"', "should match '^[a-z]+$'")]),
    ({"items": []}, [invalid("items", 0, "should have at least 1 items")]),
    ({"items": ["a", "b", "c"]}, ["spec.items: Too many: 3: must have at most 2 items"]),
    ({"items": [1]}, [mistyped("items[0]", "string", "integer")]),
    ({"items": [None]}, [mistyped("items[0]", "string", "null")]),
    (
        {"objects": [{"b": "x"}]},
        [mistyped("objects[0].b", "integer", "string"), "spec.objects[0].a: Required value"],
    ),
    ({"map": {}}, [invalid("map", 0, "should have at least 1 properties")]),
    ({"map": {"a": 1, "b": 2, "c": 3}}, ["spec.map: Too many: 3: must have at most 2 items"]),
    ({"map": {"a": "x"}}, [mistyped("map.a", "integer", "string")]),
    ({"third": 4}, [invalid("third", 4, "should be a multiple of 3")]),
    ({"half": 0.7}, [invalid("half", 0.7, "should be a multiple of 0.5")]),
    (
        {"time": "x"},
        ['spec.time: Invalid value: "x": spec.time in body must be of type date-time: "x"'],
    ),
    (
        {"small": 2**40},
        [f"{NOWHERE}Checked value must be of type integer with format int32 in spec.small"],
    ),
    ({"either": True}, [mistyped("either", "integer,string", "boolean")]),
    (
        {"any": {}},
        [
            f'{NOWHERE}"spec.any" must validate at least one schema (anyOf)',
            "spec.any.a: Required value",
        ],
    ),
    (
        {"one": {}},
        [
            f'{NOWHERE}"spec.one" must validate one and only one schema (oneOf). Found none valid',
            "spec.one.a: Required value",
        ],
    ),
    (
        {"one": {"a": "", "b": ""}},
        [
            (
                f'{NOWHERE}"spec.one" must validate one and only one schema (oneOf). Found 2 '
                "valid alternatives"
            )
        ],
    ),
    (
        {"all": {"b": "a"}},
        [
            "spec.all.a: Required value",
            invalid("all.b", '"a"', "should be at least 3 chars long"),
            f'{NOWHERE}"spec.all" must validate all the schemas (allOf). None validated',
        ],
    ),
    ({"not": {"a": "x"}}, [f'{NOWHERE}"spec.not" must not validate the schema (not)']),
    ({"set": ["a", "b", "a", "a"]}, ['spec.set[2]: Duplicate value: "a"']),
    ({"keyed": [{"k": "a"}, {"k": "a"}]}, ['spec.keyed[1]: Duplicate value: {"k":"a"}']),
    (
        {"embedded": {"x": 1}},
        ["spec.embedded.apiVersion: Required value", "spec.embedded.kind: Required value"],
    ),
    ({"nested": [[1, "x"]]}, [mistyped("nested[0][1]", "integer", "string")]),
]


@pytest.mark.parametrize(("spec", "faults"), FAULTS)
def test_faults_have_the_real_servers_messages(spec, faults):
    assert causes_of(spec) == faults


@pytest.mark.parametrize(
    ("old", "new", "faults"),
    [
        ({"min": 9, "s": "a"}, {"min": 9, "s": "b"}, []),
        ({"min": 9}, {"min": 8}, [invalid("min", 8, "should be less than or equal to 5")]),
        ({"keyed": [{"k": "a", "v": 9}]}, {"keyed": [{"k": "b"}, {"k": "a", "v": 9}]}, []),
        ({"keyed": [{"k": "a", "v": 9}]}, {"keyed": [{"k": "b", "v": 9}]}, ["spec.keyed[0].v"]),
        ({"items": [1, "b"]}, {"items": [1, "c"]}, [mistyped("items[0]", "string", "integer")]),
        ({"set": ["a", "a"]}, {"set": ["a", "a", "b"]}, []),
    ],
)
def test_old_faults_are_accepted(old, new, faults):
    found = causes_of(new, old)
    if faults == ["spec.keyed[0].v"]:
        faults = [invalid("keyed[0].v", 9, "should be less than or equal to 5")]
    assert found == faults


def test_status_is_validated_alone():
    old = {"spec": {"min": 9}, "status": {"phase": "A"}}
    new = {"spec": {"min": 8}, "status": {"phase": 5}}
    words = (
        'status.phase: Invalid value: "integer": phase in body must be of type string: "integer"'
    )
    assert messages(SCHEMA.validate(new, old, "status")) == [
        words,
        'status.phase: Unsupported value: 5: supported values: "A", "B"',
    ]


def test_scale_paths_must_hold_numbers():
    scale = {
        "specReplicasPath": ".spec.n",
        "statusReplicasPath": ".status.n",
        "labelSelectorPath": ".status.s",
    }
    schema = CustomSchema("Thing", "v1", struct({"spec": PRESERVE, "status": PRESERVE}), scale)
    obj = {"spec": {"n": -1}, "status": {"n": "x", "s": 1}}
    assert messages(schema.validate(obj, None)) == [
        ".spec.n: Invalid value: -1: should be a non-negative integer",
        (
            ".status.n: Invalid value: 0: .status.n accessor error: x is of the type string, "
            "expected int64"
        ),
        (
            '.status.s: Invalid value: "": .status.s accessor error: 1 is of the type int64, '
            "expected string"
        ),
    ]


@given(st.integers(-3, 9), st.integers(-3, 9))
def test_update_is_never_stricter_than_creation(old, new):
    assert set(causes_of({"min": new}, {"min": old})) <= set(causes_of({"min": new}))


@pytest.mark.parametrize(("spec", "faults"), FAULTS)
def test_rules_are_evaluated_again_after_many_valid_values(spec, faults):
    assert [
        causes_of({"s": "a", "keyed": [{"k": "a", "v": 1}]}),
        causes_of(spec),
        causes_of(spec),
    ] == [
        [],
        faults,
        faults,
    ]


def test_true_and_one_are_distinct():
    old = {
        "b": True,
        "i": 1,
        "nested": [[1, 2]],
        "embedded": {"apiVersion": "v1", "kind": "A", "n": 1},
    }
    assert causes_of({**old, "b": 1}, old) == [mistyped("b", "boolean", "integer")]
    assert causes_of({**old, "i": True}, old) == [mistyped("i", "integer", "boolean")]
    assert causes_of({**old, "nested": [[1, True]]}, old) == [
        mistyped("nested[0][1]", "integer", "boolean")
    ]


def test_old_forbidden_fields_are_refused():
    schema = CustomSchema("Thing", "v1", struct({"a": whole()}, additionalProperties=False))
    old = {"metadata": {"name": "a"}, "a": 1}
    assert messages(schema.validate({**old, "a": 2}, old)) == [
        '<nil>: Invalid value: "metadata": .metadata in body is a forbidden property'
    ]
