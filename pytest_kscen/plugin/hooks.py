"""Hooks that pytest calls.

Imports nothing heavy: engines are imported when a test first asks for a cluster.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, NamedTuple

import pytest

from pytest_kscen.plugin import markers, options
from pytest_kscen.plugin.option_values import misspelt

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Generator, Iterator

RUNS, ASKED_FOR = "kscen_runs", "kscen_flags_asked_for"
FILES_OF_TESTS = tuple(
    f".{word}.{ending}" for word in ("scenario", "workflow") for ending in ("yaml", "yml")
)
IDLE = pytest.StashKey[list[str]]()


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    options.register(parser, pluginmanager)


def pytest_configure(config: pytest.Config) -> None:
    for line in markers.MARKERS:
        config.addinivalue_line("markers", line)
    settings = options.settle(config)
    config.stash[options.SETTINGS] = options.with_seed_drawn(
        settings, getattr(config, "workerinput", {})
    )
    config.pluginmanager.import_plugin("pytest_kscen.plugin.fixtures")


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: object) -> None:
    """pytest-xdist: a worker tests with the seed that the controller drew; a kind cluster
    outlives its workers.
    """
    config, workerinput = node.config, node.workerinput  # type: ignore[attr-defined]
    settings = config.stash[options.SETTINGS]
    workerinput[options.SEED_FOR_WORKERS] = settings.kscen_seed
    if settings.kscen_cluster == "kind":
        from pytest_kscen.plugin.fixtures import keep_kind_cluster

        keep_kind_cluster(config, workerinput["testrunuid"])


def pytest_report_header(config: pytest.Config) -> list[str]:
    settings = config.stash[options.SETTINGS]
    seed = settings.kscen_seed or "each test's own"
    said = [f"{settings.kscen_cluster} cluster, seed {seed}", *misspelt(options.OPTIONS)]
    return [f"kscen: {line}" for line in said]


def pytest_collect_file(
    file_path: pathlib.Path, parent: pytest.Collector
) -> pytest.Collector | None:
    """A file of Scenarios, or of Workflows, is a file of tests."""
    if not file_path.name.endswith(FILES_OF_TESTS):
        return None
    from pytest_kscen.plugin.collection import file_of_tests

    return file_of_tests(file_path, parent)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(session: pytest.Session, items: list[pytest.Item]) -> None:
    complaints = "\n".join(markers.check(items))
    if complaints and hasattr(
        session.config, "workerinput"
    ):  # pytest-xdist's controller takes no usage error from a worker
        items.clear()
        session.shouldfail = complaints
    elif complaints:
        raise pytest.UsageError(complaints)
    session.config.stash[IDLE] = [] if complaints else markers.idle(items)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """An `async def` test lives inside its cluster's loop."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    from pytest_kscen.plugin.fixtures import runs_inside

    return runs_inside(pyfuncitem) or None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Who is interrupted, or ends the session, gets no report of its own, and is cleared away
    when the session is.
    """
    try:
        return (yield)
    except (KeyboardInterrupt, pytest.exit.Exception):
        from pytest_kscen.plugin.fixtures import CUT_OFF

        item.config.stash[CUT_OFF] = item
        raise


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    from pytest_kscen.plugin.fixtures import curtain, is_ours, without_traceback

    if not is_ours(item):
        return (yield)
    with without_traceback():
        try:
            return (yield)
        finally:
            curtain(item)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    from pytest_kscen.plugin.fixtures import ASKED, ENDED, RUNS_TOLD, how_to_run_again, is_ours

    if call.excinfo and is_ours(item) and not item.config.getoption("fulltrace"):
        from pytest_kscen.plugin.tracebacks import shorten

        shorten(call.excinfo.value)
    report = yield
    if call.when == "call":
        item.stash[ENDED] = report.outcome
    if report.failed and is_ours(item):
        report.sections.append(("run it again", how_to_run_again(item)))
    if call.when == "teardown" and RUNS_TOLD in item.stash:
        report.__dict__[RUNS] = item.stash[
            RUNS_TOLD
        ]  # what a report has travels with it, from pytest-xdist's workers too
        report.__dict__[ASKED_FOR] = item.stash.get(ASKED, [])
    return report


class Told(NamedTuple):
    """A test's runs, for the terminal."""

    test: str
    runs: list[list[str]]
    asked: list[str]
    """The flags for which they have asked."""


def _told(terminalreporter: pytest.TerminalReporter) -> Iterator[Told]:
    """What the tests' reports carry; whoever was cut off has none, but is of this process."""
    from pytest_kscen.plugin.fixtures import ASKED, CUT_OFF, RUNS_TOLD

    for report in (
        report
        for kind in terminalreporter.stats.values()
        for report in kind
        if getattr(report, RUNS, ())
    ):
        yield Told(report.nodeid, getattr(report, RUNS), getattr(report, ASKED_FOR))
    item = terminalreporter.config.stash.get(CUT_OFF, None)
    if item and RUNS_TOLD in item.stash:
        yield Told(item.nodeid, item.stash[RUNS_TOLD], item.stash.get(ASKED, []))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What came of each run, of a quiet session its headline alone; and the flags that nothing
    came of.
    """
    told = list(_told(terminalreporter))
    if told:
        terminalreporter.section("kscen runs")
    for test in told:
        for headline, *lines in test.runs:
            terminalreporter.write_line(f"{test.test}: {headline}")
            for line in lines if terminalreporter.verbosity >= 0 else ():
                terminalreporter.write_line(line)
    idle = [*misspelt(options.OPTIONS), *terminalreporter.config.stash.get(IDLE, ())]
    if told:
        idle += markers.idle_in_runs(
            terminalreporter.config, {flag for test in told for flag in test.asked}
        )
    if idle:
        terminalreporter.section("kscen flags", yellow=True)
    for line in idle:
        terminalreporter.write_line(line)
