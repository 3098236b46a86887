"""Fixtures (clusters, scenario_runner, workflow), test ids and the command line that repeats a
test.

Engines are imported when a test first asks for one.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shlex
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kscen.plugin import markers, planning
from pytest_kscen.plugin.options import DURATION, OPTIONS, PARENT_KUBECONFIG, SETTINGS, VM_NAMESPACE

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Callable, Iterator

    from pytest_kscen.clusters.cluster import Cluster
    from pytest_kscen.clusters.kind import KindOptions
    from pytest_kscen.journal import Journal
    from pytest_kscen.kube.actor import ParentCluster
    from pytest_kscen.objects.options import Option
    from pytest_kscen.plugin.options import Settings
    from pytest_kscen.run.context import Run
    from pytest_kscen.run.runner import ScenarioRunner
    from pytest_kscen.run.workflows import WorkflowHandle


# What a test is called so that no other is, and what to type for it.


def own_id(node: pytest.Item | pytest.Collector) -> str:
    """pytest's id, which has the way from its root directory; outside of that it has none, and
    many would go by one id.
    """
    root = node.config.rootpath
    if node.path.is_relative_to(root):
        return node.nodeid
    return _seen_from(root, node)


def typed(item: pytest.Item) -> str:
    """As it is named to a pytest that is called where this one was, which need not be the root
    directory.
    """
    return _seen_from(item.config.invocation_params.dir, item)


def _seen_from(folder: pathlib.Path, node: pytest.Item | pytest.Collector) -> str:
    _, colons, name = node.nodeid.partition("::")
    return f"{os.path.relpath(node.path, folder)}{colons}{name}"


def root_flags(config: pytest.Config) -> Iterator[str]:
    """What was said of where the root directory and its file are."""
    if config.option.inifilename:
        yield from ("-c", config.option.inifilename)
    if config.option.rootdir:
        yield f"--rootdir={config.option.rootdir}"


_SHARED = pytest.StashKey[dict[Any, Any]]()
"""The clusters that a module's or the session's tests share: by what they wish, each with the
tests that had it.
"""

_BEFORE = pytest.StashKey[list[str]]()
"""Of a test on a shared cluster: those that had it before."""

RUNS_TOLD = pytest.StashKey[list[list[str]]]()
"""The runs of a test that are over, each in lines."""

ASKED = pytest.StashKey[list[str]]()
"""The flags, of those of which only runs can tell, for which a test's runs have asked."""

_SEED = pytest.StashKey[str]()
"""Of a test's cluster, from when it is asked for.

Other people's fixtures may have the names of ours: this says whose they are.
"""

ENDED = pytest.StashKey[str]()
"""How a test itself has ended: "passed", "failed" or "skipped"; unknown until then."""

CUT_OFF = pytest.StashKey[pytest.Item]()
"""Of the session: the test amid which it was ended."""

_CLUSTER = pytest.StashKey["Cluster"]()
"""While the test has it."""

_RUNNER = pytest.StashKey["ScenarioRunner"]()
"""While the test has it."""

_KIND_KEPT = pytest.StashKey[bool]()

REMADE = ("embedded", "controlplane")


@pytest.fixture
def cluster_factory(request: pytest.FixtureRequest) -> Iterator[Callable[..., Cluster]]:
    """Open a cluster: `cluster_factory(backend=..., nodes=...)`; each is closed when the test
    ends.
    """
    with contextlib.ExitStack() as opened:

        def open_one(backend: str | None = None, nodes: int | None = None) -> Cluster:
            default = request.config.stash[SETTINGS].kscen_cluster
            cluster = _open(request, planning.ClusterWish(backend or default, nodes), request.node)
            opened.callback(cluster.close)
            return cluster

        yield open_one


@pytest.fixture
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """The test's cluster: fresh, unless @pytest.mark.cluster(scope=...) shares it."""
    wish, stash = _wish(request), request.node.stash
    shared = wish.scope != "function"
    stash[_CLUSTER] = cluster = (
        _shared(request, wish) if shared else _open(request, wish, request.node)
    )
    stash[_SEED] = cluster.chance.seed
    yield cluster
    del stash[_CLUSTER]
    if not shared:
        cluster.close()


@pytest.fixture
def scenario_runner(request: pytest.FixtureRequest, cluster: Cluster) -> Iterator[ScenarioRunner]:
    """Runs what the test's markers declare, on the test's cluster."""
    from pytest_kscen.run.plan import Terms
    from pytest_kscen.run.runner import ScenarioRunner

    settings = request.config.stash[SETTINGS]
    runner = ScenarioRunner(
        cluster,
        planning.plan(request.node),
        default_duration=settings.kscen_duration,
        terms=Terms(settings.disposable, settings.scenario_results, settings.scenario_patience),
        parent=lambda: _parent(request.node, cluster, settings),
        keep=lambda number: _keep(request.node, number),
        tell=lambda run: _tell(request.node, run),
        say=lambda words: _say(request.config, words),
    )
    request.node.stash[_RUNNER] = runner
    with contextlib.closing(runner):
        yield runner
        if runner.left_open:
            _asks(request.node, DURATION)
        overlooked = runner.overlooked()
        del request.node.stash[_RUNNER]
    ended = request.node.stash.get(ENDED, "")
    if markers.declares(request.node) and not runner.runs and ended == "passed":
        pytest.fail(
            "the test has not run what its markers declare: " + markers.HOW_TO_RUN, pytrace=False
        )
    if overlooked and ended != "failed" and not is_cut_off(request.node):  # one failure is enough
        pytest.fail(overlooked, pytrace=False)


@pytest.fixture
def workflow(request: pytest.FixtureRequest, scenario_runner: ScenarioRunner) -> WorkflowHandle:
    """The workflow of @pytest.mark.workflow(file), played to its end."""
    from pytest_kscen.run.workflows import play_to_end

    wish = markers.workflow_wish(request.node)
    if wish is None:
        pytest.fail(
            "the fixture workflow plays what the test's @pytest.mark.workflow(file) names",
            pytrace=False,
        )
    with without_traceback():
        return play_to_end(scenario_runner, wish.workflow, wish.cast, within=wish.within)


def curtain(item: pytest.Item) -> None:
    """The test has done what it does: its scenarios are over, and told while whoever reports
    listens.
    """
    runner = item.stash.get(_RUNNER, None)
    if runner and runner.played:
        runner.end_scenarios()
        for played in runner.played:
            from pytest_kscen.report.allure import LARGEST_JOURNAL
            from pytest_kscen.scenario.analysis import performance

            told = performance.ScenarioSummary.of(
                played.journal, played.name, item.stash[_SEED], was_ended=played.was_ended
            )
            _add(item, performance.summary(told), performance.properties(told))
            if played.journal.path:
                performance.archive(played.journal.path.parent, told)
            if item.config.getoption("allure_report_dir", None):
                performance.attach(told, played.journal, LARGEST_JOURNAL)


def _add(item: pytest.Item, lines: list[str], properties: list[tuple[str, object]]) -> None:
    """For the terminal and for JUnit; what is not the test's first carries its number."""
    told = item.stash.setdefault(RUNS_TOLD, [])
    told.append(lines)
    number = f".{len(told)}" if len(told) > 1 else ""
    item.user_properties += [(f"{name}{number}", value) for name, value in properties]


def _keep(item: pytest.Item, number: int) -> Callable[[Journal], object]:
    """Begins the folder of a test's first, second run, if the settings say where; its journal
    goes there.
    """
    settings = item.config.stash[SETTINGS]
    if settings.kscen_archive is None:
        return lambda _: None
    from pytest_kscen.report.archive import begin, check_free, folder_name

    test = own_id(item)
    facts = {
        "test": test,
        "seed": item.stash[_SEED],
        "options": _chosen(settings),
        "command": how_to_run_again(item),
        "command_folder": str(item.config.invocation_params.dir),
    }
    folder = settings.kscen_archive / folder_name(test, number)
    check_free(folder)
    return functools.partial(begin, folder, facts)


def _tell(item: pytest.Item, run: Run) -> None:
    """A run is over, inside its test: put it where people look."""
    if not run.is_over:
        return
    from pytest_kscen.report.summary import brief, properties, summary

    _add(
        item,
        (summary if item.config.getoption("verbose") > 0 else brief)(run.outcome),
        properties(run.outcome),
    )
    if run.journal.path:
        from pytest_kscen.report.archive import finish

        finish(run.journal.path.parent, run.journal, run.outcome)
    if item.config.getoption("allure_report_dir", None):
        from pytest_kscen.report.allure import attach

        attach(run.outcome, run.journal, f"run {len(item.stash[RUNS_TOLD])}")
    if run.outcome.stopped_early or run.is_told_to_stop:
        item.session.shouldstop = "told to stop"
        item.config.add_cleanup(
            run.signals.pop_all().close
        )  # the session ends by itself, and is reported whole


def _say(config: pytest.Config, words: str) -> None:
    """Whatever is captured meanwhile. A worker has no terminal, and one may be gone."""
    terminal, capture = map(config.pluginmanager.getplugin, ("terminalreporter", "capturemanager"))
    if terminal:
        shown = capture.global_and_fixture_disabled() if capture else contextlib.nullcontext()
        with contextlib.suppress(OSError, ValueError), shown:
            terminal.ensure_newline()
            terminal.write_line(f"kscen: {words}")
            terminal.flush()


def _asks(item: pytest.Item, *options: Option) -> None:
    item.stash.setdefault(ASKED, []).extend(option.flag for option in options)


def _parent(item: pytest.Item, cluster: Cluster, settings: Settings) -> ParentCluster | None:
    """The parent cluster; a real cluster of which nobody has said that it has one has none."""
    _asks(item, PARENT_KUBECONFIG, VM_NAMESPACE)
    kubeconfig, namespace = settings.parent_kubeconfig, settings.vm_namespace
    if cluster.backend not in REMADE and not kubeconfig and not namespace:
        return None
    return cluster.parent(kubeconfig=kubeconfig, namespace=namespace)


def is_ours(item: pytest.Item) -> bool:
    """Whether the test has asked for a cluster of ours."""
    return _SEED in item.stash


def is_cut_off(item: pytest.Item) -> bool:
    """Whether the session was ended amid this test: it had no chance to look at what became of
    its runs.
    """
    return item.config.stash.get(CUT_OFF, None) is item


def runs_inside(item: pytest.Function) -> bool:
    """Run an `async def` test in the loop of its cluster, if it has one of ours."""
    cluster: Any = item.stash.get(_CLUSTER, None)
    if cluster is None:
        return False
    wanted = item._fixtureinfo.argnames  # noqa: SLF001  # what pytest's own runner reads
    cluster.runner.call(item.obj(**{name: item.funcargs[name] for name in wanted}))
    return True


@contextlib.contextmanager
def without_traceback() -> Iterator[None]:
    """A refusal speaks for itself: where it was raised says nothing to a test's author."""
    from pytest_kscen.clusters import ClusterRefused
    from pytest_kscen.run.preflight import PreflightRefused

    try:
        yield
    except (ClusterRefused, PreflightRefused) as refusal:
        raise pytest.fail.Exception(str(refusal), pytrace=False) from None


def how_to_run_again(item: pytest.Item) -> str:
    """A line to paste where pytest was called: the test after those that its cluster has seen,
    its seed, every setting chosen.
    """
    chosen = _chosen(item.config.stash[SETTINGS])
    if is_ours(item):
        chosen["--kscen-seed"] = item.stash[_SEED]
    chosen.pop("--kscen-archive", None)
    marked = ["-m", "controlplane"] if item.get_closest_marker("controlplane") else []
    tests = dict.fromkeys([*item.stash.get(_BEFORE, ()), typed(item)])
    flags = [f"{flag}={value}" if value else flag for flag, value in chosen.items()]
    config = item.config
    off = [
        option
        for option in OPTIONS
        if option.is_switch and config.stash[SETTINGS].of(option) is False
    ]
    return shlex.join(
        [
            *[
                f"{option.variable}={os.environ[option.variable]}"
                for option in off
                if os.environ.get(option.variable) and config.getini(option.name)
            ],
            "pytest",
            *root_flags(item.config),
            *tests,
            *marked,
            *flags,
        ]
    )


def _chosen(settings: Settings) -> dict[str, str]:
    """The settings that were given, as their flags have them: a switch that is on has no value."""
    values = {
        option: settings.given[option.flag] for option in OPTIONS if option.flag in settings.given
    }
    chosen = {
        option.flag: "" if option.is_switch else given.text
        for option, given in values.items()
        if given.value is not False
    }
    if settings.kscen_seed:
        chosen["--kscen-seed"] = settings.kscen_seed
    return chosen


def seed_of(owner: pytest.Item | pytest.Collector) -> str:
    """The seed that the settings give, or that of whoever a cluster is for, a test, a module or
    the session: from its id.
    """
    from pytest_kscen.chance import seed_from

    return owner.config.stash[SETTINGS].kscen_seed or seed_from(own_id(owner) or "session")


def _wish(request: pytest.FixtureRequest) -> planning.ClusterWish:
    """What the marker asks for and the settings fill in.

    A cluster that is not ours to remake lasts for the session.
    """
    wish = planning.cluster_wish(request.node)
    backend = wish.backend or request.config.stash[SETTINGS].kscen_cluster
    scope = wish.scope if backend in REMADE else "session"
    return planning.ClusterWish(backend, wish.nodes, scope)


def _open(
    request: pytest.FixtureRequest,
    wish: planning.ClusterWish,
    owner: pytest.Item | pytest.Collector,
) -> Cluster:
    from pytest_kscen.clusters import ClusterRefused, open_cluster

    settings = request.config.stash[SETTINGS]
    seed = request.node.stash[_SEED] = seed_of(owner)
    backend = wish.backend or settings.kscen_cluster
    try:
        return open_cluster(
            backend,
            seed=seed,
            nodes=wish.nodes,
            kubeconfig=settings.kubeconfig,
            context=settings.kscen_context,
            kind=keep_kind_cluster(request.config) if backend == "kind" else None,
            parent_kubeconfig=settings.parent_kubeconfig,
            vm_namespace=settings.vm_namespace,
        )
    except ClusterRefused as refusal:
        why = str(refusal)
    pytest.fail(why, pytrace=False)


def keep_kind_cluster(config: pytest.Config, run: str = "") -> KindOptions:
    """What the command line wants of kind; the cluster, once made, lasts as long as this process
    or its controller.
    """
    from pytest_kscen.clusters.kind import KindOptions, hold_cluster

    wish = KindOptions.of(
        config.getoption, run or getattr(config, "workerinput", {}).get("testrunuid", "")
    )
    if not config.stash.get(_KIND_KEPT, False):
        config.stash[_KIND_KEPT] = True
        config.add_cleanup(hold_cluster(wish))
    return wish


def _shared(request: pytest.FixtureRequest, wish: planning.ClusterWish) -> Cluster:
    """The cluster of this test's module or session, opened by whoever asks first."""
    owner = request.node.getparent(pytest.Module) if wish.scope == "module" else request.session
    shelf: dict[planning.ClusterWish, tuple[Cluster, list[str]]] = owner.stash.setdefault(
        _SHARED, {}
    )
    if wish not in shelf:
        shelf[wish] = _open(request, wish, owner), []
        # popped then, not now
        owner.addfinalizer(lambda: shelf.pop(wish)[0].close())  # noqa: PLW0108
    cluster, had_by = shelf[wish]
    if wish.backend in REMADE:  # any other has a history that nobody can repeat
        request.node.stash[_BEFORE] = had_by.copy()
        had_by.append(typed(request.node))
    return cluster
