"""Plugins of somebody's own, at every point."""

import re

import pytest

from pytest_kscen.clock.tasks import ActorCrashedError
from pytest_kscen.embedded.scheduler.framework.configuration import (
    EnabledPlugin,
    PluginSet,
    ProfileConfiguration,
    SchedulerConfiguration,
)
from pytest_kscen.embedded.scheduler.registry import Registry
from pytest_kscen.objects.conditions import condition
from pytest_kscen.objects.resources import PODS
from pytest_kscen.scheduler import (
    NODE,
    POD,
    SKIP,
    Action,
    Interest,
    Plugin,
    failure,
    unresolvable,
    unschedulable,
    wait,
)


class Quiet(Plugin):
    """No more than one pod on a node."""

    def filter(self, state, pod, node):
        return unschedulable("too loud") if node.pods else None

    def events(self):
        return (Interest(POD, Action.DELETE),)


class Last(Plugin):
    """The node with the last name."""

    def pre_score(self, state, pod, nodes):
        state[self.name] = sorted(node.name for node in nodes)

    def score(self, state, pod, node):
        return state[self.name].index(node.name)

    def normalize(self, state, pod, scores):
        return [100 * score // max(scores) for score in scores]


class Steps(Plugin):
    """Notes everything that is asked of it."""

    seen: list[str] = []  # noqa: RUF012

    def pre_enqueue(self, pod):
        self.seen.append("pre_enqueue")

    def pre_filter(self, state, pod, nodes):
        self.seen.append(f"pre_filter {len(nodes)}")

    def filter(self, state, pod, node):
        self.seen.append(f"filter {node.name}")

    def pre_score(self, state, pod, nodes):
        self.seen.append(f"pre_score {len(nodes)}")

    def score(self, state, pod, node):
        self.seen.append(f"score {node.name}")
        return 7

    def reserve(self, state, pod, node):
        self.seen.append(f"reserve {node}")

    def unreserve(self, state, pod, node):
        self.seen.append(f"unreserve {node}")

    def permit(self, state, pod, node):
        self.seen.append(f"permit {node}")

    async def pre_bind(self, state, pod, node):
        self.seen.append(f"pre_bind {node}")

    async def bind(self, state, pod, node):
        self.seen.append(f"bind {node}")
        return SKIP

    def post_bind(self, state, pod, node):
        self.seen.append(f"post_bind {node}")


def profile(*plugins, name="default-scheduler", args=None, **points):
    """The default plugins, and these everywhere (weight 100), or only at a point."""
    sets = {"multiPoint": PluginSet(tuple(EnabledPlugin(plugin, 100) for plugin in plugins))}
    sets |= {
        point: PluginSet(tuple(EnabledPlugin(plugin) for plugin in names))
        for point, names in points.items()
    }
    return ProfileConfiguration(name, sets, args or {})


@pytest.fixture
def with_plugins(halls):
    def make(*classes, **points):
        registry = Registry()
        for one in classes:
            registry.register(one)
        names = [] if points else [one.name for one in classes]
        return halls(
            registry=registry, configuration=SchedulerConfiguration((profile(*names, **points),))
        )

    return make


def test_a_filter(with_plugins):
    hall = with_plugins(Quiet)
    hall.nodes(2)
    assert {hall.pod("a"), hall.pod("b")} == {"n1", "n2"}
    hall.pod("c")
    assert hall.why("c").startswith("0/2 nodes are available: 2 too loud. ")
    hall.delete("a")
    assert hall.where("c")


def test_a_score(with_plugins):
    hall = with_plugins(Last)
    hall.nodes(3)
    assert [hall.pod(f"p{number}", cpu="1") for number in range(3)] == ["n3"] * 3


def test_by_its_path(halls):
    name = f"{__name__}:Last"
    hall = halls(configuration=SchedulerConfiguration((profile(name),)))
    hall.nodes(3)
    assert hall.pod() == "n3"


def test_every_point_in_order(with_plugins):
    Steps.seen.clear()
    hall = with_plugins(Steps, multiPoint=["Steps"], bind=["Steps", "DefaultBinder"])
    hall.nodes(2)
    assert hall.pod(labels={"app": "a"}) in {"n1", "n2"}
    node = hall.where()
    assert Steps.seen == [
        "pre_enqueue",
        "pre_filter 2",
        "filter n1",
        "filter n2",
        "pre_score 2",
        "score n1",
        "score n2",
        *(f"{step} {node}" for step in ("reserve", "permit", "pre_bind", "bind", "post_bind")),
    ]


def test_who_binds_himself(with_plugins):
    class Binder(Plugin):
        async def bind(self, state, pod, node):
            target = {"kind": "Node", "name": "n2"}
            binding = {"metadata": {"name": pod.name}, "target": target}
            await self.handle.context.api.create(
                PODS, binding, pod.namespace, name=pod.name, subresource="binding"
            )

    hall = with_plugins(Binder, multiPoint=["Binder"], bind=["Binder", "DefaultBinder"])
    hall.node("n1")
    assert hall.pod() == "n2"


def test_a_pre_filter_narrows(with_plugins):
    class Only(Plugin):
        def pre_filter(self, state, pod, nodes):
            return ["n2", "n9"]

    hall = with_plugins(Only)
    hall.nodes(3)
    assert hall.pod() == "n2"
    hall.pod("q", cpu="5")
    assert hall.why("q").startswith(
        "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) didn't satisfy plugin(s) [Only]. "
    )


def test_a_pre_filter_refuses(with_plugins):
    class Never(Plugin):
        def pre_filter(self, state, pod, nodes):
            return unresolvable("not today")

    hall = with_plugins(Never)
    hall.nodes(3)
    hall.pod()
    assert hall.why().startswith("0/3 nodes are available: not today. ")


def test_what_is_reserved_is_given_back(with_plugins):
    given = []

    class Fails(Plugin):
        def reserve(self, state, pod, node):
            return unschedulable("sold out") if not given else None

        def unreserve(self, state, pod, node):
            given.append(node)

        def events(self):
            return (Interest(POD, Action.DELETE),)

    hall = with_plugins(Fails)
    hall.nodes(1)
    assert hall.pod(cpu="3") is None
    assert given == ["n1"]
    assert hall.why() == "0/1 nodes are available: 1 sold out."
    hall.pod("q", cpu="1")
    hall.delete("q")
    assert hall.where() == "n1"


def test_an_error_is_tried_again_after_a_while(with_plugins):
    class Shaky(Plugin):
        tries = 0

        def reserve(self, state, pod, node):
            Shaky.tries += 1
            return failure("the line is down") if Shaky.tries < 3 else None

    hall = with_plugins(Shaky)
    hall.nodes(1)
    hall.pod()
    assert hall.events() == [("FailedScheduling", "the line is down")]
    hall.advance(10)
    assert (hall.where(), Shaky.tries) == ("n1", 3)


@pytest.mark.parametrize("large", [1, 64])
@pytest.mark.parametrize("broken", [failure("the line is down"), SKIP])
def test_a_filter_that_is_broken_ends_the_attempt_which_is_tried_again(with_plugins, large, broken):
    class Shaky(Plugin):
        tries = 0

        def filter(self, state, pod, node):
            Shaky.tries += node.name == "n2"
            return broken if node.name == "n2" and Shaky.tries < 3 else None

    hall = with_plugins(Shaky)
    hall.scheduler._handle.snapshot.large = large
    hall.nodes(3)
    hall.pod()
    words = f'running "Shaky" filter plugin: {broken.message}'
    assert hall.events() == [("FailedScheduling", words)]
    told = condition(hall.get(), "PodScheduled")
    assert (told["reason"], told["message"]) == ("SchedulerError", words)
    hall.advance(10)
    assert (bool(hall.where()), Shaky.tries) == (True, 3)


class Together(Plugin):
    """One pod waits for the other."""

    def permit(self, state, pod, node):
        others = list(self.handle.waiting)
        for each in others:
            each.allow(self.name)
        return None if others else wait(60)


class TestPermit:
    def make(self, with_plugins, seconds=60):
        class Ask(Plugin):
            def permit(self, state, pod, node):
                return wait(seconds)

            def events(self):
                return (Interest(NODE, Action.ADD),)

        return with_plugins(Ask)

    def waiting(self, hall):
        return list(hall.scheduler._handle.waiting)

    def test_who_waits_holds_up_nobody(self, with_plugins):
        class Ask(Plugin):
            def permit(self, state, pod, node):
                return wait(60) if pod.name == "p" else None

        hall = with_plugins(Ask)
        hall.nodes(1)
        assert hall.pod(cpu="3") is None
        assert hall.pod("q", cpu="1") == "n1"
        hall.pod("r", cpu="1")
        assert hall.why("r").startswith("0/1 nodes are available: 1 Insufficient cpu. ")

    def test_allowed(self, with_plugins):
        hall = self.make(with_plugins)
        hall.nodes(1)
        hall.pod()
        (one,) = self.waiting(hall)
        assert hall.get()["status"]["nominatedNodeName"] == "n1"
        assert (one.pod.name, one.node, one.plugins) == ("p", "n1", ["Ask"])
        one.allow("Ask")
        hall.advance()
        assert hall.where() == "n1"

    def test_allowed_by_a_plugin_that_is_named_by_its_path(self, halls):
        hall = halls(configuration=SchedulerConfiguration((profile(f"{__name__}:Together"),)))
        hall.nodes(1)
        assert hall.pod("p") is None
        assert hall.pod("q") == "n1"
        assert hall.where("p") == "n1"

    def test_allowed_by_nobody_that_there_is(self, with_plugins):
        hall = self.make(with_plugins)
        hall.nodes(1)
        hall.pod()
        (one,) = self.waiting(hall)
        with pytest.raises(
            ValueError,
            match=(r"^the profile has no plugin 'Aks' \(did you mean 'Ask'\?\): pass self.name$"),
        ):
            one.allow("Aks")

    def test_its_time_is_up(self, with_plugins):
        hall = self.make(with_plugins, seconds=5)
        hall.nodes(1)
        hall.pod()
        hall.advance(5.1)
        assert hall.where() is None
        assert "nominatedNodeName" not in hall.get()["status"]
        assert "1 timeout after 5s waiting on permit of plugin 'Ask'" in hall.events()[0][1]

    def test_deleted_meanwhile(self, with_plugins):
        hall = self.make(with_plugins)
        hall.nodes(1)
        hall.pod(cpu="3")
        hall.delete()
        hall.advance()
        assert self.waiting(hall) == []
        hall.pod("q", cpu="3")
        assert [one.pod.name for one in self.waiting(hall)] == ["q"]


def test_a_score_that_is_out_of_range(with_plugins):
    class Proud(Plugin):
        def score(self, state, pod, node):
            return 101

    hall = with_plugins(Proud)
    hall.nodes(2)
    hall.pod()
    words = (
        "plugin 'Proud' returns an invalid score 101, it should in the range of [0, 100] "
        "after normalizing"
    )
    assert hall.events()[0] == ("FailedScheduling", words)


def test_a_plugin_that_cannot_be_made(with_plugins):
    class Broken(Plugin):
        def __init__(self, args, handle):
            raise KeyError("size")

        def filter(self, state, pod, node):
            return None

    with pytest.raises(
        ValueError, match=r"the plugin 'Broken' cannot be created: KeyError\('size'\)"
    ):
        with_plugins(Broken)


class TestGate:
    def test_nobody_is_taken_from_the_queue_while_it_is_closed(self, halls, runner):
        import asyncio

        opened = asyncio.Event()
        hall = halls(gate=opened.wait)
        hall.nodes(1)
        hall.pod("low", cpu="3", priority=0)
        hall.pod("high", cpu="3", priority=10)
        assert (hall.where("low"), hall.where("high")) == (None, None)
        opened.set()
        hall.advance()
        assert (hall.where("low"), hall.where("high")) == (None, "n1")


def test_profiles_side_by_side(halls):
    registry = Registry()
    registry.register(Last)
    both = (profile(), profile("Last", name="last"))
    hall = halls(registry=registry, configuration=SchedulerConfiguration(both))
    hall.nodes(3)
    assert [hall.pod(f"p{number}", cpu="1", schedulerName="last") for number in range(3)] == [
        "n3"
    ] * 3
    assert hall.pod("q", cpu="1") in {"n1", "n2"}


class Hasty(Plugin):
    """Fails before others see the pod."""

    def reserve(self, state, pod, node):
        raise KeyError("colour")


class Slow(Plugin):
    """Fails beside the scheduler."""

    def pre_bind_waits(self, state, pod, node):
        return True

    async def pre_bind(self, state, pod, node):
        raise KeyError("colour")


@pytest.mark.parametrize(
    ("plugin", "words"),
    [(Hasty, "'Hasty' failed in reserve"), (Slow, "'Slow' failed in pre_bind")],
)
def test_a_plugin_that_raises_is_named(with_plugins, plugin, words):
    hall = with_plugins(plugin)
    hall.nodes(1)

    with pytest.raises(
        ActorCrashedError, match=f"the plugin {words} for the pod default/a: KeyError"
    ):
        hall.pod("a")


def says(method, answer, *, is_async=False):
    """A plugin with this answer at this point."""

    def plain(self, *asked):
        return answer

    async def later(self, *asked):
        return answer

    return type("Odd", (Plugin,), {method: later if is_async else plain})


A_STATUS = "expected None or a status, as unschedulable('why')"


@pytest.mark.parametrize("large", [1, 64])
@pytest.mark.parametrize(
    ("plugin", "words"),
    [
        (
            says("pre_enqueue", "no"),
            f"in pre_enqueue for the pod default/a: returned 'no', {A_STATUS}",
        ),
        (
            says("pre_filter", "n1"),
            (
                f"in pre_filter for the pod default/a: returned 'n1', {A_STATUS}, or the "
                "names of nodes"
            ),
        ),
        (says("filter", "no"), f"in filter for the pod default/a: returned 'no', {A_STATUS}"),
        (
            says("filter", answer=False),
            f"in filter for the pod default/a: returned False, {A_STATUS}",
        ),
        (
            says("score", "high"),
            "in score for the pod default/a: returned 'high', expected a whole number",
        ),
        (
            says("normalize", [1]),
            ("in normalize for the pod default/a: returned [1], expected a list of 2 numbers, "),
        ),
        (
            says("reserve", answer=True),
            f"in reserve for the pod default/a: returned True, {A_STATUS}",
        ),
        (says("permit", 5), f"in permit for the pod default/a: returned 5, {A_STATUS}"),
        (
            says("pre_bind", None),
            (
                "in pre_bind for the pod default/a: returned None, expected "
                "an awaitable: the method "
            ),
        ),
        (
            says("pre_bind", 1, is_async=True),
            f"in pre_bind for the pod default/a: returned 1, {A_STATUS}",
        ),
    ],
)
def test_a_plugin_whose_answer_is_none_is_named(with_plugins, plugin, words, large):
    if plugin.normalize is not Plugin.normalize:
        plugin.score = lambda self, state, pod, node: 1
    hall = with_plugins(plugin)
    hall.scheduler._handle.snapshot.large = large
    hall.nodes(2)

    with pytest.raises(ActorCrashedError, match=re.escape(f"the plugin 'Odd' failed {words}")):
        hall.pod("a")


@pytest.mark.parametrize(
    ("plugin", "words"),
    [
        (
            says("filtr", None),
            "the plugin 'Odd' has a method 'filtr' that is no extension point (did you mean 'filter'?)",
        ),
        (
            says("preFilter", None),
            (
                "the plugin 'Odd' has a method 'preFilter' that is no extension point (did you mean "
                "'pre_filter'?)"
            ),
        ),
        (
            says("score", 1, is_async=True),
            "the plugin 'Odd': score must not be async: it is called without await",
        ),
        (
            object,
            (
                "<class 'object'> is not a plugin class: derive it from "
                "pytest_kscen.scheduler.Plugin"
            ),
        ),
        (3, "3 is not a plugin class: derive it from pytest_kscen.scheduler.Plugin"),
    ],
)
def test_what_is_no_plugin_is_not_registered(plugin, words):
    with pytest.raises(ValueError, match=f"^{re.escape(words)}"):
        Registry().register(plugin)


def test_helpers_of_a_plugin_may_be_called_as_they_like():
    class Helped(Plugin):
        def filter(self, state, pod, node):
            return self.filters(pod)

        def filters(self, pod):
            return None

        def score_of(self, pod):
            return 1

        def _filtr(self):
            return None

    assert Registry().register(Helped) is Helped
