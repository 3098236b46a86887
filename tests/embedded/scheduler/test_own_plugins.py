"""Custom plugins at every extension point."""

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
    """Plugin that allows one pod per node."""

    def filter(self, state, pod, node):
        return unschedulable("too loud") if node.pods else None

    def events(self):
        return (Interest(POD, Action.DELETE),)


class Last(Plugin):
    """Plugin that prefers the node with the last name."""

    def pre_score(self, state, pod, nodes):
        state[self.name] = sorted(node.name for node in nodes)

    def score(self, state, pod, node):
        return state[self.name].index(node.name)

    def normalize(self, state, pod, scores):
        return [100 * score // max(scores) for score in scores]


class Steps(Plugin):
    """Plugin that records all calls."""

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
    """Return a profile of the default plugins and these, everywhere (weight 100) or at one point."""
    sets = {"multiPoint": PluginSet(tuple(EnabledPlugin(plugin, 100) for plugin in plugins))}
    sets |= {
        point: PluginSet(tuple(EnabledPlugin(plugin) for plugin in names))
        for point, names in points.items()
    }
    return ProfileConfiguration(name, sets, args or {})


@pytest.fixture
def with_plugins(make_cluster):
    def make(*classes, **points):
        registry = Registry()
        for one in classes:
            registry.register(one)
        names = [] if points else [one.name for one in classes]
        return make_cluster(
            registry=registry, configuration=SchedulerConfiguration((profile(*names, **points),))
        )

    return make


def test_filter_plugin(with_plugins):
    cluster = with_plugins(Quiet)
    cluster.nodes(2)
    assert {cluster.pod("a"), cluster.pod("b")} == {"n1", "n2"}
    cluster.pod("c")
    assert cluster.why("c").startswith("0/2 nodes are available: 2 too loud. ")
    cluster.delete("a")
    assert cluster.where("c")


def test_score_plugin(with_plugins):
    cluster = with_plugins(Last)
    cluster.nodes(3)
    assert [cluster.pod(f"p{number}", cpu="1") for number in range(3)] == ["n3"] * 3


def test_plugin_by_import_path(make_cluster):
    name = f"{__name__}:Last"
    cluster = make_cluster(configuration=SchedulerConfiguration((profile(name),)))
    cluster.nodes(3)
    assert cluster.pod() == "n3"


def test_extension_points_run_in_order(with_plugins):
    Steps.seen.clear()
    cluster = with_plugins(Steps, multiPoint=["Steps"], bind=["Steps", "DefaultBinder"])
    cluster.nodes(2)
    assert cluster.pod(labels={"app": "a"}) in {"n1", "n2"}
    node = cluster.where()
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


def test_bind_plugin(with_plugins):
    class Binder(Plugin):
        async def bind(self, state, pod, node):
            target = {"kind": "Node", "name": "n2"}
            binding = {"metadata": {"name": pod.name}, "target": target}
            await self.handle.context.api.create(
                PODS, binding, pod.namespace, name=pod.name, subresource="binding"
            )

    cluster = with_plugins(Binder, multiPoint=["Binder"], bind=["Binder", "DefaultBinder"])
    cluster.node("n1")
    assert cluster.pod() == "n2"


def test_pre_filter_limits_nodes(with_plugins):
    class Only(Plugin):
        def pre_filter(self, state, pod, nodes):
            return ["n2", "n9"]

    cluster = with_plugins(Only)
    cluster.nodes(3)
    assert cluster.pod() == "n2"
    cluster.pod("q", cpu="5")
    assert cluster.why("q").startswith(
        "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) didn't satisfy plugin(s) [Only]. "
    )


def test_pre_filter_rejects_pod(with_plugins):
    class Never(Plugin):
        def pre_filter(self, state, pod, nodes):
            return unresolvable("not today")

    cluster = with_plugins(Never)
    cluster.nodes(3)
    cluster.pod()
    assert cluster.why().startswith("0/3 nodes are available: not today. ")


def test_failed_reserve_is_unreserved(with_plugins):
    given = []

    class Fails(Plugin):
        def reserve(self, state, pod, node):
            return unschedulable("sold out") if not given else None

        def unreserve(self, state, pod, node):
            given.append(node)

        def events(self):
            return (Interest(POD, Action.DELETE),)

    cluster = with_plugins(Fails)
    cluster.nodes(1)
    assert cluster.pod(cpu="3") is None
    assert given == ["n1"]
    assert cluster.why() == "0/1 nodes are available: 1 sold out."
    cluster.pod("q", cpu="1")
    cluster.delete("q")
    assert cluster.where() == "n1"


def test_reserve_error_is_retried(with_plugins):
    class Shaky(Plugin):
        tries = 0

        def reserve(self, state, pod, node):
            Shaky.tries += 1
            return failure("the line is down") if Shaky.tries < 3 else None

    cluster = with_plugins(Shaky)
    cluster.nodes(1)
    cluster.pod()
    assert cluster.events() == [("FailedScheduling", "the line is down")]
    cluster.advance(10)
    assert (cluster.where(), Shaky.tries) == ("n1", 3)


@pytest.mark.parametrize("large", [1, 64])
@pytest.mark.parametrize("broken", [failure("the line is down"), SKIP])
def test_filter_error_ends_attempt_and_is_retried(with_plugins, large, broken):
    class Shaky(Plugin):
        tries = 0

        def filter(self, state, pod, node):
            Shaky.tries += node.name == "n2"
            return broken if node.name == "n2" and Shaky.tries < 3 else None

    cluster = with_plugins(Shaky)
    cluster.scheduler._handle.snapshot.large = large
    cluster.nodes(3)
    cluster.pod()
    words = f'running "Shaky" filter plugin: {broken.message}'
    assert cluster.events() == [("FailedScheduling", words)]
    told = condition(cluster.get(), "PodScheduled")
    assert (told["reason"], told["message"]) == ("SchedulerError", words)
    cluster.advance(10)
    assert (bool(cluster.where()), Shaky.tries) == (True, 3)


class Together(Plugin):
    """Plugin whose pods wait for each other in pairs."""

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

    def waiting(self, cluster):
        return list(cluster.scheduler._handle.waiting)

    def test_waiting_pod_does_not_block_others(self, with_plugins):
        class Ask(Plugin):
            def permit(self, state, pod, node):
                return wait(60) if pod.name == "p" else None

        cluster = with_plugins(Ask)
        cluster.nodes(1)
        assert cluster.pod(cpu="3") is None
        assert cluster.pod("q", cpu="1") == "n1"
        cluster.pod("r", cpu="1")
        assert cluster.why("r").startswith("0/1 nodes are available: 1 Insufficient cpu. ")

    def test_permit_allows_pod(self, with_plugins):
        cluster = self.make(with_plugins)
        cluster.nodes(1)
        cluster.pod()
        (one,) = self.waiting(cluster)
        assert cluster.get()["status"]["nominatedNodeName"] == "n1"
        assert (one.pod.name, one.node, one.plugins) == ("p", "n1", ["Ask"])
        one.allow("Ask")
        cluster.advance()
        assert cluster.where() == "n1"

    def test_permit_of_plugin_by_import_path(self, make_cluster):
        cluster = make_cluster(
            configuration=SchedulerConfiguration((profile(f"{__name__}:Together"),))
        )
        cluster.nodes(1)
        assert cluster.pod("p") is None
        assert cluster.pod("q") == "n1"
        assert cluster.where("p") == "n1"

    def test_allow_by_unknown_plugin_has_no_effect(self, with_plugins):
        cluster = self.make(with_plugins)
        cluster.nodes(1)
        cluster.pod()
        (one,) = self.waiting(cluster)
        with pytest.raises(
            ValueError,
            match=(r"^the profile has no plugin 'Aks' \(did you mean 'Ask'\?\): pass self.name$"),
        ):
            one.allow("Aks")

    def test_permit_timeout(self, with_plugins):
        cluster = self.make(with_plugins, seconds=5)
        cluster.nodes(1)
        cluster.pod()
        cluster.advance(5.1)
        assert cluster.where() is None
        assert "nominatedNodeName" not in cluster.get()["status"]
        assert "1 timeout after 5s waiting on permit of plugin 'Ask'" in cluster.events()[0][1]

    def test_deletion_of_waiting_pod(self, with_plugins):
        cluster = self.make(with_plugins)
        cluster.nodes(1)
        cluster.pod(cpu="3")
        cluster.delete()
        cluster.advance()
        assert self.waiting(cluster) == []
        cluster.pod("q", cpu="3")
        assert [one.pod.name for one in self.waiting(cluster)] == ["q"]


def test_score_out_of_range_is_error(with_plugins):
    class Proud(Plugin):
        def score(self, state, pod, node):
            return 101

    cluster = with_plugins(Proud)
    cluster.nodes(2)
    cluster.pod()
    words = (
        "plugin 'Proud' returns an invalid score 101, it should in the range of [0, 100] "
        "after normalizing"
    )
    assert cluster.events()[0] == ("FailedScheduling", words)


def test_plugin_construction_error(with_plugins):
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
    def test_closed_gate_stops_scheduling(self, make_cluster, runner):
        import asyncio

        opened = asyncio.Event()
        cluster = make_cluster(gate=opened.wait)
        cluster.nodes(1)
        cluster.pod("low", cpu="3", priority=0)
        cluster.pod("high", cpu="3", priority=10)
        assert (cluster.where("low"), cluster.where("high")) == (None, None)
        opened.set()
        cluster.advance()
        assert (cluster.where("low"), cluster.where("high")) == (None, "n1")


def test_several_profiles(make_cluster):
    registry = Registry()
    registry.register(Last)
    both = (profile(), profile("Last", name="last"))
    cluster = make_cluster(registry=registry, configuration=SchedulerConfiguration(both))
    cluster.nodes(3)
    assert [cluster.pod(f"p{number}", cpu="1", schedulerName="last") for number in range(3)] == [
        "n3"
    ] * 3
    assert cluster.pod("q", cpu="1") in {"n1", "n2"}


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
def test_plugin_error_names_plugin(with_plugins, plugin, words):
    cluster = with_plugins(plugin)
    cluster.nodes(1)

    with pytest.raises(
        ActorCrashedError, match=f"the plugin {words} for the pod default/a: KeyError"
    ):
        cluster.pod("a")


def says(method, answer, *, is_async=False):
    """Return a plugin with this answer at this point."""

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
def test_invalid_plugin_result_names_plugin(with_plugins, plugin, words, large):
    if plugin.normalize is not Plugin.normalize:
        plugin.score = lambda self, state, pod, node: 1
    cluster = with_plugins(plugin)
    cluster.scheduler._handle.snapshot.large = large
    cluster.nodes(2)

    with pytest.raises(ActorCrashedError, match=re.escape(f"the plugin 'Odd' failed {words}")):
        cluster.pod("a")


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
def test_invalid_plugin_is_refused(plugin, words):
    with pytest.raises(ValueError, match=f"^{re.escape(words)}"):
        Registry().register(plugin)


def test_plugin_helper_names_are_free():
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
