from __future__ import annotations

import copy
import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_kscen.journal import ChangeRecord, RecordDamaged, stored_changes
from pytest_kscen.objects.patches import merge_difference, merge_patch, same_json

scalars = st.none() | st.integers(0, 3) | st.sampled_from(["", "null", "b"])
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("abc"), inner),
    max_leaves=6,
)
contents = st.dictionaries(st.sampled_from(["spec", "status"]), values)


def pod(version: int, *, name: str = "p", **content):
    metadata = {
        "name": name,
        "namespace": "default",
        "uid": "u1",
        "resourceVersion": str(version),
        "managedFields": [{"manager": f"m{version}"}],
    }
    return {"kind": "Pod", "metadata": metadata, **content}


def shown(obj):
    if obj is None:
        return None
    metadata = {name: value for name, value in obj["metadata"].items() if name != "managedFields"}
    return {**obj, "metadata": metadata}


@pytest.fixture
def record(tmp_path):
    times = iter(range(10_000))
    record = ChangeRecord(lambda: float(next(times)), lambda: 7)
    record.keep_in(tmp_path / "changes.jsonl.gz")
    return record


def test_record_returns_states_times_writers_and_order(record, tmp_path):
    first, second = pod(1, spec={"a": 1}), pod(2, spec={"a": 1}, status={"phase": "Running"})
    record.note("pods", None, first, initial=True)
    record.note("pods", first, second, "kubelet")
    record.note("pods", second, None)
    record.finish()

    found = list(stored_changes(tmp_path / "changes.jsonl.gz"))

    assert [(one.at, one.writer, one.entries, one.initial) for one in found] == [
        (0, "", 7, True),
        (1, "kubelet", 7, False),
        (2, "", 7, False),
    ]
    assert [(one.old, one.new) for one in found] == [
        (None, shown(first)),
        (shown(first), shown(second)),
        (shown(second), None),
    ]
    assert found[2].object == shown(second)


@given(versions=st.lists(contents, min_size=1, max_size=6))
def test_every_version_is_restored_whatever_it_contains(versions, tmp_path_factory):
    path = tmp_path_factory.mktemp("record") / "changes.jsonl.gz"
    record = ChangeRecord(lambda: 0.0, lambda: 0)
    record.keep_in(path)
    old, states = None, []
    for number, content in enumerate(versions):
        new = pod(number, **content)
        record.note("pods", old, new)
        states.append(shown(copy.deepcopy(new)))
        old = new
    record.finish()

    assert [one.new for one in stored_changes(path)] == states


@given(old=contents, new=contents)
def test_merge_difference_leads_to_the_new_object_unless_that_has_null(old, new):
    patch = merge_difference(old, new)

    assert (patch == {}) == same_json(old, new)
    if "None" not in repr(new):
        assert same_json(merge_patch(old, patch), new)


def test_full_copy_follows_a_hundred_changes(record, tmp_path):
    versions = [pod(number, spec={"n": number}) for number in range(202)]
    for old, new in zip([None, *versions], versions, strict=False):
        record.note("pods", old, new)
    record.finish()

    lines = gzip.decompress((tmp_path / "changes.jsonl.gz").read_bytes()).splitlines()[1:]
    assert [number for number, line in enumerate(lines) if b'"object"' in line] == [0, 100, 200]


def test_same_changes_give_the_same_bytes(tmp_path):
    for name in ("one", "two"):
        record = ChangeRecord(lambda: 1.0, lambda: 0)
        record.keep_in(tmp_path / name)
        record.note("pods", None, pod(1))
        record.finish()

    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_error_of_a_follower_ends_the_record_and_not_its_writer():
    record = ChangeRecord(lambda: 0.0, lambda: 0)
    record.follow(lambda change: change.no_such_field)

    record.note("pods", None, pod(1))

    assert "no_such_field" in record.lost


def test_cut_file_gives_what_was_complete(record, tmp_path):
    record.note("pods", None, pod(1, spec={"x": "y" * 1000}))
    record.finish()
    path = tmp_path / "changes.jsonl.gz"
    path.write_bytes(path.read_bytes()[:-12])

    assert len(list(stored_changes(path))) <= 1


def test_damaged_file_is_refused_with_its_line(tmp_path):
    path = tmp_path / "changes.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"schema":2}\n{"at":1}\n'))

    with pytest.raises(RecordDamaged, match=r"changes.jsonl.gz: cannot be read near line 2"):
        list(stored_changes(path))
