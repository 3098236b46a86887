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


def test_every_commit_has_a_revision_of_its_own():
    store = Store()
    first, second = put(store, "a", "x"), put(store, "a", "y")
    assert [obj["metadata"]["resourceVersion"] for obj in (first, second)] == ["2", "3"]
    assert remove(store, "a", "x")["metadata"]["resourceVersion"] == "4"
    assert first["metadata"]["resourceVersion"] == "2"


def test_namespaces_are_in_the_order_of_their_keys():
    store = Store()
    for namespace, name in reversed(PLACES):
        put(store, namespace, name)
    assert names_after(store.all("", "things")) == [
        (namespace, name) for namespace in ("a-b", "a", "b") for name in ("x", "y", "z")
    ]


@given(st.lists(st.tuples(st.sampled_from(PLACES), st.booleans()), max_size=40), st.data())
def test_the_past_is_what_it_was(writes, data):
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


def test_old_changes_are_forgotten(monkeypatch):
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


def test_compaction_forgets_all_and_reaches_shelves_that_are_made_later():
    store = Store()
    put(store, "a", "x")
    store.compact()
    assert (
        store.resource_store("", "things").compacted
        == store.resource_store("", "others").compacted
        == 2
    )


def test_what_is_older_than_a_revision_is_forgotten():
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
def test_names_stay_in_order_through_removals(order):
    store = Store()
    for name in order:
        put(store, "n", name)
    assert names_after(store.all("", "things", "n")) == [("n", "a"), ("n", "b"), ("n", "c")]
    remove(store, "n", "b")
    put(store, "n", "b")
    remove(store, "n", "a")
    put(store, "n", "d")
    assert names_after(store.all("", "things", "n")) == [("n", "b"), ("n", "c"), ("n", "d")]


def test_a_removed_name_is_dropped_without_a_listing():
    class Name(str):  # noqa: SLOT000  # slots could not be watched
        """One that can be watched."""

    store, name = Store(), Name("x")
    forgotten = weakref.ref(name)
    put(store, "n", "y")
    store.commit(("", "things", "n", name), {"metadata": {"namespace": "n", "name": "x"}})
    store.remove(("", "things", "n", name))
    del name
    assert forgotten() is None


def test_what_lasts_keeps_nothing_of_its_past(monkeypatch):
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


def test_a_large_store_is_out_of_the_garbage_collectors_sight_until_it_is_closed(monkeypatch):
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
def usual(monkeypatch):
    """The thresholds of a process in which no store is open."""
    monkeypatch.setattr(freezing, "_open_stores", weakref.WeakSet())
    monkeypatch.setattr(freezing, "_original_threshold", None)
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    yield gc.get_threshold()
    gc.set_threshold(*before)


def test_while_a_store_is_open_the_garbage_collector_looks_at_much_at_once(usual):
    one, other = Store(), Store()
    assert gc.get_threshold() > usual
    one.close()
    one.close()
    assert gc.get_threshold() > usual
    other.close()
    assert gc.get_threshold() == usual


def test_a_dropped_store_counts_as_closed(usual):
    store = Store()
    assert gc.get_threshold() > usual
    del store
    gc.collect()
    assert gc.get_threshold() == usual


def test_thresholds_that_somebody_else_sets_stay(usual):
    store = Store()
    gc.set_threshold(5, 6, 7)
    store.close()
    assert gc.get_threshold() == (5, 6, 7)


class Ring:
    """Garbage that only the collector finds."""

    def __init__(self):
        self.itself = self


def test_garbage_is_kept_out_of_sight_no_longer_than_there_is_a_store(monkeypatch):
    monkeypatch.setattr(stores, "FREEZE_INTERVAL", 4)
    store, ring = Store(), Ring()
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
def only_asked():
    """The collector does not look by itself."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("only_asked")
def test_garbage_is_looked_for_when_memory_has_doubled(monkeypatch):
    monkeypatch.setattr(stores, "FREEZE_INTERVAL", 4)
    store, early = Store(), Ring()
    for _ in range(3):
        put(store, "a", "x")
    early, was_early, was_new = None, weakref.ref(early), weakref.ref(Ring())
    found, much = [], []
    for _ in range(12):
        much += [[] for _ in range(sys.getallocatedblocks() // 10)]
        for _ in range(4):
            put(store, "a", "x")
        found.append((was_new() is None, was_early() is None))
    assert found == [(False, False)] * 7 + [(True, True)] * 5
    store.close()


def test_what_one_store_leaves_is_not_kept_by_the_next(monkeypatch):
    monkeypatch.setattr(stores, "FREEZE_INTERVAL", 2)
    left = []
    for _ in range(3):
        store, ring = Store(), Ring()
        put(store, "a", "x")
        put(store, "a", "y")
        left.append(weakref.ref(ring))
        store.close()
        del ring
    assert [one() is None for one in left[:2]] == [True, True]


def test_what_one_store_keeps_out_of_sight_no_other_brings_back(monkeypatch):
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
