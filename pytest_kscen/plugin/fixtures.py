"""Fixtures (clusters, scenario_runner, workflow), test ids and the command line that repeats a
test.

`hooks` and pytest call it. Engines are imported when a test first requests a cluster; nothing here
may import one at load time.
"""

from __future__ import annotations

import contextlib
import os
import shlex
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kscen.clusters import BACKENDS
from pytest_kscen.extensions import ExtensionError
from pytest_kscen.plugin import markers, planning
from pytest_kscen.plugin.contributions import load_extensions
from pytest_kscen.plugin.options import DURATION, OPTIONS, PARENT_KUBECONFIG, SETTINGS, VM_NAMESPACE
from pytest_kscen.report.protocol import Report, ReportedTest

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Callable, Iterator

    from pytest_kscen.clusters.cluster import Cluster
    from pytest_kscen.clusters.kind import KindOptions
    from pytest_kscen.kube.actor import ParentCluster
    from pytest_kscen.objects.options import Option
    from pytest_kscen.plugin.options import Settings
    from pytest_kscen.report.protocol import ReportedRun
    from pytest_kscen.run.runner import ScenarioRunner
    from pytest_kscen.run.workflows import WorkflowHandle

INTERRUPTED_TEST = pytest.StashKey[pytest.Item]()
"""Session-wide: the test in which Ctrl-C or `pytest.exit` ended the session."""

_REPORTS = pytest.StashKey[list[Report]]()
_SHARED_CLUSTERS = pytest.StashKey[dict[Any, Any]]()
"""Clusters of a module or the session by their request, each with its tests so far."""
_KIND_HELD = pytest.StashKey[bool]()


@dataclass(slots=True)
class ItemState:
    """State of one test that requested a cluster of this plugin, kept on its item.

    Other plugins' fixtures may have the names of ours; an item without this state is theirs.
    """

    seed: str
    cluster: Cluster | None = None
    runner: ScenarioRunner | None = None
    earlier_tests: list[str] = field(default_factory=list)
    """Tests that used the shared cluster before, as the command line names them."""
    summaries: list[list[str]] = field(default_factory=list)
    """Lines per finished run, for the terminal."""
    used_flags: list[str] = field(default_factory=list)
    """Run-time flags that this test's runs have used."""
    ended: str = ""
    """Result of the test's call: passed, failed or skipped; empty until then."""


_STATE = pytest.StashKey[ItemState]()


def state_of(item: pytest.Item) -> ItemState | None:
    """Return the state of a test that uses our clusters; None for any other test."""
    return item.stash.get(_STATE, None)


def was_interrupted(item: pytest.Item) -> bool:
    """Return True if the session ended in this test, which could not read its verdicts."""
    return item.config.stash.get(INTERRUPTED_TEST, None) is item


@pytest.fixture
def cluster_factory(request: pytest.FixtureRequest) -> Iterator[Callable[..., Cluster]]:
    """Open clusters: `cluster_factory(backend=..., nodes=...)`; all close when the test ends."""
    with contextlib.ExitStack() as opened:

        def open_one(backend: str | None = None, nodes: int | None = None) -> Cluster:
            default = request.config.stash[SETTINGS].kscen_cluster
            cluster = _open(
                request, planning.ClusterRequest(backend or default, nodes), request.node
            )
            opened.callback(cluster.close)
            return cluster

        yield open_one


@pytest.fixture
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Return the test's cluster: fresh, unless @pytest.mark.cluster(scope=...) shares it."""
    # A cluster that is not ours to recreate lasts for the session.
    wanted_cluster = planning.cluster_request(request.node)
    backend = wanted_cluster.backend or request.config.stash[SETTINGS].kscen_cluster
    scope = wanted_cluster.scope if BACKENDS[backend].recreated else "session"
    wanted_cluster = planning.ClusterRequest(backend, wanted_cluster.nodes, scope)
    shared = scope != "function"
    cluster = (
        _shared(request, wanted_cluster) if shared else _open(request, wanted_cluster, request.node)
    )
    state = _state(request.node, cluster.chance.seed)
    state.cluster = cluster
    yield cluster
    state.cluster = None
    if not shared:
        cluster.close()


def session_reports(config: pytest.Config) -> list[Report]:
    """Return the reports of the session, made when they are first needed.

    Raises ExtensionError if one of them, of a package or of a hook, cannot be used.
    """
    reports = config.stash.setdefault(_REPORTS, [])
    if not reports:
        from pytest_kscen.report.registry import reports_for

        reports += reports_for(config, config.stash[SETTINGS].kscen_archive)
    return reports


def broken_extensions(config: pytest.Config) -> list[str]:
    """Import installed extensions and make the session's reports; return why some are of no use.

    Called before the first cluster: when tests are collected, or when a test first requests a
    cluster by `getfixturevalue`.
    """
    errors = load_extensions()
    if not errors:
        try:
            session_reports(config)
        except ExtensionError as error:
            errors.append(str(error))
    return errors


@pytest.fixture
def scenario_runner(request: pytest.FixtureRequest, cluster: Cluster) -> Iterator[ScenarioRunner]:
    """Return the runner of the plan of the test's markers, on the test's cluster."""
    from pytest_kscen.run.plan import ScenarioSettings
    from pytest_kscen.run.runner import ScenarioRunner

    item, settings = request.node, request.config.stash[SETTINGS]
    state = item.stash[_STATE]
    reports = session_reports(request.config)
    runner = state.runner = ScenarioRunner(
        cluster,
        planning.plan(item),
        default_duration=settings.kscen_duration,
        terms=ScenarioSettings(
            settings.disposable, settings.scenario_results, settings.scenario_patience
        ),
        parent=lambda: _parent(state, cluster, settings),
        test=ReportedTest(
            id=unique_id(item),
            seed=state.seed,
            options=_given_options(settings),
            command=command_to_repeat(item),
            folder=str(item.config.invocation_params.dir),
            properties=item.user_properties,
            summaries=state.summaries,
        ),
        reports=[*reports, _SessionStop(item)],
    )
    with contextlib.closing(runner):
        yield runner
        if runner.duration_unset:
            _use(state, DURATION)
        unseen_failure = runner.explain_unseen_failure()
        state.runner = None
    if markers.declares(item) and not runner.runs and state.ended == "passed":
        pytest.fail(
            "the test has not run what its markers declare: " + markers.HOW_TO_RUN, pytrace=False
        )
    if unseen_failure and state.ended != "failed" and not was_interrupted(item):
        pytest.fail(unseen_failure, pytrace=False)  # a test that failed needs no second failure


@pytest.fixture
def workflow(request: pytest.FixtureRequest, scenario_runner: ScenarioRunner) -> WorkflowHandle:
    """Play the workflow of @pytest.mark.workflow(file) to its end, and return it."""
    from pytest_kscen.run.workflows import play_to_end

    wanted_workflow = markers.workflow_request(request.node)
    if wanted_workflow is None:
        pytest.fail(
            "the fixture workflow plays what the test's @pytest.mark.workflow(file) names",
            pytrace=False,
        )
    with without_traceback():
        return play_to_end(
            scenario_runner,
            wanted_workflow.workflow,
            wanted_workflow.cast,
            within=wanted_workflow.within,
        )


class _SessionStop(Report):
    """End the session after a run that Ctrl-C or SIGTERM stopped.

    The session then ends by itself and is reported whole: the run's signal handlers stay until
    pytest's cleanup, so that another Ctrl-C does not cut the report off.
    """

    def __init__(self, item: pytest.Item) -> None:
        self._item = item

    def finish(self, run: ReportedRun) -> None:
        if run.signal_handlers and run.stopped():
            self._item.session.shouldstop = "a stop was requested"
            self._item.config.add_cleanup(run.signal_handlers.pop_all().close)


def finish_scenarios(item: pytest.Item) -> None:
    """End and report the scenarios of a test before the test's own report."""
    state = state_of(item)
    if state and state.runner and state.runner.played:
        state.runner.finish_scenarios()


def _use(state: ItemState, *options: Option) -> None:
    state.used_flags += [option.flag for option in options]


def _parent(state: ItemState, cluster: Cluster, settings: Settings) -> ParentCluster | None:
    """Open the parent cluster; a real cluster has none unless an option names one."""
    _use(state, PARENT_KUBECONFIG, VM_NAMESPACE)
    kubeconfig, namespace = settings.parent_kubeconfig, settings.vm_namespace
    if not BACKENDS[cluster.backend].recreated and not kubeconfig and not namespace:
        return None
    return cluster.parent(kubeconfig=kubeconfig, namespace=namespace)


def run_inside(item: pytest.Function) -> bool:
    """Run an `async def` test in the loop of its cluster; False if it has no cluster of ours."""
    state = state_of(item)
    cluster: Any = state.cluster if state else None
    if cluster is None:
        return False
    wanted = item._fixtureinfo.argnames  # noqa: SLF001  # pytest's own runner reads it too
    cluster.runner.call(item.obj(**{name: item.funcargs[name] for name in wanted}))
    return True


@contextlib.contextmanager
def without_traceback() -> Iterator[None]:
    """Fail the test with the message alone when a cluster or a preflight check refuses it."""
    from pytest_kscen.clusters import ClusterRefused
    from pytest_kscen.run.preflight import PreflightRefused

    try:
        yield
    except (ClusterRefused, PreflightRefused) as refusal:
        raise pytest.fail.Exception(str(refusal), pytrace=False) from None


def unique_id(node: pytest.Item | pytest.Collector) -> str:
    """Return pytest's id of a node, with a relative path if it is outside of the root directory.

    Outside of the root directory pytest's own ids have no path, and several tests share one.
    """
    root = node.config.rootpath
    if node.path.is_relative_to(root):
        return node.nodeid
    return _id_from(root, node)


def _id_from(folder: pathlib.Path, node: pytest.Item | pytest.Collector) -> str:
    _, colons, name = node.nodeid.partition("::")
    return f"{os.path.relpath(node.path, folder)}{colons}{name}"


def command_to_repeat(item: pytest.Item) -> str:
    """Return a command line that repeats the test when called where pytest was called.

    It names the tests that used its cluster before, its seed, and each option that was given.
    """
    config, settings = item.config, item.config.stash[SETTINGS]
    given, state = _given_options(settings), state_of(item)
    if state:
        given["--kscen-seed"] = state.seed
    given.pop("--kscen-archive", None)
    folder = config.invocation_params.dir
    tests = [*(state.earlier_tests if state else ()), _id_from(folder, item)]
    switched_off = [
        option for option in OPTIONS if option.is_switch and settings.of(option) is False
    ]
    return shlex.join(
        [
            *(
                f"{option.variable}={os.environ[option.variable]}"
                for option in switched_off
                if os.environ.get(option.variable) and config.getini(option.name)
            ),
            "pytest",
            *(("-c", config.option.inifilename) if config.option.inifilename else ()),
            *((f"--rootdir={config.option.rootdir}",) if config.option.rootdir else ()),
            *dict.fromkeys(tests),
            *(("-m", "controlplane") if item.get_closest_marker("controlplane") else ()),
            *(f"{flag}={value}" if value else flag for flag, value in given.items()),
        ]
    )


def _given_options(settings: Settings) -> dict[str, str]:
    """Return values by flags, as the command line writes them; a switch has an empty value."""
    values = {
        option: settings.given[option.flag] for option in OPTIONS if option.flag in settings.given
    }
    given = {
        option.flag: "" if option.is_switch else value.text
        for option, value in values.items()
        if value.value is not False
    }
    if settings.kscen_seed:
        given["--kscen-seed"] = settings.kscen_seed
    return given


def seed_of(owner: pytest.Item | pytest.Collector) -> str:
    """Return --kscen-seed, else the seed of the cluster owner's id.

    The owner is a test, a module or the session, by the cluster's scope.
    """
    from pytest_kscen.chance import seed_from

    return owner.config.stash[SETTINGS].kscen_seed or seed_from(unique_id(owner) or "session")


def _state(item: pytest.Item, seed: str) -> ItemState:
    """Return the test's state, made at its first cluster, with the seed of its latest one."""
    state = item.stash.setdefault(_STATE, ItemState(seed))
    state.seed = seed
    return state


def _open(
    request: pytest.FixtureRequest,
    wanted_cluster: planning.ClusterRequest,
    owner: pytest.Item | pytest.Collector,
) -> Cluster:
    from pytest_kscen.clusters import ClusterRefused, open_cluster

    if errors := broken_extensions(request.config):
        error = "\n".join(errors)
        if hasattr(request.config, "workerinput"):  # xdist takes no usage error from a worker
            request.session.shouldfail = error
            pytest.fail(error, pytrace=False)
        pytest.exit(error, pytest.ExitCode.USAGE_ERROR)
    settings = request.config.stash[SETTINGS]
    seed = _state(request.node, seed_of(owner)).seed
    backend = wanted_cluster.backend or settings.kscen_cluster
    try:
        return open_cluster(
            backend,
            seed=seed,
            nodes=wanted_cluster.nodes,
            kubeconfig=settings.kubeconfig,
            context=settings.kscen_context,
            kind=hold_kind_cluster(request.config) if backend == "kind" else None,
            parent_kubeconfig=settings.parent_kubeconfig,
            vm_namespace=settings.vm_namespace,
        )
    except ClusterRefused as refusal:
        why = str(refusal)
    pytest.fail(why, pytrace=False)


def hold_kind_cluster(config: pytest.Config, run: str = "") -> KindOptions:
    """Return the command line's options for kind; a created cluster exists until the session ends.

    With pytest-xdist the controller holds it, for all workers of the test run with the id `run`.
    """
    from pytest_kscen.clusters.kind import KindOptions, hold_cluster

    kind_options = KindOptions.of(
        config.getoption, run or getattr(config, "workerinput", {}).get("testrunuid", "")
    )
    if not config.stash.get(_KIND_HELD, False):
        config.stash[_KIND_HELD] = True
        config.add_cleanup(hold_cluster(kind_options))
    return kind_options


def _shared(request: pytest.FixtureRequest, wanted_cluster: planning.ClusterRequest) -> Cluster:
    """Return the cluster of this test's module or session, opened for its first test."""
    owner = (
        request.node.getparent(pytest.Module)
        if wanted_cluster.scope == "module"
        else request.session
    )
    clusters: dict[planning.ClusterRequest, tuple[Cluster, list[str]]] = owner.stash.setdefault(
        _SHARED_CLUSTERS, {}
    )
    if wanted_cluster not in clusters:
        clusters[wanted_cluster] = _open(request, wanted_cluster, owner), []
        # popped then, not now
        owner.addfinalizer(lambda: clusters.pop(wanted_cluster)[0].close())  # noqa: PLW0108
    cluster, tests = clusters[wanted_cluster]
    if (
        wanted_cluster.backend and BACKENDS[wanted_cluster.backend].recreated
    ):  # the history of any other cluster cannot be repeated
        _state(request.node, cluster.chance.seed).earlier_tests = tests.copy()
        tests.append(_id_from(request.config.invocation_params.dir, request.node))
    return cluster
