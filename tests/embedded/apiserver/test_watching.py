import contextlib
import gc
import weakref

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_kscen.embedded.apiserver import store
from pytest_kscen.kube.api import Event
from pytest_kscen.objects.errors import ApiError, BadRequest, MethodNotAllowed
from pytest_kscen.objects.resources import CONFIG_MAPS, PODS, Resource

END = {"k8s.io/initial-events-end": "true"}


def version(site):
    return str(site.store.revision)


def bookmark(revision, **metadata):
    return Event(
        "BOOKMARK",
        {
            "kind": "ConfigMap",
            "apiVersion": "v1",
            "metadata": {"resourceVersion": revision, **metadata},
        },
    )


class TestBeginning:
    @pytest.mark.parametrize("start", ["", "0"])
    def test_with_what_is_there(self, site, start):
        for name in "ba":
            site.create(CONFIG_MAPS, name)
        watch = site.watch(CONFIG_MAPS, resource_version=start)
        assert watch.received() == [("ADDED", "a"), ("ADDED", "b")]
        site.delete(CONFIG_MAPS, "a")
        assert watch.received() == [("DELETED", "a")]

    def test_after_a_version(self, site):
        site.create(CONFIG_MAPS, "a")
        start = version(site)
        site.patch(CONFIG_MAPS, "a", {"data": {"x": "1"}})
        site.create(CONFIG_MAPS, "b")
        watch = site.watch(CONFIG_MAPS, resource_version=start)
        assert watch.received() == [("MODIFIED", "a"), ("ADDED", "b")]

    def test_the_end_of_the_beginning_is_marked_for_those_who_understand(self, site):
        site.create(CONFIG_MAPS, "a")
        watch = site.watch(CONFIG_MAPS, bookmarks=True)
        assert watch.new()[1:] == [bookmark("2", annotations=END)]
        asked = site.watch(
            CONFIG_MAPS,
            bookmarks=True,
            send_initial_events=True,
            resource_version="2",
            resource_version_match="NotOlderThan",
        )
        assert [event.type for event in asked.new()] == ["ADDED", "BOOKMARK"]

    def test_who_wants_no_beginning_gets_none(self, site):
        site.create(CONFIG_MAPS, "a")
        watch = site.watch(
            CONFIG_MAPS,
            send_initial_events=False,
            resource_version_match="NotOlderThan",
            bookmarks=True,
        )
        site.create(CONFIG_MAPS, "b")
        assert watch.received() == [("ADDED", "b")]

    def test_in_the_future(self, site):
        watch = site.watch(CONFIG_MAPS, resource_version="4")
        for name in "abcd":
            site.create(CONFIG_MAPS, name)
        assert watch.received() == [("ADDED", "d")]

    def test_the_future_has_no_picture(self, site):
        watch = site.watch(
            CONFIG_MAPS,
            resource_version="9",
            send_initial_events=True,
            resource_version_match="NotOlderThan",
        )
        (event,) = watch.new()
        assert (event.type, event.object["code"], event.object["message"]) == (
            "ERROR",
            504,
            "Timeout: Too large resource version: 9, current: 1",
        )
        assert watch.ended

    def test_where_the_history_does_not_reach(self, site):
        site.create(CONFIG_MAPS, "a")
        site.create(CONFIG_MAPS, "b")
        site.store.compact()
        watch = site.watch(CONFIG_MAPS, resource_version="2")
        assert watch.new() == [
            Event(
                "ERROR",
                {
                    "kind": "Status",
                    "apiVersion": "v1",
                    "metadata": {},
                    "status": "Failure",
                    "message": "too old resource version: 2 (3)",
                    "reason": "Expired",
                    "code": 410,
                },
            )
        ]
        assert watch.ended
        assert site.watch(CONFIG_MAPS, resource_version="3").received() == []

    def test_what_cannot_be_watched(self, site):
        with pytest.raises(
            ApiError, match=r'^resourceVersion: Invalid value: "x": strconv\.ParseUint: parsing "x"'
        ):
            site.watch(CONFIG_MAPS, resource_version="x")
        with pytest.raises(BadRequest, match=r"^unable to parse requirement"):
            site.watch(CONFIG_MAPS, labels="a in (")
        with pytest.raises(MethodNotAllowed):
            site.watch(Resource("", "v1", "bindings", "Binding"))


class TestSelection:
    def test_what_starts_or_stops_to_match_comes_and_goes(self, site):
        site.create(CONFIG_MAPS, "a", metadata={"labels": {"x": "1"}})
        watch = site.watch(CONFIG_MAPS, labels="x=1")
        site.patch(CONFIG_MAPS, "a", {"metadata": {"labels": {"x": "2"}}})
        site.patch(CONFIG_MAPS, "a", {"data": {"k": "v"}})
        site.patch(CONFIG_MAPS, "a", {"metadata": {"labels": {"x": "1"}}})
        site.patch(CONFIG_MAPS, "a", {"data": {"k": "w"}})
        site.create(CONFIG_MAPS, "b")
        site.delete(CONFIG_MAPS, "b")
        site.delete(CONFIG_MAPS, "a")
        added, left, back, changed, gone = watch.new()
        assert [event.type for event in (added, left, back, changed, gone)] == [
            "ADDED",
            "DELETED",
            "ADDED",
            "MODIFIED",
            "DELETED",
        ]
        assert left.object == {
            **added.object,
            "metadata": {**added.object["metadata"], "resourceVersion": "3"},
        }
        assert back.object["data"] == {"k": "v"}
        assert gone.object["metadata"]["resourceVersion"] == version(site)

    def test_one_namespace_or_all(self, site):
        here, everywhere = site.watch(CONFIG_MAPS), site.watch(CONFIG_MAPS, namespace="")
        site.create(CONFIG_MAPS, "a")
        site.create(CONFIG_MAPS, "b", namespace="other")
        assert here.received() == [("ADDED", "a")]
        assert everywhere.received() == [("ADDED", "a"), ("ADDED", "b")]

    def test_one_object(self, site):
        watch = site.watch(CONFIG_MAPS, fields="metadata.name=a")
        for name in "ab":
            site.create(CONFIG_MAPS, name)
            site.patch(CONFIG_MAPS, name, {"data": {"x": "1"}})
        assert watch.received() == [("ADDED", "a"), ("MODIFIED", "a")]

    def test_one_version(self, site):
        watch = site.watch(site.old_thing, fields="spec.size=1")
        site.create(site.thing, "a", spec={"size": 1})
        site.patch(site.thing, "a", {"spec": {"size": 2}})
        assert [(event.type, event.object["apiVersion"]) for event in watch.new()] == [
            ("ADDED", "example.com/v1beta1"),
            ("DELETED", "example.com/v1beta1"),
        ]


class TestTime:
    def test_it_ends(self, site):
        watch = site.watch(CONFIG_MAPS, timeout=10.0)
        site.runner.advance(9.5)
        site.create(CONFIG_MAPS, "a")
        assert (watch.received(), watch.ended) == ([("ADDED", "a")], False)
        site.runner.advance(1)
        site.create(CONFIG_MAPS, "b")
        assert (watch.received(), watch.ended) == ([], True)

    def test_changes_before_the_end_are_sent(self, site):
        watch = site.watch(CONFIG_MAPS)
        site.create(CONFIG_MAPS, "a")
        watch.watch.expire()
        site.create(CONFIG_MAPS, "b")
        assert (watch.received(), watch.ended) == ([("ADDED", "a")], True)

    def test_who_asks_for_none_is_sent_away_within_the_hour(self, site):
        watch = site.watch(CONFIG_MAPS)
        site.runner.advance(1790)
        watch.new()
        assert not watch.ended
        site.runner.advance(1900)
        assert watch.ended

    def test_bookmarks_come_every_minute_and_before_the_end(self, site):
        watch, plain = (
            site.watch(CONFIG_MAPS, bookmarks=marks, timeout=100.0) for marks in (True, False)
        )
        assert watch.new() == [bookmark("1", annotations=END)]
        site.create(PODS, "p", spec={"containers": [{"name": "c", "image": "i"}]})
        site.runner.advance(59)
        assert watch.new() == []
        site.runner.advance(1)
        assert watch.new() == [bookmark("2")]
        site.runner.advance(38)
        assert watch.new() == [bookmark("2")]
        site.runner.advance(2)
        assert (plain.new(), watch.new(), watch.ended) == ([], [], True)

    def test_a_bookmark_that_would_say_nothing_new_is_left_out(self, site):
        watch = site.watch(CONFIG_MAPS, bookmarks=True)
        watch.new()
        site.create(PODS, "p", spec={"containers": [{"name": "c", "image": "i"}]})
        site.runner.advance(60)
        assert watch.new() == [bookmark("2")]
        site.runner.advance(600)
        assert watch.new() == []
        site.create(PODS, "q", spec={"containers": [{"name": "c", "image": "i"}]})
        site.runner.advance(60)
        assert watch.new() == [bookmark("3")]

    def test_one_who_stays_is_not_sent_away(self, site):
        watch = site.watch(CONFIG_MAPS, stays=True)
        site.runner.advance(30 * 24 * 3600)
        site.create(CONFIG_MAPS, "a")
        assert (watch.received(), watch.ended) == ([("ADDED", "a")], False)
        short = site.watch(CONFIG_MAPS, stays=True, timeout=10.0)
        site.runner.advance(11)
        short.new()
        assert short.ended

    def test_a_permanent_watch_gets_bookmarks_for_filtered_changes(self, site):
        all_of_them = site.watch(CONFIG_MAPS, bookmarks=True, stays=True)
        mine = site.watch(CONFIG_MAPS, bookmarks=True, stays=True, labels="a=b")
        assert all_of_them.new() == mine.new() == [bookmark("1", annotations=END)]
        site.create(PODS, "p", spec={"containers": [{"name": "c", "image": "i"}]})
        site.runner.advance(60)
        assert all_of_them.new() == mine.new() == []
        site.create(CONFIG_MAPS, "a")
        site.runner.advance(60)
        assert [event.type for event in all_of_them.new()] == ["ADDED"]
        assert mine.new() == [bookmark("3")]
        site.runner.advance(600)
        assert all_of_them.new() == mine.new() == []
        site.create(CONFIG_MAPS, "b", metadata={"labels": {"a": "b"}})
        site.runner.advance(600)
        assert mine.received() == [("ADDED", "b")]

    def test_no_listener_is_ticked_while_nothing_changes(self, site):
        site.watch(CONFIG_MAPS, bookmarks=True, stays=True, labels="a=b").new()
        site.create(CONFIG_MAPS, "a")
        site.runner.advance(3600)
        assert site.runner.loop.next_timer() is None
        site.runner.advance(30)
        site.create(CONFIG_MAPS, "b")
        version = site.get(CONFIG_MAPS, "b")["metadata"]["resourceVersion"]
        site.runner.advance(0)
        assert site.runner.loop.next_timer() == 3600 + 60, "the minutes keep their beat"
        site.runner.advance(300)
        assert site.watch(CONFIG_MAPS, resource_version="2").received() == [("ADDED", "b")]
        site.runner.advance(60)
        assert site.watch(CONFIG_MAPS, resource_version="2").received() == [("ERROR", "Expired")]
        assert site.watch(CONFIG_MAPS, resource_version=version).received() == []

    def test_who_has_to_leave_some_time_wakes_the_housekeeper(self, site):
        site.watch(CONFIG_MAPS, stays=True).new()
        site.create(CONFIG_MAPS, "a")
        site.runner.advance(3600)
        watch = site.watch(CONFIG_MAPS)
        site.runner.advance(3660)
        watch.new()
        assert watch.ended

    def test_bookmarks_keep_no_run_alive(self, site):
        site.watch(CONFIG_MAPS, bookmarks=True)
        site.runner.advance(0)
        with pytest.raises(RuntimeError, match="but heartbeats"):
            site.runner.call(site.runner.loop.create_future())


class TestReaders:
    def test_all_are_shown_the_same_event(self, site):
        one, other = site.watch(CONFIG_MAPS), site.watch(CONFIG_MAPS, namespace="")
        made = site.create(CONFIG_MAPS, "a")
        (first,), (second,) = one.new(), other.new()
        assert first is second
        assert first.object is made

    def test_a_watch_behind_the_history_gets_an_error(self, site, monkeypatch):
        monkeypatch.setattr(store, "HISTORY", 5)
        watch = site.watch(CONFIG_MAPS)
        for number in range(12):
            site.create(CONFIG_MAPS, f"c{number:02}")
        assert watch.received() == [("ERROR", "Expired")]
        assert watch.ended

    def test_five_minutes_can_be_read_again(self, site):
        site.watch(CONFIG_MAPS).new()
        site.create(CONFIG_MAPS, "a")
        site.create(CONFIG_MAPS, "b")
        site.runner.advance(299)
        assert site.watch(CONFIG_MAPS, resource_version="2").received() == [("ADDED", "b")]
        site.runner.advance(61)
        assert site.watch(CONFIG_MAPS, resource_version="2").received() == [("ERROR", "Expired")]
        assert site.watch(CONFIG_MAPS, resource_version="3").received() == []

    def test_a_slow_one_costs_nothing(self, site):
        watch = site.watch(CONFIG_MAPS).watch
        for number in range(10):
            site.create(CONFIG_MAPS, f"c{number}")
        assert site.core.store.listeners() == []
        watch.close()

    def test_a_closed_one_is_silent(self, site):
        watch = site.watch(CONFIG_MAPS)
        watch.new()
        site.create(CONFIG_MAPS, "a")
        watch.watch.close()
        assert (watch.received(), watch.ended) == ([], True)
        assert site.core.store.listeners() == []

    def test_a_cancelled_one_is_forgotten(self, site):
        watch = site.watch(CONFIG_MAPS, timeout=50.0)
        watch.new()
        assert site.core.store.listeners() == [watch.watch]
        watch._reads.cancel()
        site.runner.advance(0)
        assert site.core.store.listeners() == []
        remains = weakref.ref(watch.watch)
        del watch
        site.runner.advance(60)
        gc.collect()
        assert remains() is None


class TestHandingOver:
    """One who is called, instead of being woken."""

    @pytest.fixture
    def handed(self, site):
        """What hands a new watch over: the watch, what came of it, and the task that has asked
        for it.
        """

        def hand(taker=None, **options):
            taken = []
            seen = site.watch(CONFIG_MAPS, timeout=50.0, **options)
            seen._reads.cancel()  # before it has begun
            taker = taker or (
                lambda event: taken.append((event.type, event.object["metadata"].get("name")))
            )
            task = site.runner.loop.create_task(seen.watch.hand_to(taker), name="taker")
            site.runner.advance(0)
            return seen.watch, taken, task

        return hand

    def test_what_was_and_what_happens_until_it_is_over(self, site, handed):
        site.create(CONFIG_MAPS, "a")
        watch, taken, task = handed(bookmarks=True)
        assert taken == [("ADDED", "a"), ("BOOKMARK", None)]
        site.create(CONFIG_MAPS, "b")
        site.delete(CONFIG_MAPS, "a")
        assert taken[2:] == []  # never within a write
        site.runner.advance(0)
        assert taken[2:] == [("ADDED", "b"), ("DELETED", "a")]
        site.create(CONFIG_MAPS, "c")
        watch.expire()
        site.create(CONFIG_MAPS, "d")
        site.runner.advance(0)
        assert taken[4:] == [("ADDED", "c")]
        assert task.done()
        assert site.core.store.listeners() == []

    def test_a_reader_and_a_taker_have_it_at_the_same_moment(self, site, handed):
        order = []

        async def read(watch):
            async for event in watch:
                # in between are the takers'
                order.append((event.object["metadata"]["name"], "reader"))  # noqa: PERF401

        handed(lambda event: order.append((event.object["metadata"]["name"], "first")))
        between = site.watch(CONFIG_MAPS)
        between._reads.cancel()
        site.runner.loop.create_task(read(between.watch))
        handed(lambda event: order.append((event.object["metadata"]["name"], "last")))
        for name in "ab":
            site.create(CONFIG_MAPS, name)
            site.runner.advance(0)
        assert order == [(name, who) for name in "ab" for who in ("first", "reader", "last")]

    def test_the_takers_error_is_the_askers(self, site, handed):
        def refuse(event):
            if event.type == "ADDED":
                raise ValueError(event.object["metadata"]["name"])

        _, _, task = handed(refuse)
        site.create(CONFIG_MAPS, "a")
        site.runner.advance(0)
        assert repr(task.exception()) == "ValueError('a')"
        assert site.core.store.listeners() == []

    def test_a_callback_behind_the_history_gets_an_error(self, site, handed):
        _, taken, task = handed()
        site.create(CONFIG_MAPS, "a")
        site.create(CONFIG_MAPS, "b")
        site.store.compact()
        site.runner.advance(0)
        assert taken == [("ADDED", "a"), ("ERROR", None)]
        assert task.done()

    def test_a_cancelled_callback_gets_no_more_events(self, site, handed):
        _, taken, task = handed()
        site.create(CONFIG_MAPS, "a")
        task.cancel()
        site.runner.advance(0)
        assert taken == []
        assert task.cancelled()
        assert site.core.store.listeners() == []


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    writes=st.lists(
        st.tuples(
            st.sampled_from(["create", "label", "unlabel", "touch", "delete"]),
            st.sampled_from("abc"),
            st.booleans(),
        ),
        max_size=20,
    ),
    labels=st.sampled_from(["", "x=1", "!x"]),
    begins_at=st.integers(0, 5),
)
def test_a_list_and_a_watch_are_the_state(site, writes, labels, begins_at):
    site.store.__init__()
    picture, watch = {}, None
    for number, (verb, name, looks) in enumerate([*writes, ("touch", "none", True)]):
        if number == begins_at or (watch is None and name == "none"):
            found = site.list(CONFIG_MAPS, labels=labels)
            picture = {item["metadata"]["name"]: item for item in found["items"]}
            watch = site.watch(
                CONFIG_MAPS, labels=labels, resource_version=found["metadata"]["resourceVersion"]
            )
        with contextlib.suppress(ApiError):
            write(site, verb, name)
        if watch and looks:
            for event in watch.new():
                assert (event.type == "ADDED") == (event.object["metadata"]["name"] not in picture)
                if event.type == "DELETED":
                    del picture[event.object["metadata"]["name"]]
                else:
                    picture[event.object["metadata"]["name"]] = event.object
    assert picture == {
        item["metadata"]["name"]: item for item in site.list(CONFIG_MAPS, labels=labels)["items"]
    }
    watch.watch.close()
    watch.new()


def write(site, verb, name):
    match verb:
        case "create":
            site.create(CONFIG_MAPS, name)
        case "delete":
            site.delete(CONFIG_MAPS, name)
        case "touch":
            site.patch(CONFIG_MAPS, name, {"data": {"n": str(site.store.revision)}})
        case _:
            site.patch(
                CONFIG_MAPS, name, {"metadata": {"labels": {"x": "1" if verb == "label" else None}}}
            )
