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


def run_writes(steps, look=lambda obj: None):
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
def test_reads_do_not_change_managed_fields(steps):
    lazy, eager = (
        run_writes(steps),
        run_writes(steps, look=lambda obj: len(obj["metadata"].get("managedFields", ()))),
    )
    assert lazy.live == eager.live


@settings(max_examples=60)
@given(writes)
def test_recorded_difference_equals_full_record(steps):
    brief = run_writes(steps)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tracking, "_known_shape", lambda *_: None)
        whole = run_writes(steps)
    assert brief.live == whole.live


def test_unchanged_value_of_other_shape_is_detected():
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


def test_remaining_owner_keeps_shared_fields():
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
def test_settling_does_not_change_managed_fields(steps):
    lazy, settled = run_writes(steps), run_writes(steps, look=compact_managed_fields)
    assert lazy.live == settled.live


@settings(max_examples=60)
@given(writes)
def test_owners_follow_writes(steps):
    managed_object = run_writes(steps)
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
def test_apply_is_idempotent(steps, spec):
    managed_object = run_writes(steps)
    once = managed_object.apply("cat", force=True, spec=spec)
    assert managed_object.apply("cat", force=True, spec=spec) is once
    assert managed_object.apply("cat", spec=spec) is once


def test_plain_write_is_only_recorded():
    managed_object = ManagedObject(widget_kind())
    managed_object.create("ann", spec={"size": "s"})
    managed_object.merge("bob", {"spec": {"size": "l"}})
    assert is_open(managed_object.live)


def test_recorded_writes_are_evaluated_periodically():
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


def renewed_status(renewals, *, look):
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
def test_skipped_similar_writes_change_nothing(renewals):
    lazy, eager = renewed_status(renewals, look=False), renewed_status(renewals, look=True)
    assert lazy[-1] == eager[-1]
    assert lazy == eager, "nor to what was there in between"


def test_first_and_last_similar_writes_are_evaluated():
    times = [f"2026-01-01T00:00:0{n}.000000Z" for n in range(9)]
    history = renewed_status([("ann", {"renewTime": time}) for time in times], look=False)
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
def test_every_read_access_materialises_fields(look):
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
