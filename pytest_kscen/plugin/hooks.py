"""Hooks that pytest calls.

Nothing heavy may be imported at load time: engines are imported when a test requests a cluster.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, NamedTuple

import pytest

from pytest_kscen.extensions import ExtensionError
from pytest_kscen.plugin import hookspecs, markers, options
from pytest_kscen.plugin.contributions import check_extensions, collect_extensions
from pytest_kscen.plugin.option_values import misspelt

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Generator, Iterator

SUMMARIES, USED_FLAGS = "kscen_runs", "kscen_flags_asked_for"
"""Attributes of a test's report, which pytest-xdist's workers send to their controller."""
TEST_FILES = tuple(
    f".{word}.{ending}" for word in ("scenario", "workflow") for ending in ("yaml", "yml")
)
CLUSTER_FIXTURES = {"cluster", "cluster_factory", "scenario_runner", "workflow"}
_UNUSED_FLAGS = pytest.StashKey[list[str]]()
"""Session-wide: lines about flags that no selected test uses."""


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    pluginmanager.add_hookspecs(hookspecs)


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    options.register(parser, pluginmanager)
    collect_extensions(parser, pluginmanager)


def pytest_configure(config: pytest.Config) -> None:
    for line in markers.MARKERS:
        config.addinivalue_line("markers", line)
    check_extensions(config)
    try:
        settings = options.settle(config)
    except ExtensionError as error:
        raise pytest.UsageError(str(error)) from error
    config.stash[options.SETTINGS] = options.with_seed_drawn(
        settings, getattr(config, "workerinput", {})
    )
    config.pluginmanager.import_plugin("pytest_kscen.plugin.fixtures")


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: object) -> None:
    """Pass pytest-xdist's worker the seed that the controller drew; hold a kind cluster for all."""
    config, workerinput = node.config, node.workerinput  # type: ignore[attr-defined]
    settings = config.stash[options.SETTINGS]
    workerinput[options.SEED_FOR_WORKERS] = settings.kscen_seed
    if settings.kscen_cluster == "kind":
        from pytest_kscen.plugin.fixtures import hold_kind_cluster

        hold_kind_cluster(config, workerinput["testrunuid"])


def pytest_report_header(config: pytest.Config) -> list[str]:
    settings = config.stash[options.SETTINGS]
    seed = settings.kscen_seed or "each test's own"
    lines = [f"{settings.kscen_cluster} cluster, seed {seed}", *misspelt(options.OPTIONS)]
    return [f"kscen: {line}" for line in lines]


def pytest_collect_file(
    file_path: pathlib.Path, parent: pytest.Collector
) -> pytest.Collector | None:
    """Collect a file of Scenarios or of Workflows."""
    if not file_path.name.endswith(TEST_FILES):
        return None
    from pytest_kscen.plugin.collection import file_of_tests

    return file_of_tests(file_path, parent)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(session: pytest.Session, items: list[pytest.Item]) -> None:
    complaints = "\n".join([*markers.check(items), *_broken_extensions(session.config, items)])
    if complaints and hasattr(session.config, "workerinput"):
        # pytest-xdist's controller takes no usage error from a worker
        items.clear()
        session.shouldfail = complaints
    elif complaints:
        raise pytest.UsageError(complaints)
    session.config.stash[_UNUSED_FLAGS] = [] if complaints else markers.idle(items)


def _broken_extensions(config: pytest.Config, items: list[pytest.Item]) -> list[str]:
    """Return messages about extensions that cannot be used, if any test needs a cluster."""
    fixtures = {name for item in items for name in getattr(item, "fixturenames", ())}
    if not fixtures & CLUSTER_FIXTURES and not any(
        item.path.name.endswith(TEST_FILES) for item in items
    ):
        return []
    from pytest_kscen.plugin.fixtures import broken_extensions

    return broken_extensions(config)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run an `async def` test inside its cluster's loop."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    from pytest_kscen.plugin.fixtures import run_inside

    return run_inside(pyfuncitem) or None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Keep the test in which the session is interrupted: pytest makes no report of it."""
    try:
        return (yield)
    except (KeyboardInterrupt, pytest.exit.Exception):
        from pytest_kscen.plugin.fixtures import INTERRUPTED_TEST

        item.config.stash[INTERRUPTED_TEST] = item
        raise


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    from pytest_kscen.plugin.fixtures import finish_scenarios, state_of, without_traceback

    if state_of(item) is None:
        return (yield)
    with without_traceback():
        try:
            return (yield)
        finally:
            finish_scenarios(item)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the command that repeats a failed test, and the summaries of the test's runs."""
    from pytest_kscen.plugin.fixtures import command_to_repeat, state_of

    state = state_of(item)
    if state and call.excinfo and not item.config.getoption("fulltrace"):
        from pytest_kscen.plugin.tracebacks import shorten

        shorten(call.excinfo.value)
    report = yield
    state = state_of(item)
    if state is None:
        return report
    if call.when == "call":
        state.ended = report.outcome
    if report.failed:
        report.sections.append(("run it again", command_to_repeat(item)))
    if call.when == "teardown" and state.summaries:
        report.__dict__[SUMMARIES] = state.summaries
        report.__dict__[USED_FLAGS] = state.used_flags
    return report


class RunsOfTest(NamedTuple):
    """Runs of one test, for the terminal's summary."""

    test: str
    runs: list[list[str]]
    used_flags: list[str]


def _summaries(terminalreporter: pytest.TerminalReporter) -> Iterator[RunsOfTest]:
    """Yield what tests' reports carry, and last the interrupted test, which has no report."""
    from pytest_kscen.plugin.fixtures import INTERRUPTED_TEST, state_of

    for reports in terminalreporter.stats.values():
        for report in reports:
            if runs := getattr(report, SUMMARIES, ()):
                yield RunsOfTest(report.nodeid, runs, getattr(report, USED_FLAGS))
    item = terminalreporter.config.stash.get(INTERRUPTED_TEST, None)
    state = state_of(item) if item else None
    if item and state and state.summaries:
        yield RunsOfTest(item.nodeid, state.summaries, state.used_flags)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Write the summary of each run, with -q its headline alone, and the flags without effect."""
    summaries = list(_summaries(terminalreporter))
    if summaries:
        terminalreporter.section("kscen runs")
    for summary in summaries:
        for headline, *lines in summary.runs:
            terminalreporter.write_line(f"{summary.test}: {headline}")
            for line in lines if terminalreporter.verbosity >= 0 else ():
                terminalreporter.write_line(line)
    unused = [*misspelt(options.OPTIONS), *terminalreporter.config.stash.get(_UNUSED_FLAGS, ())]
    if summaries:
        unused += markers.idle_in_runs(
            terminalreporter.config, {flag for each in summaries for flag in each.used_flags}
        )
    if unused:
        terminalreporter.section("kscen flags", yellow=True)
    for line in unused:
        terminalreporter.write_line(line)
