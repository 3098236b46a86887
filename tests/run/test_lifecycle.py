"""Life cycle table: each test reads the expected phases of a run from it."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import io
import os
import pathlib
import signal

import pytest
from listing import objects

from pytest_kscen.chaos.profiles import NetworkBlock
from pytest_kscen.clock import ActorCrashedError
from pytest_kscen.journal import JournalLost
from pytest_kscen.kube.in_process import InProcessApi
from pytest_kscen.kube.leases import holder_of
from pytest_kscen.megatest.churn import Churn
from pytest_kscen.objects.resources import CILIUM_NETWORK_POLICIES, CONFIG_MAPS, LEASES
from pytest_kscen.objects.storage import REPLICATED_VOLUMES
from pytest_kscen.report.protocol import Report
from pytest_kscen.run.chaos_lease import NAME as CHAOS_LEASE
from pytest_kscen.run.lifecycle import RunLifecycle
from pytest_kscen.run.phases import INTERRUPTIONS, PHASES, Interruption, Phase, drawing
from pytest_kscen.run.plan import Plan
from pytest_kscen.run.preflight import PreflightRefused
from pytest_kscen.run.runner import ScenarioRunner

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "run-life-cycle.md"
BEGIN, END = "<!-- generated: python -m pytest_kscen.run.phases -->\n", "\n<!-- end -->"
CHURN = Plan(Churn(max_volumes=2))


def path_of_the_table(first=Phase.PREPARED, last=Phase.OVER):
    path = [first]
    while path[-1] is not last:
        path.append(PHASES[path[-1]].next)
    return path


def own_entries(run):
    """The journal's entries that the table lists, of phases and of interruptions."""
    phases = {entry for row in PHASES.values() for entry in row.records}
    others = {row.records for row in INTERRUPTIONS.values()}
    return [
        entry.what
        for entry in run.journal
        if entry.actor == "run" and entry.what in phases | others
    ]


def entries_of_the_table(*more):
    """Entries of a run without faults, with these among them before the phase `frozen`."""
    listing = [entry for phase in path_of_the_table() for entry in PHASES[phase].records]
    listing.remove("incident-lasting")
    listing[1:1] = more
    return listing


def press(cluster, *seconds):
    for when in seconds:
        cluster.runner.loop.call_later(when, os.kill, os.getpid(), signal.SIGINT)


def played(runner):
    (run,) = runner.runs
    return run


def test_run_passes_all_phases_in_the_order_of_the_table(runner_of):
    runner = runner_of(CHURN)
    runner.run("2m")
    run = played(runner)
    assert run.life.passed == path_of_the_table()
    assert own_entries(run) == entries_of_the_table()
    state = run.life.state
    given = {name for row in PHASES.values() for name in row.signals}
    assert all(getattr(state, name).given for name in given)
    assert not state.stop_requested.given
    assert not state.volumes_abandoned.given


def test_order_of_phases_signals_and_entries(runner_of, monkeypatch):
    seen = []
    enter, give = RunLifecycle._enter, RunLifecycle._give

    async def _enter(life, phase):
        seen.append(phase.value)
        await enter(life, phase)

    def _give(life, signals):
        seen.extend(f"signal {name}" for name in signals)
        give(life, signals)

    monkeypatch.setattr(RunLifecycle, "_enter", _enter)
    monkeypatch.setattr(RunLifecycle, "_give", _give)
    runner = runner_of(CHURN)
    runner.run("2m")
    assert seen == [
        "preflight",
        "lease",
        "starting",
        "active",
        "frozen",
        "signal counters_frozen",
        "healing",
        "signal chaos_stopped",
        "liveness",
        "undoing",
        "cleanup",
        "signal cleanup_started",
        "leftovers",
        "released",
        "over",
    ]
    written = [entry.what for entry in played(runner).journal if entry.actor == "run"]
    assert written == ["run-started", "frozen", "healed", "liveness", "leftovers", "run-ended"]


def test_faults_left_on_are_undone_and_applied_objects_deleted_newest_first(
    cluster, runner_of, monkeypatch
):
    deleted, delete = [], InProcessApi.delete

    async def delete_(api, resource, name, *arguments, **options):
        if resource == CONFIG_MAPS:
            deleted.append(name)
        return await delete(api, resource, name, *arguments, **options)

    monkeypatch.setattr(InProcessApi, "delete", delete_)
    with runner_of() as run:
        for name in ("older", "newer"):
            run.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
        run.chaos.network_block("node-1", "node-2")
        run.chaos.vm_stop("node-3")
        run.advance("1m")
    started = [e.data["incident"] for e in run.journal if e.what == "incident-started"]
    removed = [e.data["incident"] for e in run.journal if e.what == "incident-ended"]
    assert len(started) == 2
    assert removed == started[::-1]
    assert deleted == ["newer", "older"]


STEPS = (
    Phase.FROZEN,
    Phase.HEALING,
    Phase.LIVENESS,
    Phase.UNDOING,
    Phase.CLEANUP,
    Phase.LEFTOVERS,
    Phase.RELEASED,
)


async def break_off(life, cluster):
    """Raise in the step, or in the cluster's loop while the step waits."""
    if life.phase is Phase.RELEASED:
        await life.lease.release()
    if cluster:
        cluster.runner.loop.call_soon(interrupt)
        await life.context.clock.sleep(1)
    interrupt()


def interrupt():
    raise KeyboardInterrupt("the first error")


def chaos_lease_holders(cluster, parent):
    leases = objects(cluster, LEASES, parent.api_for("test"))
    return [holder_of(lease) for lease in leases if lease["metadata"]["name"] == CHAOS_LEASE]


@pytest.mark.parametrize("from_outside", [False, True], ids=["in the step", "in the loop"])
@pytest.mark.parametrize("phase", STEPS, ids=lambda phase: phase.value)
def test_interrupted_end_cleans_up_and_releases_the_lease(
    cluster, monkeypatch, phase, from_outside
):
    parent = dataclasses.replace(cluster.parent(kubeconfig=None, namespace=""), owned=False)
    runner = ScenarioRunner(cluster, Plan(Churn(max_volumes=2)), parent=lambda: parent)
    attempted = []

    def breaking(each, real):
        async def step(life):
            attempted.append(each)
            if each is phase:
                await break_off(life, cluster if from_outside else None)
            await real(life)

        return step

    def body(run):
        run.chaos.network_block("node-1", "node-2")
        assert all(chaos_lease_holders(cluster, parent))
        run.advance("1m")

    for each in STEPS:
        step = breaking(each, PHASES[each].step)
        monkeypatch.setitem(PHASES, each, dataclasses.replace(PHASES[each], step=step))
    with pytest.raises(KeyboardInterrupt, match="the first error"), runner as run:
        body(run)
    skipped = {Phase.LIVENESS} if phase is Phase.HEALING else set()
    assert attempted == [each for each in STEPS if each not in skipped]
    assert run.life.phase is Phase.OVER
    assert [entry.what for entry in run.journal if entry.actor == "run"][-1] == "run-ended"
    assert not any(chaos_lease_holders(cluster, parent))
    assert run.outcome.verdict == "unknown"
    if phase is not Phase.CLEANUP:
        assert objects(cluster, REPLICATED_VOLUMES) == []
        assert objects(cluster, CILIUM_NETWORK_POLICIES, parent.api_for("test")) == []
    runner.close()


def test_end_broken_off_before_its_first_phase_passes_all_phases(cluster, runner_of):
    def body(run):
        run.advance("1m")
        cluster.runner.loop.call_soon(interrupt)

    with pytest.raises(KeyboardInterrupt, match="the first error"), runner_of(CHURN) as run:
        body(run)
    assert run.life.passed == path_of_the_table()
    assert run.outcome.verdict == "valid"
    assert objects(cluster, REPLICATED_VOLUMES) == []


CRASHES = [
    ("cluster_crashed", ActorCrashedError("kubelet", KeyError("spec")), "cluster"),
    ("journal_lost", JournalLost("no room"), "journal"),
]


@pytest.mark.parametrize(("method", "error", "component"), CRASHES)
@pytest.mark.parametrize("storage_class", ["availability", "no-such-class"])
def test_crash_after_the_last_phase_is_recorded(runner_of, storage_class, method, error, component):
    runner = runner_of(Plan(Churn(max_volumes=1, storage_classes=(storage_class,))))
    with contextlib.suppress(PreflightRefused):
        runner.run("1m")
    run = played(runner)
    over = storage_class == "availability"
    assert run.life.phase is (Phase.OVER if over else Phase.REFUSED)
    getattr(run.life, method)(error)
    last = list(run.journal)[-1]
    assert (last.what, last.data["component"]) == ("crashed", component)
    assert not run.life.is_running


@pytest.mark.parametrize("storage_class", ["availability", "no-such-class"])
def test_ctrl_c_after_the_last_phase_changes_nothing(runner_of, storage_class):
    runner = runner_of(Plan(Churn(max_volumes=1, storage_classes=(storage_class,))))
    with contextlib.suppress(PreflightRefused):
        runner.run("1m")
    run = played(runner)
    written = list(run.journal)
    assert not run.life.stop()
    assert not run.life.hurry()
    assert list(run.journal) == written
    assert run.life.is_running


def test_first_crash_is_the_one_that_is_raised(runner_of):
    def body(run):
        run.life.cluster_crashed(KeyError("first"))
        run.life.cluster_crashed(KeyError("second"))

    with pytest.raises(KeyError, match="first"), runner_of(CHURN) as run:
        body(run)
    errors = [entry.data["error"] for entry in run.journal if entry.what == "crashed"]
    assert errors == ["KeyError('first')", "KeyError('second')"]


def test_crash_and_second_ctrl_c_keep_the_volumes(cluster, runner_of):
    runner = runner_of(CHURN)

    def crash():
        played(runner).life.cluster_crashed(KeyError("spec"))

    cluster.runner.loop.call_later(300, crash)
    press(cluster, 300, 300)
    with pytest.raises(KeyError, match="spec"):
        runner.run("1h")
    assert objects(cluster, REPLICATED_VOLUMES)
    assert played(runner).outcome.leftovers


def test_broken_off_step_ends_before_the_next_phase(cluster, runner_of, monkeypatch):
    done = []

    async def wait(life):
        try:
            cluster.runner.loop.call_soon(interrupt)
            await life.context.clock.sleep(1000)
        finally:
            await life.context.clock.sleep(5)
            done.append("liveness")

    async def undo(_):
        done.append("undoing")

    for phase, step in ((Phase.LIVENESS, wait), (Phase.UNDOING, undo)):
        monkeypatch.setitem(PHASES, phase, dataclasses.replace(PHASES[phase], step=step))
    with pytest.raises(KeyboardInterrupt, match="the first error"), runner_of():
        pass
    assert done == ["liveness", "undoing"]


def test_companions_are_healed_in_order_and_cleared_newest_first(runner_of):
    done = []

    class Recorder:
        def __init__(self, name):
            self.name = name

        async def heal(self):
            done.append(f"heal {self.name}")

        async def clear(self):
            done.append(f"clear {self.name}")

    with runner_of() as run:
        run.life.companions += [Recorder("older"), Recorder("newer")]
    assert done == ["heal older", "heal newer", "clear newer", "clear older"]


@pytest.mark.parametrize("replayable", [True, False])
def test_run_that_cannot_be_replayed_has_an_entry(cluster, runner_of, monkeypatch, replayable):
    monkeypatch.setattr(type(cluster), "replayable", replayable)
    with runner_of() as run:
        pass
    entries = [entry for entry in run.journal if entry.what == "not-replayable"]
    assert [entry.actor for entry in entries] == ([] if replayable else ["run"])
    assert run.outcome.replayable is replayable


def test_phases_whose_signals_are_given_by_then(runner_of):
    with runner_of(CHURN) as run:
        run.advance("1m")
        assert run.life.phase is Phase.ACTIVE
        given = [name for row in PHASES.values() for name in row.signals]
        assert not any(getattr(run.life.state, name).given for name in given)


def test_failing_step_is_recorded_and_the_run_passes_all_other_phases(runner_of, monkeypatch):
    async def fail(_):
        raise KeyError("uid")

    monkeypatch.setattr("pytest_kscen.run.context.AppliedObjects.heal", fail)
    runner = runner_of(CHURN)
    with pytest.raises(KeyError, match="uid"):
        runner.run("2m")
    run = played(runner)
    row = INTERRUPTIONS[Interruption.FAILED_STEP]
    assert run.life.passed == path_of_the_table()
    entries = entries_of_the_table()
    entries.insert(entries.index("healed"), row.records)
    assert own_entries(run) == entries
    assert run.life.is_running is not bool(row.signals)
    assert row.raised


def test_first_ctrl_c_ends_the_active_phase_alone(cluster, runner_of):
    press(cluster, 60)
    runner = runner_of(CHURN)
    assert runner.run("1h").stopped_early
    run = played(runner)
    row = INTERRUPTIONS[Interruption.STOP]
    assert run.life.passed == path_of_the_table()
    assert own_entries(run) == entries_of_the_table(row.records)
    assert all(getattr(run.life.state, name).given for name in row.signals)
    assert not row.raised


def test_second_ctrl_c_abandons_the_volumes_and_skips_liveness(cluster, runner_of):
    press(cluster, 60, 60)
    runner = runner_of(CHURN)
    runner.run("1h")
    run = played(runner)
    stop, hurry = (INTERRUPTIONS[kind].records for kind in (Interruption.STOP, Interruption.HURRY))
    assert run.life.passed == path_of_the_table()
    assert set(entries_of_the_table(stop, hurry)) - set(own_entries(run)) == {"liveness"}
    assert run.life.state.volumes_abandoned.given
    assert run.outcome.leftovers


def test_crash_of_an_actor_ends_the_active_phase_and_is_raised(runner_of, monkeypatch):
    async def draw(*_):
        raise KeyError("status")

    monkeypatch.setattr("pytest_kscen.chaos.network_blocks.draw_block", draw)
    runner = runner_of(Plan(chaos=(NetworkBlock(period=(60.0, 60.0)),)))
    with pytest.raises(KeyError, match="status"):
        runner.run("3h")
    run = played(runner)
    row = INTERRUPTIONS[Interruption.ACTOR_CRASH]
    assert run.life.passed == path_of_the_table()
    assert own_entries(run) == entries_of_the_table(row.records)
    assert all(getattr(run.life.state, name).given for name in row.signals)
    assert row.raised
    assert not run.life.interrupted


class FullDisk(io.BytesIO):
    def write(self, _):
        raise OSError(errno.ENOSPC, "No space left on device")


def test_lost_journal_ends_the_active_phase_and_is_raised(cluster, runner_of):
    runner = runner_of(CHURN)

    def fill():
        played(runner).journal._file = FullDisk()

    cluster.runner.loop.call_later(90, fill)
    with pytest.raises(JournalLost, match="No space left on device"):
        runner.run("3h")
    run = played(runner)
    assert run.life.passed == path_of_the_table()
    assert run.life.state.stop_requested.given
    assert INTERRUPTIONS[Interruption.LOST_JOURNAL].raised


def test_refused_start_leads_to_the_phase_refused(runner_of):
    runner = runner_of(Plan(Churn(storage_classes=("no-such-class",))))
    with pytest.raises(PreflightRefused, match="no-such-class"):
        runner.run("2m")
    run = played(runner)
    assert run.life.passed == [
        *path_of_the_table(last=Phase.PREFLIGHT),
        PHASES[Phase.PREFLIGHT].on_refusal,
    ]
    assert run.life.phase is Phase.REFUSED
    assert own_entries(run) == list(PHASES[Phase.PREFLIGHT].records)


def test_report_that_fails_at_the_start_refuses_the_run(runner_of):
    class UnwritableReport(Report):
        def start(self, run):
            raise ValueError("no room")

    runner = runner_of(CHURN, reports=[UnwritableReport()])
    with pytest.raises(ValueError, match="no room"):
        runner.run("2m")
    assert played(runner).life.passed == [*path_of_the_table(last=Phase.STARTING), Phase.REFUSED]


def test_phase_writes_only_what_its_row_lists(runner_of):
    with runner_of(CHURN) as run, pytest.raises(RuntimeError, match="active writes no entry"):
        run.life.record("frozen")


def test_phase_that_refuses_the_interruption_passes_the_error_of_an_attempt_on(runner_of):
    async def fail():
        raise KeyError("uid")

    with runner_of(CHURN) as run, pytest.raises(KeyError, match="uid"):
        run.do(run.life._attempt("a part", fail()))


def test_interruption_not_listed_in_the_row_changes_nothing(runner_of):
    runner = runner_of(CHURN)
    runner.run("2m")
    run = played(runner)
    before = own_entries(run)
    assert not run.life.stop()
    assert not run.life.hurry()
    assert own_entries(run) == before
    assert not run.life.interrupted
    assert not run.life.state.volumes_abandoned.given


def test_page_has_the_table_as_executed():
    text = PAGE.read_text()
    assert text[text.index(BEGIN) + len(BEGIN) : text.index(END)] == drawing()
