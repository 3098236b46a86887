import gc
import sys
import weakref

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_kscen.embedded.apiserver import store as freezing
from pytest_kscen.embedded.apiserver import store as shelves
from pytest_kscen.embedded.apiserver import store as stores
from pytest_kscen.embedded.apiserver.store import Store, sort_key

PLACES = [(namespace, name) for namespace in ("a", "a-b", "b") for name in ("x", "y", "z")]


def put(store, namespace, name, **content):
    return store.commit(
        ("", "things", namespace, name),
        {"metadata": {"namespace": namespace, "name": name}, **content},
    )


def remove(store, namespace, name):
    return store.remove(("", "things", namespace, name))


def names_after(objects):
    return [(obj["metadata"]["namespace"], obj["metadata"]["name"]) for obj in objects]


def test_commits_have_distinct_revisions():
    store = Store()
    first, second = put(store, "a", "x"), put(store, "a", "y")
    assert [obj["metadata"]["resourceVersion"] for obj in (first, second)] == ["2", "3"]
    assert remove(store, "a", "x")["metadata"]["resourceVersion"] == "4"
    assert first["metadata"]["resourceVersion"] == "2"


def test_namespaces_are_ordered_by_key():
    store = Store()
    for namespace, name in reversed(PLACES):
        put(store, namespace, name)
    assert names_after(store.all("", "things")) == [
        (namespace, name) for namespace in ("a-b", "a", "b") for name in ("x", "y", "z")
    ]


@given(st.lists(st.tuples(st.sampled_from(PLACES), st.booleans()), max_size=40), st.data())
def test_past_revisions_are_unchanged(writes, data):
    store, states = Store(), []
    for place, is_kept in writes:
        states.append((store.revision, list(store.all("", "things"))))
        if is_kept:
            put(store, *place)
        elif store.get(("", "things", *place)):
            remove(store, *place)
    states.append((store.revision, list(store.all("", "things"))))
    revision, state = data.draw(st.sampled_from(states))
    assert [obj for _, obj in store.all_at("", "things", "", revision)] == state
    for after in PLACES:
        rest = [obj for obj in state if sort_key(names_after([obj])[0]) > sort_key(after)]
        assert [obj for _, obj in store.all_at("", "things", "", revision, after)] == rest
        assert store.count_at("", "things", "", revision, after) == len(rest)
        inside = [obj for obj in rest if obj["metadata"]["namespace"] == after[0]]
        assert [obj for _, obj in store.all_at("", "things", after[0], revision, after)] == inside


def test_old_changes_expire(monkeypatch):
    monkeypatch.setattr(shelves, "HISTORY", 10)
    store = Store()
    for number in range(31):
        put(store, "a", f"x{number}")
    resource_store = store.resource_store("", "things")
    assert (len(resource_store.changes), resource_store.end, resource_store.compacted) == (
        11,
        31,
        21,
    )
    assert resource_store.at(19) is None
    assert resource_store.at(20).revision == 22
    assert resource_store.position_after(25) == 24


def test_compaction_covers_later_resources():
    store = Store()
    put(store, "a", "x")
    store.compact()
    assert (
        store.resource_store("", "things").compacted
        == store.resource_store("", "others").compacted
        == 2
    )


def test_compaction_drops_older_revisions():
    store = Store()
    for number in range(4):
        put(store, "a", f"x{number}")
    resource_store, quiet = store.resource_store("", "things"), store.resource_store("", "others")
    store.forget(3)
    assert (
        [change.revision for change in resource_store.changes],
        resource_store.end,
        resource_store.compacted,
    ) == (
        [4, 5],
        4,
        3,
    )
    assert quiet.compacted == 0
    store.forget(3)
    assert resource_store.compacted == 3


@pytest.mark.parametrize("order", [["c", "a", "b"], ["a", "b", "c"]])
def test_names_stay_ordered_through_removals(order):
    store = Store()
    for name in order:
        put(store, "n", name)
    assert names_after(store.all("", "things", "n")) == [("n", "a"), ("n", "b"), ("n", "c")]
    remove(store, "n", "b")
    put(store, "n", "b")
    remove(store, "n", "a")
    put(store, "n", "d")
    assert names_after(store.all("", "things", "n")) == [("n", "b"), ("n", "c"), ("n", "d")]


def test_removed_name_is_released_without_listing():
    class Name(str):  # noqa: SLOT000  # slots could not be watched
        """String type that supports weak references."""

    store, name = Store(), Name("x")
    forgotten = weakref.ref(name)
    put(store, "n", "y")
    store.commit(("", "things", "n", name), {"metadata": {"namespace": "n", "name": "x"}})
    store.remove(("", "things", "n", name))
    del name
    assert forgotten() is None


def test_long_lived_object_keeps_no_history(monkeypatch):
    monkeypatch.setattr(stores, "FREEZE_INTERVAL", 10)
    settled = []
    monkeypatch.setattr(
        stores, "compact_managed_fields", lambda obj: settled.append(obj["metadata"]["name"])
    )
    store = Store()
    put(store, "a", "lasts")
    put(store, "a", "goes")
    for _ in range(3):
        put(store, "a", "changes")
    remove(store, "a", "goes")
    for _ in range(12):
        put(store, "a", "changes")
    assert store.revision == 19
    assert not settled
    put(store, "a", "changes")
    assert settled == ["lasts"]
    for _ in range(20):
        put(store, "a", "x")
    assert settled == ["lasts", "changes"], "once for each time that it was written"
    store.close()


def test_large_store_is_frozen_until_closed(monkeypatch):
    monkeypatch.setattr(stores, "FREEZE_INTERVAL", 10)
    store, before = Store(), gc.get_freeze_count()
    for number in range(8):
        put(store, "a", f"x{number}")
    assert gc.get_freeze_count() == before
    put(store, "a", "x8")
    assert gc.get_freeze_count() > before
    store.close()
    assert gc.get_freeze_count() == 0


@pytest.fixture
def default_thresholds(monkeypatch):
    """Set the thresholds of a process without an open store."""
    monkeypatch.setattr(freezing, "_open_stores", weakref.WeakSet())
    monkeypatch.setattr(freezing, "_original_threshold", None)
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    yield gc.get_threshold()
    gc.set_threshold(*before)


def test_open_store_raises_gc_thresholds(default_thresholds):
    one, other = Store(), Store()
    assert gc.get_threshold() > default_thresholds
    one.close()
    one.close()
    assert gc.get_threshold() > default_thresholds
    other.close()
    assert gc.get_threshold() == default_thresholds


def test_dropped_store_counts_as_closed(default_thresholds):
    store = Store()
    assert gc.get_threshold() > default_thresholds
    del store
    gc.collect()
    assert gc.get_threshold() == default_thresholds


def test_foreign_gc_thresholds_are_kept(default_thresholds):
    store = Store()
    gc.set_threshold(5, 6, 7)
    store.close()
    assert gc.get_threshold() == (5, 6, 7)


class CyclicGarbage:
    """Garbage that only the cyclic collector finds."""

    def __init__(self):
        self.itself = self


def test_garbage_is_collected_after_store_is_closed(monkeypatch):
    monkeypatch.setattr(stores, "FREEZE_INTERVAL", 4)
    store, ring = Store(), CyclicGarbage()
    was = weakref.ref(ring)
    for _ in range(4):
        put(store, "a", "x")
    del ring
    gc.collect()
    assert was() is not None
    store.close()
    gc.collect()
    assert was() is None


@pytest.fixture
def no_automatic_gc():
    """Disable automatic garbage collection."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_automatic_gc")
def test_collection_runs_when_memory_has_doubled(monkeypatch):
    monkeypatch.setattr(stores, "FREEZE_INTERVAL", 4)
    store, early = Store(), CyclicGarbage()
    for _ in range(3):
        put(store, "a", "x")
    early, was_early, was_new = None, weakref.ref(early), weakref.ref(CyclicGarbage())
    found, much = [], []
    for _ in range(12):
        much += [[] for _ in range(sys.getallocatedblocks() // 10)]
        for _ in range(4):
            put(store, "a", "x")
        found.append((was_new() is None, was_early() is None))
    assert found == [(False, False)] * 7 + [(True, True)] * 5
    store.close()


def test_garbage_of_one_store_is_not_kept_by_next(monkeypatch):
    monkeypatch.setattr(stores, "FREEZE_INTERVAL", 2)
    left = []
    for _ in range(3):
        store, ring = Store(), CyclicGarbage()
        put(store, "a", "x")
        put(store, "a", "y")
        left.append(weakref.ref(ring))
        store.close()
        del ring
    assert [one() is None for one in left[:2]] == [True, True]


def test_stores_keep_each_others_frozen_objects(monkeypatch):
    monkeypatch.setattr(stores, "FREEZE_INTERVAL", 2)
    one, other = Store(), Store()
    for store in (one, other):
        put(store, "a", "x")
    one.close()
    assert gc.get_freeze_count() > 0
    one.close()
    assert gc.get_freeze_count() > 0
    other.close()
    assert gc.get_freeze_count() == 0
