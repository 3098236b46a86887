from __future__ import annotations

import copy
import json
import pickle
from dataclasses import replace

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from managed_object import ManagedObject, builtin, widget_kind

from pytest_kscen.embedded.apiserver.patching import LazyManagedFields, materialised, tracking
from pytest_kscen.embedded.apiserver.patching.fields import paths
from pytest_kscen.embedded.apiserver.patching.managed_fields import (
    PENDING_LIMIT,
    compact_managed_fields,
)
from pytest_kscen.objects.errors import Conflict

names = st.sampled_from("abc")
specs = st.fixed_dictionaries(
    {},
    optional={
        "replicas": st.integers(0, 2),
        "size": st.sampled_from(["s", "l"]),
        "tags": st.lists(names, unique=True),
        "parts": st.lists(
            st.fixed_dictionaries({"name": names}, optional={"v": st.integers(0, 2)}),
            unique_by=lambda part: part["name"],
        ),
        "whole": st.dictionaries(names, names, max_size=2),
        "free": st.dictionaries(
            names,
            st.recursive(st.integers(0, 1), lambda part: st.dictionaries(names, part, max_size=2)),
            max_size=2,
        ),
    },
)
labels = st.dictionaries(names, names, max_size=2)
writes = st.lists(
    st.tuples(
        st.sampled_from(["apply", "merge", "put"]),
        st.sampled_from(["ann", "bob"]),
        specs,
        labels,
        st.booleans(),
    ),
    min_size=1,
    max_size=12,
)


def play(steps, look=lambda obj: None):
    managed_object = ManagedObject(widget_kind())
    for kind, manager, spec, given_labels, force in steps:
        content = {"spec": spec, "metadata": {"labels": given_labels}}
        try:
            if kind == "apply":
                managed_object.apply(manager, force=force, **content)
            elif managed_object.live is None:
                managed_object.create(manager, **content)
            elif kind == "merge":
                managed_object.merge(manager, copy.deepcopy(content))
            else:
                managed_object.put(manager, **content)
        except Conflict:
            assert not force
        if managed_object.live:
            look(managed_object.live)
    return managed_object


def is_open(obj):
    ledger = obj["metadata"].get("managedFields")
    return type(ledger) is LazyManagedFields and ledger.note is not None


@settings(max_examples=60)
@given(writes)
def test_it_makes_no_difference_whether_anybody_looks(steps):
    lazy, eager = (
        play(steps),
        play(steps, look=lambda obj: len(obj["metadata"].get("managedFields", ()))),
    )
    assert lazy.live == eager.live


@settings(max_examples=60)
@given(writes)
def test_to_note_what_differs_is_as_good_as_to_note_everything(steps):
    brief = play(steps)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tracking, "_known_shape", lambda *_: None)
        whole = play(steps)
    assert brief.live == whole.live


def test_what_fits_its_shape_no_longer_is_found_though_the_write_has_left_it_alone():
    managed_object = ManagedObject(widget_kind())
    managed_object.create("ann", spec={"size": "s"})
    sizes = {
        "spec": {
            "type": "object",
            "properties": {"size": {"type": "integer"}, "replicas": {"type": "integer"}},
        }
    }
    managed_object.kind = replace(
        managed_object.kind, structure={"type": "object", "properties": sizes}, shape=None
    )
    for number in range(3):
        managed_object.merge("bob", {"spec": {"replicas": number}})
    assert managed_object.owners() == {"ann/Update": {"f:spec": {".": {}, "f:size": {}}}}, (
        "as Kubernetes does not record it either"
    )


def test_who_lasts_shares_what_others_have_too():
    one, other = ManagedObject(widget_kind()), ManagedObject(widget_kind())
    for managed_object in (one, other):
        managed_object.create("ann", spec={"size": "s"})
        managed_object.merge("bob", {"spec": {"replicas": 1}})
        compact_managed_fields(managed_object.live)
        assert not is_open(managed_object.live)
    mine, theirs = (
        list(managed_object.live["metadata"]["managedFields"]) for managed_object in (one, other)
    )
    assert mine == theirs
    assert all(each is its_twin for each, its_twin in zip(mine, theirs, strict=True))
    assert one.owners() == {
        "ann/Update": {"f:spec": {".": {}, "f:size": {}}},
        "bob/Update": {"f:spec": {"f:replicas": {}}},
    }


@settings(max_examples=60)
@given(writes)
def test_it_makes_no_difference_whether_it_is_settled(steps):
    lazy, settled = play(steps), play(steps, look=compact_managed_fields)
    assert lazy.live == settled.live


@settings(max_examples=60)
@given(writes)
def test_who_owns_what(steps):
    managed_object = play(steps)
    if managed_object.live is None:
        return
    sets = {writer: set(paths(fields)) for writer, fields in managed_object.owners().items()}
    plain = [fields for writer, fields in sets.items() if writer.endswith("Update")]
    assert sum(map(len, plain)) == len(set().union(*plain)), "one plain writer at most owns a field"
    scalars = {
        ("f:spec", f"f:{name}")
        for name in ("replicas", "size")
        if name in managed_object.live.get("spec", {})
    }
    assert not sets or scalars <= set().union(*sets.values()), (
        "what is there has an owner, once anybody is on record"
    )


@settings(max_examples=60)
@given(writes, specs)
def test_applying_twice_is_applying_once(steps, spec):
    managed_object = play(steps)
    once = managed_object.apply("cat", force=True, spec=spec)
    assert managed_object.apply("cat", force=True, spec=spec) is once
    assert managed_object.apply("cat", spec=spec) is once


def test_a_plain_write_is_only_noted():
    managed_object = ManagedObject(widget_kind())
    managed_object.create("ann", spec={"size": "s"})
    managed_object.merge("bob", {"spec": {"size": "l"}})
    assert is_open(managed_object.live)


def test_the_past_is_worked_out_now_and_then():
    managed_object = ManagedObject(widget_kind())
    managed_object.create("ann", spec={"replicas": 0})
    history = [
        managed_object.live,
        *(
            managed_object.merge("ann", {"spec": {"replicas": n}})
            for n in range(1, 2 * PENDING_LIMIT + 4)
        ),
    ]
    assert [is_open(obj) for obj in history] == [False] * 2 * PENDING_LIMIT + [True] * 4
    assert managed_object.owners(times=True) == {
        "ann/Update": ({"f:spec": {".": {}, "f:replicas": {}}}, "2026-01-01T00:02:12Z")
    }


lease_specs = st.fixed_dictionaries(
    {
        "renewTime": st.sampled_from(
            [
                "2026-01-01T00:00:01.000000Z",
                "2026-01-01T00:00:02.000000Z",
                "2026-01-01T00:00:03.000000Z",
            ]
        )
    },
    optional={"leaseDurationSeconds": st.integers(1, 3), "holderIdentity": names},
)


def renewed(renewals, *, look):
    managed_object = ManagedObject(builtin("Lease"))
    managed_object.create("ann", spec={"leaseTransitions": 1})
    history = []
    for manager, spec in renewals:
        history.append(managed_object.put(manager, spec=spec))
        if look:
            len(history[-1]["metadata"]["managedFields"])
    return history


@settings(max_examples=100)
@given(
    st.lists(
        st.tuples(st.sampled_from(["ann", "ann", "ann", "bob"]), lease_specs),
        min_size=4,
        max_size=PENDING_LIMIT - 2,
    )
)
def test_what_is_left_out_of_a_row_of_like_writes_makes_no_difference(renewals):
    lazy, eager = renewed(renewals, look=False), renewed(renewals, look=True)
    assert lazy[-1] == eager[-1]
    assert lazy == eager, "nor to what was there in between"


def test_of_a_row_of_like_writes_the_first_and_the_last_are_worked_out():
    times = [f"2026-01-01T00:00:0{n}.000000Z" for n in range(9)]
    history = renewed([("ann", {"renewTime": time}) for time in times], look=False)
    assert len(history[-1]["metadata"]["managedFields"]) == 1
    assert [is_open(obj) for obj in history] == [False, False, *[True] * 6, False]


@pytest.mark.parametrize(
    "look",
    [
        len,
        list,
        bool,
        repr,
        copy.copy,
        copy.deepcopy,
        json.dumps,
        lambda ledger: ledger[0],
        lambda ledger: ledger == [],
        lambda ledger: {} in ledger,
        lambda ledger: [*ledger],
        lambda ledger: list(reversed(ledger)),
        lambda ledger: pickle.loads(pickle.dumps(ledger)),
        lambda ledger: ledger.copy(),
        lambda ledger: ledger.index(ledger[0]),
    ],
)
def test_every_way_of_looking_fills_it(look):
    managed_object = ManagedObject(widget_kind())
    managed_object.create("ann", spec={"size": "s"})
    assert is_open(managed_object.live)
    look(managed_object.live["metadata"]["managedFields"])
    assert not is_open(managed_object.live)
    assert managed_object.owners() == {"ann/Update": {"f:spec": {".": {}, "f:size": {}}}}


def test_orjson_needs_a_materialised_object():
    managed_object = ManagedObject(widget_kind())
    managed_object.create("ann", spec={"size": "s"})
    assert orjson.loads(orjson.dumps(managed_object.live))["metadata"]["managedFields"] == []
    assert orjson.loads(orjson.dumps(materialised(managed_object.live))) == managed_object.live
    managed_object = ManagedObject(widget_kind())
    managed_object.create("ann")
    assert "managedFields" not in materialised(managed_object.live)["metadata"]
