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


class TestStart:
    @pytest.mark.parametrize("start", ["", "0"])
    def test_watch_starts_with_current_objects(self, site, start):
        for name in "ba":
            site.create(CONFIG_MAPS, name)
        watch = site.watch(CONFIG_MAPS, resource_version=start)
        assert watch.received() == [("ADDED", "a"), ("ADDED", "b")]
        site.delete(CONFIG_MAPS, "a")
        assert watch.received() == [("DELETED", "a")]

    def test_watch_starts_after_version(self, site):
        site.create(CONFIG_MAPS, "a")
        start = version(site)
        site.patch(CONFIG_MAPS, "a", {"data": {"x": "1"}})
        site.create(CONFIG_MAPS, "b")
        watch = site.watch(CONFIG_MAPS, resource_version=start)
        assert watch.received() == [("MODIFIED", "a"), ("ADDED", "b")]

    def test_bookmark_marks_end_of_initial_events(self, site):
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

    def test_initial_events_can_be_omitted(self, site):
        site.create(CONFIG_MAPS, "a")
        watch = site.watch(
            CONFIG_MAPS,
            send_initial_events=False,
            resource_version_match="NotOlderThan",
            bookmarks=True,
        )
        site.create(CONFIG_MAPS, "b")
        assert watch.received() == [("ADDED", "b")]

    def test_watch_from_future_version(self, site):
        watch = site.watch(CONFIG_MAPS, resource_version="4")
        for name in "abcd":
            site.create(CONFIG_MAPS, name)
        assert watch.received() == [("ADDED", "d")]

    def test_initial_events_of_future_version_are_refused(self, site):
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

    def test_watch_from_expired_version_is_refused(self, site):
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

    def test_invalid_watch_is_refused(self, site):
        with pytest.raises(
            ApiError, match=r'^resourceVersion: Invalid value: "x": strconv\.ParseUint: parsing "x"'
        ):
            site.watch(CONFIG_MAPS, resource_version="x")
        with pytest.raises(BadRequest, match=r"^unable to parse requirement"):
            site.watch(CONFIG_MAPS, labels="a in (")
        with pytest.raises(MethodNotAllowed):
            site.watch(Resource("", "v1", "bindings", "Binding"))


class TestSelection:
    def test_selector_changes_become_added_and_deleted_events(self, site):
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

    def test_watch_covers_one_or_all_namespaces(self, site):
        here, everywhere = site.watch(CONFIG_MAPS), site.watch(CONFIG_MAPS, namespace="")
        site.create(CONFIG_MAPS, "a")
        site.create(CONFIG_MAPS, "b", namespace="other")
        assert here.received() == [("ADDED", "a")]
        assert everywhere.received() == [("ADDED", "a"), ("ADDED", "b")]

    def test_watch_of_one_object(self, site):
        watch = site.watch(CONFIG_MAPS, fields="metadata.name=a")
        for name in "ab":
            site.create(CONFIG_MAPS, name)
            site.patch(CONFIG_MAPS, name, {"data": {"x": "1"}})
        assert watch.received() == [("ADDED", "a"), ("MODIFIED", "a")]

    def test_watch_converts_to_requested_version(self, site):
        watch = site.watch(site.old_thing, fields="spec.size=1")
        site.create(site.thing, "a", spec={"size": 1})
        site.patch(site.thing, "a", {"spec": {"size": 2}})
        assert [(event.type, event.object["apiVersion"]) for event in watch.new()] == [
            ("ADDED", "example.com/v1beta1"),
            ("DELETED", "example.com/v1beta1"),
        ]


class TestTime:
    def test_watch_ends_after_timeout(self, site):
        watch = site.watch(CONFIG_MAPS, timeout=10.0)
        site.runner.advance(9.5)
        site.create(CONFIG_MAPS, "a")
        assert (watch.received(), watch.ended) == ([("ADDED", "a")], False)
        site.runner.advance(1)
        site.create(CONFIG_MAPS, "b")
        assert (watch.received(), watch.ended) == ([], True)

    def test_changes_before_timeout_are_sent(self, site):
        watch = site.watch(CONFIG_MAPS)
        site.create(CONFIG_MAPS, "a")
        watch.watch.expire()
        site.create(CONFIG_MAPS, "b")
        assert (watch.received(), watch.ended) == ([("ADDED", "a")], True)

    def test_watch_without_timeout_ends_within_an_hour(self, site):
        watch = site.watch(CONFIG_MAPS)
        site.runner.advance(1790)
        watch.new()
        assert not watch.ended
        site.runner.advance(1900)
        assert watch.ended

    def test_bookmarks_are_sent_every_minute_and_before_end(self, site):
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

    def test_short_watch_ends_without_a_last_bookmark(self, site):
        watch = site.watch(CONFIG_MAPS, bookmarks=True, timeout=2.0)
        assert watch.new() == [bookmark("1", annotations=END)]
        site.create(PODS, "p", spec={"containers": [{"name": "c", "image": "i"}]})
        site.runner.advance(3)
        assert (watch.new(), watch.ended) == ([], True)

    def test_bookmark_without_new_version_is_omitted(self, site):
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

    def test_permanent_watch_has_no_timeout(self, site):
        watch = site.watch(CONFIG_MAPS, unlimited=True)
        site.runner.advance(30 * 24 * 3600)
        site.create(CONFIG_MAPS, "a")
        assert (watch.received(), watch.ended) == ([("ADDED", "a")], False)
        short = site.watch(CONFIG_MAPS, unlimited=True, timeout=10.0)
        site.runner.advance(11)
        short.new()
        assert short.ended

    def test_permanent_watch_receives_bookmarks_for_filtered_changes(self, site):
        all_of_them = site.watch(CONFIG_MAPS, bookmarks=True, unlimited=True)
        mine = site.watch(CONFIG_MAPS, bookmarks=True, unlimited=True, labels="a=b")
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

    def test_idle_watches_need_no_timer(self, site):
        site.watch(CONFIG_MAPS, bookmarks=True, unlimited=True, labels="a=b").new()
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

    def test_watch_with_timeout_starts_timer(self, site):
        site.watch(CONFIG_MAPS, unlimited=True).new()
        site.create(CONFIG_MAPS, "a")
        site.runner.advance(3600)
        watch = site.watch(CONFIG_MAPS)
        site.runner.advance(3660)
        watch.new()
        assert watch.ended

    def test_bookmark_timers_run_in_background(self, site):
        site.watch(CONFIG_MAPS, bookmarks=True)
        site.runner.advance(0)
        with pytest.raises(RuntimeError, match="but heartbeats"):
            site.runner.call(site.runner.loop.create_future())


class TestReaders:
    def test_watches_share_event_objects(self, site):
        one, other = site.watch(CONFIG_MAPS), site.watch(CONFIG_MAPS, namespace="")
        made = site.create(CONFIG_MAPS, "a")
        (first,), (second,) = one.new(), other.new()
        assert first is second
        assert first.object is made

    def test_watch_behind_history_receives_error(self, site, monkeypatch):
        monkeypatch.setattr(store, "HISTORY", 5)
        watch = site.watch(CONFIG_MAPS)
        for number in range(12):
            site.create(CONFIG_MAPS, f"c{number:02}")
        assert watch.received() == [("ERROR", "Expired")]
        assert watch.ended

    def test_history_covers_five_minutes(self, site):
        site.watch(CONFIG_MAPS).new()
        site.create(CONFIG_MAPS, "a")
        site.create(CONFIG_MAPS, "b")
        site.runner.advance(299)
        assert site.watch(CONFIG_MAPS, resource_version="2").received() == [("ADDED", "b")]
        site.runner.advance(61)
        assert site.watch(CONFIG_MAPS, resource_version="2").received() == [("ERROR", "Expired")]
        assert site.watch(CONFIG_MAPS, resource_version="3").received() == []

    def test_slow_watch_needs_no_buffer(self, site):
        watch = site.watch(CONFIG_MAPS).watch
        for number in range(10):
            site.create(CONFIG_MAPS, f"c{number}")
        assert site.core.store.listeners() == []
        watch.close()

    def test_closed_watch_has_no_events(self, site):
        watch = site.watch(CONFIG_MAPS)
        watch.new()
        site.create(CONFIG_MAPS, "a")
        watch.watch.close()
        assert (watch.received(), watch.ended) == ([], True)
        assert site.core.store.listeners() == []

    def test_cancelled_watch_is_removed(self, site):
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


class TestCallbacks:
    """Watches that call a function instead of waking a reader."""

    @pytest.fixture
    def callback_watch(self, site):
        """Return a function that starts a watch with a callback; it returns the watch, its result,
        and the requesting task.
        """

        def start_watch(receiver=None, **options):
            taken = []
            seen = site.watch(CONFIG_MAPS, timeout=50.0, **options)
            seen._reads.cancel()  # before it has begun
            receiver = receiver or (
                lambda event: taken.append((event.type, event.object["metadata"].get("name")))
            )
            task = site.runner.loop.create_task(seen.watch.deliver_to(receiver), name="taker")
            site.runner.advance(0)
            return seen.watch, taken, task

        return start_watch

    def test_callback_receives_initial_and_later_events(self, site, callback_watch):
        site.create(CONFIG_MAPS, "a")
        watch, taken, task = callback_watch(bookmarks=True)
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

    def test_reader_and_callback_receive_event_together(self, site, callback_watch):
        order = []

        async def read(watch):
            async for event in watch:
                # in between are the takers'
                order.append((event.object["metadata"]["name"], "reader"))  # noqa: PERF401

        callback_watch(lambda event: order.append((event.object["metadata"]["name"], "first")))
        between = site.watch(CONFIG_MAPS)
        between._reads.cancel()
        site.runner.loop.create_task(read(between.watch))
        callback_watch(lambda event: order.append((event.object["metadata"]["name"], "last")))
        for name in "ab":
            site.create(CONFIG_MAPS, name)
            site.runner.advance(0)
        assert order == [(name, who) for name in "ab" for who in ("first", "reader", "last")]

    def test_callback_error_is_raised_in_caller(self, site, callback_watch):
        def refuse(event):
            if event.type == "ADDED":
                raise ValueError(event.object["metadata"]["name"])

        _, _, task = callback_watch(refuse)
        site.create(CONFIG_MAPS, "a")
        site.runner.advance(0)
        assert repr(task.exception()) == "ValueError('a')"
        assert site.core.store.listeners() == []

    def test_callback_behind_history_receives_error(self, site, callback_watch):
        _, taken, task = callback_watch()
        site.create(CONFIG_MAPS, "a")
        site.create(CONFIG_MAPS, "b")
        site.store.compact()
        site.runner.advance(0)
        assert taken == [("ADDED", "a"), ("ERROR", None)]
        assert task.done()

    def test_cancelled_callback_receives_no_events(self, site, callback_watch):
        _, taken, task = callback_watch()
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
def test_list_plus_watch_equals_state(site, writes, labels, begins_at):
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
