"""Random streams: named, reproducible, independent."""

from __future__ import annotations

import uuid

from hypothesis import given
from hypothesis import strategies as st

from pytest_kscen.chance import Chance, Stream, seed_from


def test_equal_seed_and_name_give_equal_draws():
    one, other = Chance(7).stream("a"), Chance("7").stream("a")
    assert [one.below(1000) for _ in range(20)] == [other.below(1000) for _ in range(20)]


def test_draws_are_equal_in_every_supported_python():
    stream = Chance(1).stream("volumes")
    assert [stream.below(100) for _ in range(6)] == [44, 62, 3, 63, 75, 32]
    assert stream.uid() == "edbfef65-dd8c-4dc2-86fd-e5fc938bc15d"


def test_streams_are_independent():
    single, shared = Chance(7), Chance(7)
    shared.stream("b").below(10)
    assert single.stream("a").uid() == shared.stream("a").uid()
    assert Chance(7).stream("a").uid() != Chance(7).stream("b").uid()


@given(st.lists(st.integers()), st.integers(0, 20), st.integers())
def test_sample_contains_given_items(items, count, seed):
    drawn = Stream(seed).sample(items, count)
    assert len(drawn) == min(count, len(items))
    assert all(drawn.count(item) <= items.count(item) for item in drawn)
    assert sorted(Stream(seed).shuffled(items)) == sorted(items)


@given(st.integers(), st.integers(0, 100), st.integers(0, 100))
def test_numbers_are_within_bounds(seed, low, width):
    stream = Stream(seed)
    assert low <= stream.whole(low, low + width) <= low + width
    assert low <= stream.between(low, low + width) <= low + width


def test_uids_are_version_4():
    assert uuid.UUID(Stream(3).uid()).version == 4


def test_seed_is_derived_from_test_id():
    assert seed_from("tests/test_a.py::test_b") == "245857377542575"


def test_salt_changes_names_only():
    def draws(stream):
        return (
            stream.below(1000),
            stream.between(1, 2),
            stream.choice("abc"),
            *stream.sample("abcdef", 3),
        )

    def names(stream):
        return stream.uid(), stream.suffix(8)

    streams = [Chance(7, salt).stream("volumes") for salt in ("", "a", "b")]
    for _ in range(20):
        assert len({name for stream in streams for name in names(stream)}) == 6
        assert len({draws(stream) for stream in streams}) == 1


def test_key_is_name_without_salt():
    plain, salted = Chance(7).stream("volumes"), Chance(7, salt="a").stream("volumes")
    for _ in range(20):
        name, key = salted.uid_and_key()
        assert plain.uid_and_key() == (key, key) != (name, name)
