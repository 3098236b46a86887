import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_kscen.objects.selectors import (
    FieldTerm,
    field_at,
    matches_selector,
    parse_fields,
    parse_labels,
    predicate,
    selector_text,
)

KEY = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start "
    "and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)


def matches_labels(text, labels):
    return all(requirement.holds(labels) for requirement in parse_labels(text))


@pytest.mark.parametrize(
    ("selector", "labels", "holds"),
    [
        ("", {}, True),
        ("a=b", {"a": "b"}, True),
        ("a==b", {"a": "c"}, False),
        ("a=", {"a": ""}, True),
        ("a=", {}, False),
        ("a!=b", {}, True),
        ("a!=b", {"a": "b"}, False),
        ("a", {"a": ""}, True),
        ("!a", {"a": ""}, False),
        (" ! a , b ", {"b": "x"}, True),
        ("a in (b, c)", {"a": "c"}, True),
        ("a in (b,c),d=e", {"a": "c"}, False),
        ("a in ()", {"a": ""}, True),
        ("a in (b,)", {"a": ""}, True),
        ("a in (,b)", {"a": "x"}, False),
        ("a notin(b,c)", {"a": "c"}, False),
        ("a notin (b)", {}, True),
        ("in in (in)", {"in": "in"}, True),
        ("notin", {"notin": ""}, True),
        ("a>5", {"a": "6"}, True),
        ("a>5", {"a": "5"}, False),
        ("a<5", {"a": "x"}, False),
        ("a<5", {}, False),
        ("x.y/a-b=C_d", {"x.y/a-b": "C_d"}, True),
    ],
)
def test_label_selector_matches(selector, labels, holds):
    assert matches_labels(selector, labels) is holds


@pytest.mark.parametrize(
    ("selector", "words"),
    [
        ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
        ("a in b", "unable to parse requirement: found 'b' expected: '('"),
        ("a in (", "unable to parse requirement: found '', expected: ',', ')' or identifier"),
        ("a in (b!)", "unable to parse requirement: found '!', expected: ',' or ')'"),
        ("a notin (b) x", "found 'x', expected: ',' or 'end of string'"),
        ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("a!", "unable to parse requirement: found '!', expected: in, notin, =, ==, !=, gt, lt"),
        ("=a", "found '=', expected: !, identifier, or 'end of string'"),
        ("a,,b", "found ',', expected: identifier after ','"),
        ("a=b,", "found '', expected: identifier after ','"),
        ("!", "unable to parse requirement: found '', expected: identifier"),
        ("a=(b", "unable to parse requirement: found '(', expected: identifier"),
        ("-x=1", f'unable to parse requirement: <nil>: Invalid value: "-x": {KEY}'),
        (
            "a>b",
            (
                'unable to parse requirement: values[0]: Invalid value: "b": '
                "for 'Gt', 'Lt' operators, the value must be an integer"
            ),
        ),
    ],
)
def test_invalid_label_selector_is_refused(selector, words):
    with pytest.raises(ValueError, match=r".+") as refusal:
        parse_labels(selector)
    assert str(refusal.value) == words


def test_several_invalid_values_are_reported_together():
    with pytest.raises(
        ValueError,
        match=r"^unable to parse requirement: \[values\[0\]\[a\]: .*, values\[1\]\[a\]: .*\]$",
    ):
        parse_labels("a in (-x, -y)")


@given(st.text("ab,=!()<> in", max_size=12))
def test_any_text_is_parsed_or_refused(text):
    for parse in (parse_labels, parse_fields):
        with contextlib.suppress(ValueError):
            parse(text)


EVERY = {
    "matchLabels": {"c": "d"},
    "matchExpressions": [
        {"key": "k", "operator": "In", "values": ["y", "x"]},
        {"key": "e", "operator": "Exists"},
        {"key": "n", "operator": "NotIn", "values": ["p"]},
        {"key": "z", "operator": "DoesNotExist"},
    ],
}


def test_selector_object_matches():
    assert matches_selector(EVERY, {"c": "d", "k": "x", "e": ""})
    for labels in (
        {"k": "x", "e": ""},
        {"c": "d", "k": "z", "e": ""},
        {"c": "d", "k": "x"},
        {"c": "d", "k": "x", "e": "", "n": "p"},
    ):
        assert not matches_selector(EVERY, labels)
    assert matches_selector({}, None)
    assert not matches_selector(None, {})


def test_selector_object_is_formatted():
    assert selector_text(EVERY) == "c=d,e,k in (x,y),n notin (p),!z"
    assert matches_labels(selector_text(EVERY), {"c": "d", "k": "x", "e": ""})


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("", ()),
        (",", ()),
        ("a.b=c", (FieldTerm("a.b", equal=True, value="c"),)),
        (
            "b!=c,a==d",
            (FieldTerm("a", equal=True, value="d"), FieldTerm("b", equal=False, value="c")),
        ),
        (r"a=b\,c\=\\", (FieldTerm("a", equal=True, value="b,c=\\"),)),
        ("a=", (FieldTerm("a", equal=True, value=""),)),
    ],
)
def test_field_selector_matches(text, terms):
    assert parse_fields(text) == terms


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a", "invalid selector: 'a'; can't understand 'a'"),
        ("b=c,a", "invalid selector: 'b=c,a'; can't understand 'a'"),
        ("a=b=c", "invalid field selector: unescaped character in value: 61"),
        (r"a=\x", r"invalid field selector: invalid escape sequence: \x"),
        ("a=\\", "invalid field selector: invalid escape sequence: \\"),
    ],
)
def test_invalid_field_selector_is_refused(text, words):
    with pytest.raises(ValueError, match=r".+") as refusal:
        parse_fields(text)
    assert str(refusal.value) == words


def test_predicate_combines_labels_and_fields():
    obj = {"metadata": {"name": "n", "labels": {"a": "b"}}}
    name = (lambda found: found["metadata"]["name"], True, "n")
    assert predicate("") is None
    assert predicate("a=b", [name])(obj)
    assert not predicate("a=c", [name])(obj)
    assert not predicate("a=b", [(name[0], False, "n")])(obj)
    assert not predicate("a=b")({"metadata": {"name": "n"}})
    assert field_at(obj, "metadata.labels.a") == "b"
    assert field_at(obj, "metadata.name.x") is None
