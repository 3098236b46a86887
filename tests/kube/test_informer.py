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


class Shaky:
    """The API of one resource, whose answers fail when a test says so: `lists` and `watches` are
    what goes wrong next.
    """

    def __init__(self, runner, page=1000):
        self.runner, self.page = runner, page
        self.objects, self.history, self.version, self.compacted = {}, [], 1, 0
        self.lists, self.watches = collections.deque(), collections.deque()
        self.asked, self.open = [], []

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
        self._tell("MODIFIED" if old else "ADDED", obj)

    def remove(self, name):
        self.version += 1
        last = self.objects.pop(name)
        self._tell(
            "DELETED",
            {**last, "metadata": {**last["metadata"], "resourceVersion": str(self.version)}},
        )

    def _tell(self, kind, obj):
        self.history.append((self.version, Event(kind, obj)))
        for watch in list(self.open):
            watch.wake()

    def compact(self):
        self.history.clear()
        self.compacted = self.version
        for watch in list(self.open):
            watch.wake()

    async def list(self, resource, namespace="", *, limit=0, continue_token="", **_):
        self.asked.append(("list", round(self.runner.clock.now() - START, 3)))
        if self.lists:
            raise self.lists.popleft()
        start, items = int(continue_token or 0), list(self.objects.values())
        rest = start + self.page
        return Listing(items[start:rest], str(self.version), str(rest) if rest < len(items) else "")

    def watch(self, resource, namespace="", *, resource_version="", **_):
        self.asked.append(("watch", round(self.runner.clock.now() - START, 3)))
        trouble = self.watches.popleft() if self.watches else None
        if isinstance(trouble, Exception):
            raise trouble
        if int(resource_version) < self.compacted:
            raise Expired("too old resource version")
        return Broken(self, int(resource_version), trouble)


class Broken:
    """A watch that delivers so many events and then its trouble: an end, a dropped connection,
    an ERROR.
    """

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
                return gone()
            for version, event in self.api.history:
                if version > self.version:
                    self.version = version
                    return event
            self.waiter = self.api.runner.loop.create_future()
            await self.waiter


def gone():
    return Event("ERROR", Expired("too old resource version").status)


@pytest.fixture
def runner():
    runner = VirtualRunner()
    yield runner
    runner.close()


@pytest.fixture
def api(runner):
    return Shaky(runner)


@pytest.fixture
def informer(runner, api):
    return Informer(api, runner.clock, CONFIG_MAPS)


@pytest.fixture
def told(informer):
    told = []
    informer.on_change(lambda new, old: told.append((new and version(new), old and version(old))))
    return told


@pytest.fixture
def start(runner, informer):
    def start():
        runner.start(informer.run(), "informer")
        runner.advance(0)

    return start


def version(obj):
    return int(obj["metadata"]["resourceVersion"])


def test_it_lists_then_watches(runner, api, informer, told, start):
    api.write("a")
    start()
    api.write("a")
    api.write("b")
    api.remove("a")
    runner.advance(0)
    assert told == [(2, None), (3, 2), (4, None), (None, 3)]
    assert list(informer.objects) == [Ref("ns", "b")]
    assert [asked for asked, _ in api.asked] == ["list", "watch"]


def test_a_handler_that_comes_late_hears_what_is_there(api, informer, start):
    api.write("a")
    start()
    heard = []
    informer.on_change(lambda new, old: heard.append((version(new), old)))
    assert heard == [(2, None)]


def test_big_lists_come_in_pages(runner, api, informer, start):
    api.page = 3
    for number in range(8):
        api.write(f"n{number}")
    start()
    assert len(informer.objects) == 8
    assert [asked for asked, _ in api.asked] == ["list", "list", "list", "watch"]


def test_an_ended_watch_goes_on_where_it_stood(runner, api, told, start):
    api.watches.append((1, "end"))
    start()
    api.write("a")
    api.write("b")
    runner.advance(0)
    assert told == [(2, None), (3, None)]
    assert api.asked == [("list", 0), ("watch", 0), ("watch", 0)]


def test_a_connection_that_drops_at_once_is_tried_again_later_and_later(runner, api, told, start):
    api.watches += [(0, ConnectionResetError())] * 3
    start()
    api.write("a")
    runner.advance(10)
    assert told == [(2, None)]
    assert api.asked == [("list", 0), ("watch", 0), ("watch", 0.8), ("watch", 2.4), ("watch", 5.6)]


@pytest.mark.parametrize(
    "trouble", [(1, gone()), Expired("too old"), InternalError("oh")], ids=["ERROR", "410", "500"]
)
def test_a_watch_that_is_refused_begins_with_a_list(runner, api, told, start, trouble):
    api.write("a")
    api.watches.append(trouble)
    start()
    api.write("b")
    api.remove("a")
    runner.advance(1)
    assert told[0] == (2, None)
    assert sorted(told[1:], key=str) == [(3, None), (None, 2)]
    assert [asked for asked, _ in api.asked] == ["list", "watch", "list", "watch"]


def test_a_list_that_fails_is_asked_for_again(runner, api, informer, start):
    api.lists += [ConnectionError(), InternalError("oh"), TimeoutError()]
    api.write("a")
    start()
    runner.advance(10)
    assert api.asked == [("list", 0), ("list", 0.8), ("list", 2.4), ("list", 5.6), ("watch", 5.6)]
    assert informer.get("a", "ns")


def test_back_off_begins_anew_after_a_calm(runner, api, start):
    api.lists += [ConnectionError()] * 4
    start()
    runner.advance(200)
    api.watches.append((0, ConnectionError()))
    for watch in list(api.open):
        watch.left, watch.trouble = 0, ConnectionError()
        watch.waiter.set_exception(ConnectionError())
    runner.advance(10)
    assert api.asked[-2:] == [("watch", 200.8), ("watch", 202.4)]


@pytest.mark.parametrize("trouble", [ConnectionError("cut"), "end"], ids=["breaks", "ends"])
def test_where_no_watch_lasts_lists_tell_what_is_new(runner, api, informer, start, trouble):
    """Such as behind a proxy that lets no watch through."""
    api.watches += [(0, trouble)] * 100
    start()
    runner.advance(2)
    api.write("a")
    runner.advance(60)
    assert api.asked[:4] == [("list", 0), ("watch", 0), ("watch", 0.8), ("watch", 2.4)]
    assert api.asked[4:8] == [("watch", 5.6), ("list", 12.0), ("watch", 12.0), ("list", 24.8)]
    assert informer.get("a", "ns")
    assert informer.refusal == ("" if trouble == "end" else "cut")


def test_a_watch_that_has_told_something_is_followed_by_watches(runner, api, start):
    api.watches += [(0, "end")] * 3 + [(1, "end")] + [(0, "end")] * 3
    start()
    runner.advance(4)
    api.write("a")
    runner.advance(100)
    assert [asked for asked, _ in api.asked] == ["list"] + ["watch"] * 8


def test_a_quiet_watch_that_lasted_is_one_that_works(runner, api, start):
    api.watches += [(0, "end")] * 3
    start()
    runner.advance(100)
    for watch in list(api.open):
        watch.left, watch.trouble = 0, "end"
        watch.waiter.set_exception(ConnectionError())
    api.watches += [(0, "end")] * 3
    runner.advance(100)
    assert [asked for asked, _ in api.asked].count("list") == 1


def test_jitter_comes_from_a_stream(runner, api):
    waits = Chance(1).stream("x")
    runner.start(
        Informer(api, runner.clock, CONFIG_MAPS, jitter=Chance(1).stream("x")).run(), "informer"
    )
    api.lists += [ConnectionError()] * 2
    runner.advance(10)
    first = 0.8 * waits.between(1, 2)
    assert api.asked[:3] == [
        ("list", 0),
        ("list", round(first, 3)),
        ("list", round(first + 1.6 * waits.between(1, 2), 3)),
    ]


def test_a_new_object_of_an_old_name_is_told_as_both(runner, api, told, start):
    api.write("a")
    api.watches.append((0, gone()))
    start()
    api.remove("a")
    api.write("a")
    runner.advance(1)
    assert told == [(2, None), (None, 2), (4, None)]


def test_bookmarks_move_the_place_and_nothing_else(runner, api, informer, told, start):
    start()
    api.history.append((9, Event("BOOKMARK", {"metadata": {"resourceVersion": "9"}})))
    api.open[0].wake()
    runner.advance(0)
    assert informer.version == "9"
    assert told == []


def test_what_was_told_before_is_not_told_again(runner, api, told, start):
    start()
    api.write("a")
    runner.advance(0)
    api.history.append((2.5, api.history[0][1]))
    api.open[0].wake()
    runner.advance(0)
    assert told == [(2, None)]


def test_whoever_writes_can_wait_for_its_write(runner, api, informer, start):
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


def test_an_index_follows_the_picture(runner, api, informer, start):
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


def test_an_index_whose_keys_last_shows_what_is_there_now(runner, api, informer, start):
    by_name = informer.index("name", lambda obj: [obj["metadata"]["name"]], lasting=True)
    start()
    api.write("a", color="red")
    runner.advance(0)
    api.write("a", color="blue")
    runner.advance(0)
    assert [obj["color"] for obj in by_name.of("a")] == ["blue"]


def test_an_index_whose_keys_last_follows_them(runner, api, informer, start):
    by_place = informer.index("place", lambda obj: [obj["spec"]], lasting=True)
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
def test_a_handler_that_crashes_is_heard(runner, api, informer, error):
    informers = Informers(api, runner.clock)

    def crash(*_):
        raise error

    informers.of(CONFIG_MAPS).on_change(crash)
    runner.start(informers.run(), "informers")
    api.write("a")
    with pytest.raises(ActorCrashedError, match="informers crashed"):
        runner.advance(1)


def test_so_is_the_crash_of_one_that_is_asked_for_late(runner, api):
    informers = Informers(api, runner.clock)
    runner.start(informers.run(), "informers")
    runner.advance(0)
    api.write("a")
    informers.of(CONFIG_MAPS).on_change(lambda *_: 1 / 0)
    with pytest.raises(ActorCrashedError, match="informers crashed"):
        runner.advance(0)


def test_informers_share_and_end_together(runner, api):
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


def test_whoever_is_told_of_a_dropped_resource_hears_of_it_when_it_is_back(runner, api):
    informers = Informers(api, runner.clock)
    runner.start(informers.run(), "informers")
    told = []
    informers.of(CONFIG_MAPS).on_change(
        lambda new, old: told.append((new or old)["metadata"]["name"])
    )
    informers.drop(CONFIG_MAPS)
    api.write("a")
    runner.advance(0)
    assert told == ["a"]
    assert informers.known(CONFIG_MAPS) is informers.of(CONFIG_MAPS)


def test_waiting_for_a_dropped_informer_ends(runner, api):
    informers = Informers(api, runner.clock)
    runner.start(informers.run(), "informers")
    waiting = runner.loop.create_task(informers.of(PODS).reached("99"))
    runner.advance(1)
    informers.drop(PODS)
    runner.advance(0)
    assert waiting.done()


NAMES = st.sampled_from("abc")


class UnderWeather(RuleBasedStateMachine):
    """Whatever goes wrong, the picture converges, and every change is told once and joins on to
    the one before.
    """

    @initialize(page=st.integers(1, 3))
    def begin(self, page):
        self.runner = VirtualRunner()
        self.api = Shaky(self.runner, page)
        self.informer = Informer(
            self.api, self.runner.clock, CONFIG_MAPS, jitter=Chance(0).stream("x")
        )
        self.index = self.informer.index("color", lambda obj: [obj["color"]])
        self.known = {}
        self.informer.on_change(self.hear)
        self.runner.start(self.informer.run(), "informer")

    def hear(self, new, old):
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
            [ConnectionError(), "end", gone(), Event("ERROR", InternalError("oh").status), None]
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


UnderWeather.TestCase.settings = settings(
    max_examples=150, stateful_step_count=30, deadline=None, derandomize=True
)
test_the_picture_converges_and_nothing_is_told_twice = UnderWeather.TestCase
