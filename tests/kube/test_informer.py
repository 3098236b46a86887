import collections

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from pytest_kscen.chance import Chance
from pytest_kscen.clock import ActorCrashedError, VirtualRunner
from pytest_kscen.kube.api import Event, Listing
from pytest_kscen.kube.cache import Ref
from pytest_kscen.kube.informer import Informer, Informers
from pytest_kscen.objects.errors import Expired, InternalError
from pytest_kscen.objects.resources import CONFIG_MAPS, PODS

START = 1767225600.0


class FaultyApi:
    """API of one resource that fails on request: `lists` and `watches` contain the next failures."""

    def __init__(self, runner, page=1000):
        self.runner, self.page = runner, page
        self.objects, self.history, self.version, self.compacted = {}, [], 1, 0
        self.lists, self.watches = collections.deque(), collections.deque()
        self.requests, self.open = [], []

    def write(self, name, *, uid=None, **content):
        self.version += 1
        old = self.objects.get(name)
        uid = uid or (old["metadata"]["uid"] if old else f"uid-{self.version}")
        obj = {
            "metadata": {
                "name": name,
                "namespace": "ns",
                "uid": uid,
                "resourceVersion": str(self.version),
            },
            **content,
        }
        self.objects[name] = obj
        self._record_event("MODIFIED" if old else "ADDED", obj)

    def remove(self, name):
        self.version += 1
        last = self.objects.pop(name)
        self._record_event(
            "DELETED",
            {**last, "metadata": {**last["metadata"], "resourceVersion": str(self.version)}},
        )

    def _record_event(self, kind, obj):
        self.history.append((self.version, Event(kind, obj)))
        for watch in list(self.open):
            watch.wake()

    def compact(self):
        self.history.clear()
        self.compacted = self.version
        for watch in list(self.open):
            watch.wake()

    async def list(self, resource, namespace="", *, limit=0, continue_token="", **_):
        self.requests.append(("list", round(self.runner.clock.now() - START, 3)))
        if self.lists:
            raise self.lists.popleft()
        start, items = int(continue_token or 0), list(self.objects.values())
        rest = start + self.page
        return Listing(items[start:rest], str(self.version), str(rest) if rest < len(items) else "")

    def watch(self, resource, namespace="", *, resource_version="", **_):
        self.requests.append(("watch", round(self.runner.clock.now() - START, 3)))
        trouble = self.watches.popleft() if self.watches else None
        if isinstance(trouble, Exception):
            raise trouble
        if int(resource_version) < self.compacted:
            raise Expired("too old resource version")
        return FaultyWatch(self, int(resource_version), trouble)


class FaultyWatch:
    """Watch that sends a number of events and then fails: an end, a broken connection, or an ERROR."""

    def __init__(self, api, version, trouble):
        self.api, self.version = api, version
        self.left, self.trouble = trouble or (1000, None)
        self.waiter, self.closed = None, False
        api.open.append(self)

    def wake(self):
        if self.waiter and not self.waiter.done():
            self.waiter.set_result(None)

    def close(self):
        self.closed = True
        if self in self.api.open:
            self.api.open.remove(self)

    def __aiter__(self):
        return self

    async def __anext__(self):
        if not self.left:
            if self.trouble == "end":
                raise StopAsyncIteration
            if isinstance(self.trouble, Event):
                self.trouble, event = "end", self.trouble
                return event
            raise self.trouble
        self.left -= 1
        while True:
            if self.version < self.api.compacted:
                self.left, self.trouble = 0, "end"
                return expired_event()
            for version, event in self.api.history:
                if version > self.version:
                    self.version = version
                    return event
            self.waiter = self.api.runner.loop.create_future()
            await self.waiter


def expired_event():
    return Event("ERROR", Expired("too old resource version").status)


@pytest.fixture
def runner():
    runner = VirtualRunner()
    yield runner
    runner.close()


@pytest.fixture
def api(runner):
    return FaultyApi(runner)


@pytest.fixture
def informer(runner, api):
    return Informer(api, runner.clock, CONFIG_MAPS)


@pytest.fixture
def notifications(informer):
    notifications = []
    informer.on_change(
        lambda new, old: notifications.append((new and version(new), old and version(old)))
    )
    return notifications


@pytest.fixture
def start(runner, informer):
    def start():
        runner.start(informer.run(), "informer")
        runner.advance(0)

    return start


def version(obj):
    return int(obj["metadata"]["resourceVersion"])


def test_informer_lists_then_watches(runner, api, informer, notifications, start):
    api.write("a")
    start()
    api.write("a")
    api.write("b")
    api.remove("a")
    runner.advance(0)
    assert notifications == [(2, None), (3, 2), (4, None), (None, 3)]
    assert list(informer.objects) == [Ref("ns", "b")]
    assert [requests for requests, _ in api.requests] == ["list", "watch"]


def test_late_handler_receives_current_objects(api, informer, start):
    api.write("a")
    start()
    heard = []
    informer.on_change(lambda new, old: heard.append((version(new), old)))
    assert heard == [(2, None)]


def test_large_list_is_paged(runner, api, informer, start):
    api.page = 3
    for number in range(8):
        api.write(f"n{number}")
    start()
    assert len(informer.objects) == 8
    assert [requests for requests, _ in api.requests] == ["list", "list", "list", "watch"]


def test_ended_watch_resumes_at_last_version(runner, api, notifications, start):
    api.watches.append((1, "end"))
    start()
    api.write("a")
    api.write("b")
    runner.advance(0)
    assert notifications == [(2, None), (3, None)]
    assert api.requests == [("list", 0), ("watch", 0), ("watch", 0)]


def test_dropped_connection_is_retried_with_backoff(runner, api, notifications, start):
    api.watches += [(0, ConnectionResetError())] * 3
    start()
    api.write("a")
    runner.advance(10)
    assert notifications == [(2, None)]
    assert api.requests == [
        ("list", 0),
        ("watch", 0),
        ("watch", 0.8),
        ("watch", 2.4),
        ("watch", 5.6),
    ]


@pytest.mark.parametrize(
    "trouble",
    [(1, expired_event()), Expired("too old"), InternalError("oh")],
    ids=["ERROR", "410", "500"],
)
def test_refused_watch_is_followed_by_list(runner, api, notifications, start, trouble):
    api.write("a")
    api.watches.append(trouble)
    start()
    api.write("b")
    api.remove("a")
    runner.advance(1)
    assert notifications[0] == (2, None)
    assert sorted(notifications[1:], key=str) == [(3, None), (None, 2)]
    assert [requests for requests, _ in api.requests] == ["list", "watch", "list", "watch"]


def test_failed_list_is_repeated(runner, api, informer, start):
    api.lists += [ConnectionError(), InternalError("oh"), TimeoutError()]
    api.write("a")
    start()
    runner.advance(10)
    assert api.requests == [
        ("list", 0),
        ("list", 0.8),
        ("list", 2.4),
        ("list", 5.6),
        ("watch", 5.6),
    ]
    assert informer.get("a", "ns")


def test_backoff_is_reset_after_stable_period(runner, api, start):
    api.lists += [ConnectionError()] * 4
    start()
    runner.advance(200)
    api.watches.append((0, ConnectionError()))
    for watch in list(api.open):
        watch.left, watch.trouble = 0, ConnectionError()
        watch.waiter.set_exception(ConnectionError())
    runner.advance(10)
    assert api.requests[-2:] == [("watch", 200.8), ("watch", 202.4)]


@pytest.mark.parametrize("trouble", [ConnectionError("cut"), "end"], ids=["breaks", "ends"])
def test_lists_replace_failing_watches(runner, api, informer, start, trouble):
    """A proxy that passes no watches behaves so."""
    api.watches += [(0, trouble)] * 100
    start()
    runner.advance(2)
    api.write("a")
    runner.advance(60)
    assert api.requests[:4] == [("list", 0), ("watch", 0), ("watch", 0.8), ("watch", 2.4)]
    assert api.requests[4:8] == [("watch", 5.6), ("list", 12.0), ("watch", 12.0), ("list", 24.8)]
    assert informer.get("a", "ns")
    assert informer.refusal == ("" if trouble == "end" else "cut")


def test_watch_with_events_is_followed_by_watches(runner, api, start):
    api.watches += [(0, "end")] * 3 + [(1, "end")] + [(0, "end")] * 3
    start()
    runner.advance(4)
    api.write("a")
    runner.advance(100)
    assert [requests for requests, _ in api.requests] == ["list"] + ["watch"] * 8


def test_long_quiet_watch_counts_as_success(runner, api, start):
    api.watches += [(0, "end")] * 3
    start()
    runner.advance(100)
    for watch in list(api.open):
        watch.left, watch.trouble = 0, "end"
        watch.waiter.set_exception(ConnectionError())
    api.watches += [(0, "end")] * 3
    runner.advance(100)
    assert [requests for requests, _ in api.requests].count("list") == 1


def test_jitter_is_drawn_from_stream(runner, api):
    waits = Chance(1).stream("x")
    runner.start(
        Informer(api, runner.clock, CONFIG_MAPS, jitter=Chance(1).stream("x")).run(), "informer"
    )
    api.lists += [ConnectionError()] * 2
    runner.advance(10)
    first = 0.8 * waits.between(1, 2)
    assert api.requests[:3] == [
        ("list", 0),
        ("list", round(first, 3)),
        ("list", round(first + 1.6 * waits.between(1, 2), 3)),
    ]


def test_recreated_object_is_reported_as_deleted_and_added(runner, api, notifications, start):
    api.write("a")
    api.watches.append((0, expired_event()))
    start()
    api.remove("a")
    api.write("a")
    runner.advance(1)
    assert notifications == [(2, None), (None, 2), (4, None)]


def test_bookmark_changes_version_only(runner, api, informer, notifications, start):
    start()
    api.history.append((9, Event("BOOKMARK", {"metadata": {"resourceVersion": "9"}})))
    api.open[0].wake()
    runner.advance(0)
    assert informer.version == "9"
    assert notifications == []


def test_repeated_event_is_ignored(runner, api, notifications, start):
    start()
    api.write("a")
    runner.advance(0)
    api.history.append((2.5, api.history[0][1]))
    api.open[0].wake()
    runner.advance(0)
    assert notifications == [(2, None)]


def test_writer_can_wait_for_its_write(runner, api, informer, start):
    start()
    api.write("a")
    runner.call(informer.reached("2"))
    assert informer.get("a", "ns")
    waiting = runner.loop.create_task(informer.reached("10"))
    runner.advance(5)
    assert not waiting.done()
    api.version = 11
    api.write("b")
    runner.advance(0)
    assert waiting.done()


def test_index_follows_cache(runner, api, informer, start):
    by_color = informer.index("color", lambda obj: [obj["color"]] if "color" in obj else [])
    start()
    api.write("a", color="red")
    api.write("b", color="red")
    api.write("a", color="blue")
    api.write("c")
    runner.advance(0)
    assert [obj["metadata"]["name"] for obj in by_color.of("red")] == ["b"]
    assert [obj["metadata"]["name"] for obj in by_color.of("blue")] == ["a"]
    api.remove("b")
    runner.advance(0)
    assert by_color.of("red") == []
    assert informer.index("color", lambda _: []) is by_color


def test_lasting_index_returns_current_object(runner, api, informer, start):
    by_name = informer.index("name", lambda obj: [obj["metadata"]["name"]], stable=True)
    start()
    api.write("a", color="red")
    runner.advance(0)
    api.write("a", color="blue")
    runner.advance(0)
    assert [obj["color"] for obj in by_name.of("a")] == ["blue"]


def test_lasting_index_follows_changed_keys(runner, api, informer, start):
    by_place = informer.index("place", lambda obj: [obj["spec"]], stable=True)
    start()
    for place, other in (("here", "there"), ("there", "here")):
        api.write("a", spec=place)
        runner.advance(0)
        assert ([obj["spec"] for obj in by_place.of(place)], by_place.of(other)) == ([place], [])
    api.remove("a")
    runner.advance(0)
    assert by_place.of("there") == []


@pytest.mark.parametrize(
    "error", [KeyError("x"), ConnectionError("x"), InternalError("x")], ids=type
)
def test_handler_crash_is_raised(runner, api, informer, error):
    informers = Informers(api, runner.clock)

    def crash(*_):
        raise error

    informers.of(CONFIG_MAPS).on_change(crash)
    runner.start(informers.run(), "informers")
    api.write("a")
    with pytest.raises(ActorCrashedError, match="informers crashed"):
        runner.advance(1)


def test_crash_of_late_handler_is_raised(runner, api):
    informers = Informers(api, runner.clock)
    runner.start(informers.run(), "informers")
    runner.advance(0)
    api.write("a")
    informers.of(CONFIG_MAPS).on_change(lambda *_: 1 / 0)
    with pytest.raises(ActorCrashedError, match="informers crashed"):
        runner.advance(0)


def test_informers_are_shared_and_end_together(runner, api):
    informers = Informers(api, runner.clock)
    before = informers.of(CONFIG_MAPS)
    runner.start(informers.run(), "informers")
    runner.advance(0)
    after = informers.of(PODS)
    runner.advance(0)
    assert informers.of(CONFIG_MAPS) is before
    assert len(api.open) == 2
    informers.drop(PODS)
    runner.advance(0)
    assert len(api.open) == 1
    assert informers.known(PODS) is None
    assert after is not informers.of(PODS)
    runner.close()
    assert api.open == []


def test_listener_of_dropped_resource_is_notified_when_it_returns(runner, api):
    informers = Informers(api, runner.clock)
    runner.start(informers.run(), "informers")
    notifications = []
    informers.of(CONFIG_MAPS).on_change(
        lambda new, old: notifications.append((new or old)["metadata"]["name"])
    )
    informers.drop(CONFIG_MAPS)
    api.write("a")
    runner.advance(0)
    assert notifications == ["a"]
    assert informers.known(CONFIG_MAPS) is informers.of(CONFIG_MAPS)


def test_wait_for_dropped_informer_ends(runner, api):
    informers = Informers(api, runner.clock)
    runner.start(informers.run(), "informers")
    waiting = runner.loop.create_task(informers.of(PODS).reached("99"))
    runner.advance(1)
    informers.drop(PODS)
    runner.advance(0)
    assert waiting.done()


NAMES = st.sampled_from("abc")


class InformerUnderFaults(RuleBasedStateMachine):
    """Under any faults the cache converges, and each change is reported once, with the previous
    object.
    """

    @initialize(page=st.integers(1, 3))
    def begin(self, page):
        self.runner = VirtualRunner()
        self.api = FaultyApi(self.runner, page)
        self.informer = Informer(
            self.api, self.runner.clock, CONFIG_MAPS, jitter=Chance(0).stream("x")
        )
        self.index = self.informer.index("color", lambda obj: [obj["color"]])
        self.known = {}
        self.informer.on_change(self.record_change)
        self.runner.start(self.informer.run(), "informer")

    def record_change(self, new, old):
        name = (new or old)["metadata"]["name"]
        assert old is self.known.get(name)
        assert new is not old
        if new is None:
            del self.known[name]
        else:
            assert old is None or (
                version(new) > version(old) and new["metadata"]["uid"] == old["metadata"]["uid"]
            )
            self.known[name] = new

    @rule(name=NAMES, color=st.sampled_from(["red", "blue"]))
    def write(self, name, color):
        self.api.write(name, color=color)

    @rule(name=NAMES)
    def remove(self, name):
        if name in self.api.objects:
            self.api.remove(name)

    @rule(name=NAMES)
    def replace(self, name):
        if name in self.api.objects:
            self.api.remove(name)
            self.api.write(name, color="red")

    @rule()
    def compact(self):
        self.api.compact()

    @rule(
        error=st.sampled_from(
            [ConnectionError(), TimeoutError(), InternalError("oh"), Expired("old")]
        )
    )
    def fail_lists(self, error):
        self.api.lists.append(error)

    @rule(
        after=st.integers(0, 3),
        trouble=st.sampled_from(
            [
                ConnectionError(),
                "end",
                expired_event(),
                Event("ERROR", InternalError("oh").status),
                None,
            ]
        ),
    )
    def fail_watches(self, after, trouble):
        self.api.watches.append((after, trouble) if trouble else Expired("old"))

    @rule()
    def drop_connection(self):
        for watch in list(self.api.open):
            if watch.waiter and not watch.waiter.done():
                watch.waiter.set_exception(ConnectionError())

    @rule(seconds=st.sampled_from([0, 0.5, 2, 40]))
    def advance(self, seconds):
        self.runner.advance(seconds)

    def teardown(self):
        if not hasattr(self, "api"):
            return
        self.api.lists.clear()
        self.api.watches.clear()
        self.runner.advance(120)
        truth = {Ref("ns", name): obj for name, obj in self.api.objects.items()}
        assert self.informer.objects == truth
        assert {obj["metadata"]["name"] for obj in truth.values()} == set(self.known)
        for color in ("red", "blue"):
            wanted = {name for name, obj in self.api.objects.items() if obj["color"] == color}
            assert {obj["metadata"]["name"] for obj in self.index.of(color)} == wanted
        self.runner.close()


InformerUnderFaults.TestCase.settings = settings(
    max_examples=150, stateful_step_count=30, deadline=None, derandomize=True
)
test_cache_converges_without_duplicate_notifications = InformerUnderFaults.TestCase
