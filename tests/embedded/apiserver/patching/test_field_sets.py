from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pytest_kscen.embedded.apiserver.patching.fields import (
    difference,
    has,
    intersection,
    ordered,
    path_text,
    paths,
    rank,
    set_of,
    union,
    without_subtrees,
)

elements = st.sampled_from(["f:a", "f:b", 'k:{"name":"a"}', 'v:"x"', "v:1", "i:0"])
some_paths = st.lists(st.lists(elements, min_size=1, max_size=3).map(tuple), max_size=6)
sets = some_paths.map(lambda found: set_of(*found))


@given(some_paths)
def test_field_set_contains_its_paths(found):
    fields = set_of(*found)
    assert sorted(paths(fields)) == sorted(set(found))
    assert all(has(fields, path) for path in found)
    assert not has(fields, ("f:other",))


@given(sets, sets)
def test_field_sets_have_set_operations(one, other):
    mine, theirs = set(paths(one)), set(paths(other))
    assert set(paths(union(one, other))) == mine | theirs
    assert set(paths(difference(one, other))) == mine - theirs
    assert set(paths(intersection(one, other))) == mine & theirs
    assert set(paths(without_subtrees(one, other))) == {
        p for p in mine if not any(p[:n] in theirs for n in range(1, len(p) + 1))
    }
    assert union(difference(one, other), intersection(one, other)) == one


@given(sets)
def test_field_set_is_independent_of_order(fields):
    assert ordered(fields) == fields
    assert list(paths(ordered(fields))) == list(paths(fields))


def test_members_with_children_are_marked():
    fields = set_of(("f:spec", "f:a"), ("f:spec",), ("f:data",), ("f:data", "f:x"))
    assert fields == {"f:spec": {".": {}, "f:a": {}}, "f:data": {".": {}, "f:x": {}}}


def test_elements_are_in_kubernetes_order():
    given_order = [
        "v:10",
        'v:"a"',
        "i:2",
        'k:{"port":443}',
        'k:{"port":80}',
        "f:b",
        ".",
        "f:a",
        "v:9",
        "i:10",
    ]
    assert sorted(given_order, key=rank) == [
        ".", "f:a", "f:b", 'k:{"port":80}', 'k:{"port":443}', "v:9", "v:10", 'v:"a"', "i:2", "i:10",
    ]  # fmt: skip


def test_paths_are_formatted_as_in_messages():
    path = ("f:spec", "f:ports", 'k:{"port":80,"protocol":"TCP"}', "f:tags", 'v:"x"', "i:3")
    assert path_text(path) == '.spec.ports[port=80,protocol="TCP"].tags[="x"][3]'
