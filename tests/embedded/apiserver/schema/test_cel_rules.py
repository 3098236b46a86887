import pytest
from schema_builders import (
    EITHER,
    LIST_MAP,
    LIST_SET,
    RULES,
    list_of,
    map_of,
    number,
    rule,
    struct,
    text,
    whole,
)

from pytest_kscen.embedded.apiserver.schema.custom import CustomSchema

REASONS = [
    rule(
        "has(self.a) || has(self.b)", message="a or b", reason="FieldValueRequired", fieldPath=".a"
    ),
    rule("!has(self.b) || self.b != 'f'", reason="FieldValueForbidden"),
    rule("!has(self.b) || self.b != 'd'", reason="FieldValueDuplicate", fieldPath=".b"),
]
GROWS = [
    rule(
        "!oldSelf.hasValue() || self > oldSelf.value()", optionalOldSelf=True, message="only grows"
    ),
    rule("oldSelf.hasValue() || self == 1", optionalOldSelf=True, message="starts at 1"),
]
SPEC = struct(
    {
        "s": text(**{RULES: [rule("self != 'bad'"), rule("self.size() < 5", message="too long")]}),
        "i": whole(
            **{
                RULES: [
                    rule(
                        "self < 10",
                        messageExpression="'too big: ' + (self > 20 ? 'much' : 'a bit')",
                    ),
                    rule("self >= oldSelf", message="may not shrink"),
                    rule("10 / self > 0", message="divides"),
                ]
            }
        ),
        "l": list_of(
            text(),
            **{RULES: [rule("self.all(x, x != 'z')", message="no z"), rule("self[3] != 'q'")]},
        ),
        "m": map_of(whole(**{RULES: [rule("self != 7", message="not seven")]})),
        "o": struct({"a": text(), "b": text()}, **{RULES: REASONS}),
        "keyed": list_of(
            struct(
                {
                    "k": text(),
                    "v": whole(**{RULES: [rule("self == oldSelf", message="v is immutable")]}),
                },
                required=["k"],
            ),
            **LIST_MAP,
        ),
        "set": list_of(
            text(), **LIST_SET, **{RULES: [rule("self == oldSelf", message="same set")]}
        ),
        "either": {**EITHER, RULES: [rule("type(self) == int ? self > 0 : self.endsWith('%')")]},
        "grows": whole(**{RULES: GROWS}),
        "day": text(format="date", **{RULES: [rule("self.getFullYear() > 2000")]}),
        "n": number(**{RULES: [rule("self + 1.0 < 5.0")]}),
        "bytes": text(format="byte", **{RULES: [rule("self == b'abc'")]}),
    }
)
ROOT = struct(
    {"spec": SPEC},
    **{RULES: [rule("self.metadata.name.startsWith('a')", message="name starts with a")]},
)
SCHEMA = CustomSchema("Thing", "v1", ROOT)
UNASKED = (
    "<nil>: Invalid value: null: some validation rules were not checked because the "
    "object was invalid; "
    "correct the existing errors to complete validation"
)


def asked(spec, old=None, name="aa"):
    def thing(part):
        return {"metadata": {"name": name}, "spec": part}

    causes = SCHEMA.validate(thing(spec), None if old is None else thing(old))
    return [f"{cause.field}: {cause.message}" for cause in causes]


# each asked of a real kube-apiserver
@pytest.mark.parametrize(
    ("spec", "messages"),
    [
        ({"s": "bad"}, ["spec.s: Invalid value: \"bad\": failed rule: self != 'bad'"]),
        ({"s": "longer"}, ['spec.s: Invalid value: "longer": too long']),
        (
            {"i": 11},
            ["spec.i: Invalid value: 11: too big: a bit", "spec.i: Invalid value: 11: divides"],
        ),
        ({"i": 0}, ['spec.i: Invalid value: "integer": division by zero evaluating rule: divides']),
        (
            {"l": ["z"]},
            [
                "spec.l: Invalid value: no z",
                (
                    'spec.l: Invalid value: "array": index out of bounds: 3 evaluating '
                    "rule: self[3] != 'q'"
                ),
            ],
        ),
        ({"m": {"y": 7}}, ["spec.m[y]: Invalid value: 7: not seven"]),
        ({"o": {}}, ["spec.o.a: Required value: a or b"]),
        ({"o": {"b": "f"}}, ["spec.o: Forbidden: failed rule: !has(self.b) || self.b != 'f'"]),
        ({"o": {"b": "d"}}, ["spec.o.b: Duplicate value"]),
        (
            {"either": 0},
            [
                (
                    "spec.either: Invalid value: 0: failed rule: type(self) == int ? self > "
                    "0 : self.endsWith('%')"
                )
            ],
        ),
        ({"either": "5%"}, []),
        ({"grows": 2}, ["spec.grows: Invalid value: 2: starts at 1"]),
        (
            {"day": "1999-01-01"},
            ['spec.day: Invalid value: "1999-01-01": failed rule: self.getFullYear() > 2000'],
        ),
        ({"n": 1}, []),
        ({"bytes": "YWJj"}, []),
        (
            {"s": 1, "l": ["z"]},
            [
                (
                    'spec.s: Invalid value: "integer": spec.s in body must be of type '
                    'string: "integer"'
                ),
                UNASKED,
            ],
        ),
    ],
)
def test_rules_have_the_real_servers_messages(spec, messages):
    assert asked(spec) == messages


def test_root_rule_can_read_name():
    assert asked({}, name="bb") == ["<nil>: Invalid value: name starts with a"]


@pytest.mark.parametrize(
    ("old", "new", "messages"),
    [
        ({"i": 5}, {"i": 4}, ["spec.i: Invalid value: 4: may not shrink"]),
        ({"i": 5}, {"i": 6}, []),
        ({"keyed": [{"k": "a", "v": 1}]}, {"keyed": [{"k": "b", "v": 2}, {"k": "a", "v": 1}]}, []),
        (
            {"keyed": [{"k": "a", "v": 1}]},
            {"keyed": [{"k": "a", "v": 2}]},
            ["spec.keyed[0].v: Invalid value: 2: v is immutable"],
        ),
        ({"set": ["a", "b"]}, {"set": ["b", "a"]}, []),
        ({"set": ["a", "b"]}, {"set": ["b", "c"]}, ["spec.set: Invalid value: same set"]),
        ({"grows": 1}, {"grows": 1}, ["spec.grows: Invalid value: 1: only grows"]),
        ({"s": "bad"}, {"s": "bad", "i": 1}, []),
        ({"s": "bad"}, {"s": "bad "}, []),
    ],
)
def test_transition_rules_read_old_object(old, new, messages):
    assert asked(new, old) == messages


def test_unchanged_values_are_not_cached_as_valid():
    schema = CustomSchema(
        "Thing",
        "v1",
        struct({"spec": struct({"a": text(), "b": text()}, **{RULES: [rule("self.a == 'x'")]})}),
    )

    def messages(new, old):
        return [
            str(cause)
            for cause in schema.validate(
                {"metadata": {"name": "a"}, "spec": new}, {"metadata": {}, "spec": old}
            )
        ]

    bad = {"a": "y", "b": "1"}
    assert messages({**bad}, bad) == []
    assert messages({**bad, "b": "2"}, bad) != []
