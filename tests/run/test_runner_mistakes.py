"""Misuse of scenario_runner and its messages."""

from __future__ import annotations

import contextlib
from datetime import timedelta

import pytest

from pytest_kscen.chaos.profiles import NetworkBlock, VmReboot
from pytest_kscen.clusters.embedded import EmbeddedCluster
from pytest_kscen.kube.in_process import InProcessApi
from pytest_kscen.megatest.churn import Churn
from pytest_kscen.objects.errors import ServiceUnavailable
from pytest_kscen.objects.scenarios import SCENARIOS
from pytest_kscen.report.protocol import Report
from pytest_kscen.run.plan import Plan, PlanWarning
from pytest_kscen.run.preflight import PreflightRefused
from pytest_kscen.run.runner import ScenarioRunner

CONFIG_MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "late"}}


@pytest.fixture
def runner():
    cluster = EmbeddedCluster("mistakes", nodes=1)
    runner = ScenarioRunner(cluster, Plan(), parent=cluster.parent)
    yield runner
    runner.close()
    cluster.close()


@pytest.mark.parametrize("duration", [0, "0s", -1, "-5m"])
def test_run_needs_a_duration(runner, duration):
    with pytest.raises(
        ValueError,
        match=r"write seconds, zero or more|a run needs time: give more than zero, as in '90s'",
    ):
        runner.run(duration)
    assert runner.runs == []


@pytest.mark.parametrize("given", [None, True, [30], b"30s", -1])
@pytest.mark.parametrize(
    "act",
    [
        lambda run, given: run.advance(given),
        lambda run, given: run.until(lambda: True, given),
    ],
)
def test_invalid_duration_is_refused(runner, act, given):
    with runner as run:
        then, before = runner.cluster.now, run.journal.entries
        with pytest.raises(ValueError, match=" is not a length of time: write seconds"):
            act(run, given)
        assert (runner.cluster.now, run.journal.entries) == (then, before)


@pytest.mark.parametrize("given", [30, 30.0, "30s", " 30s ", timedelta(seconds=30)])
def test_each_form_of_a_duration(runner, given):
    with runner as run:
        then = runner.cluster.now
        run.advance(given)
        assert runner.cluster.now - then == 30
        with pytest.raises(TimeoutError):
            run.until(lambda: False, given)
        assert runner.cluster.now - then == 60


def test_run_too_short_for_an_incident(runner):
    runner.plan = Plan(chaos=(VmReboot(),))
    with pytest.warns(
        PlanWarning,
        match=(
            r"^vm-reboot: no incident in 5m \(first one due after 5m\)\. Run longer or set period="
        ),
    ):
        outcome = runner.run("5m")
    assert (outcome.verdict, outcome.incidents) == ("unknown", [])


def test_run_too_short_for_the_pod_destroyer_of_churn():
    plan = Plan(Churn(pod_destroyer=True))
    assert list(plan.explain_ineffective(31)) == []
    (message,) = plan.explain_ineffective(30)
    assert message == (
        "volume_churn's pod_destroyer: no incident in 30s (first one due after 30s). "
        'Run longer or declare chaos("pod-destroy", period=...) in its place.'
    )


HASTY = (
    "vm-reboot: the period's least value is below 5m: a machine that takes longer to boot is "
    "restarted again and again: "
    "leave the period out, or give 5m or more"
)


def begun_by_hand(runner):
    with runner:
        pass


@pytest.mark.parametrize("begin", [lambda runner: runner.run("10s"), begun_by_hand])
def test_run_restarting_machines_too_often(runner, begin):
    runner.plan = Plan(chaos=(VmReboot((5.0, 5.0)),))
    with pytest.warns(PlanWarning, match=f"^{HASTY}$") as warned:
        begin(runner)
    assert [each.filename for each in warned] == [__file__]


@pytest.mark.parametrize("period", [None, (300.0, 360.0)])
def test_machines_with_a_period_of_five_minutes(period):
    assert list(Plan(chaos=(VmReboot(period),)).profile_warnings) == []


def test_link_of_a_volume_cannot_be_cut_without_volumes():
    isolated_command = NetworkBlock(variants=("blocking-drbd",))
    (message,) = Plan(chaos=(isolated_command,)).explain_ineffective(600)
    assert message == (
        "network-block has no incident in this run unless the cluster has volumes "
        "already: blocking-drbd, its only variant, "
        "cuts a volume's link, and the plan makes none: declare volume_churn, or give "
        "other variants too"
    )
    for plan in Plan(Churn(), (isolated_command,)), Plan(chaos=(NetworkBlock(),)):
        assert list(plan.explain_ineffective(600)) == []


def test_run_without_declarations(runner):
    with pytest.warns(
        PlanWarning,
        match=(
            r"^nothing is declared: this run makes no volumes and does no chaos: mark the "
            r"test with"
        ),
    ):
        runner.run("1m")


@pytest.mark.filterwarnings("ignore:nothing is declared")
def test_runs_do_not_nest(runner):
    with runner as run:
        with pytest.raises(
            RuntimeError, match="a run is on: act on what `with scenario_runner as run` gave"
        ):
            runner.run("1m")
        with pytest.raises(RuntimeError, match="a run is on"), runner:
            pass
        run.advance("1m")
    assert runner.run("1m").verdict == run.outcome.verdict == "valid"


@pytest.mark.parametrize(
    "act",
    [
        lambda run: run.volumes.create("availability"),
        lambda run: run.chaos.vm_stop("node-1"),
        lambda run: run.apply(CONFIG_MAP),
        lambda run: run.workflow({}),
        lambda run: run.schedule({}),
        lambda run: run.workflows.drive(),
        lambda run: run.workflows.claim(),
        lambda run: run.advance("1m"),
        lambda run: run.until(lambda: True),
    ],
)
def test_finished_run_does_nothing(runner, act):
    with runner as run:
        pass
    then, entries = runner.cluster.now, run.journal.entries
    with pytest.raises(RuntimeError, match=r"^the run is over: act on it inside its `with` block"):
        act(run)
    assert (runner.cluster.now, run.journal.entries, run.outcome.verdict) == (
        then,
        entries,
        "valid",
    )


@pytest.mark.filterwarnings("ignore:nothing is declared")
def test_async_test_is_refused(runner):
    async def test():
        runner.run("1m")

    with pytest.raises(RuntimeError, match="make the test a plain `def`"):
        runner.cluster.runner.call(test())
    assert runner.run("1m").verdict == "valid"


def test_cluster_without_nodes():
    cluster = EmbeddedCluster("nobody", nodes=0)
    with (
        contextlib.closing(cluster),
        pytest.raises(PreflightRefused, match=r"^the cluster has no nodes for the storage"),
    ):
        ScenarioRunner(cluster, Plan(Churn())).run("1m")


@pytest.mark.parametrize("by", ["run", "cluster"])
def test_condition_that_was_called(runner, by):
    with (
        runner as run,
        pytest.raises(
            TypeError,
            match=(
                r"^until\(False\): pass the condition itself, as in until\(volume.ready\), "
                r"not its present"
            ),
        ),
    ):
        (run if by == "run" else runner.cluster).until(False)


class Numbers(Report):
    def __init__(self):
        self.seen = []

    def prepare(self, run):
        self.seen.append(run.number)


def test_run_refused_by_the_storage_keeps_its_number(runner_of, monkeypatch):
    numbers = Numbers()
    runner = runner_of(reports=[numbers])

    def refuse(*_):
        raise ValueError("another generation is installed")

    with monkeypatch.context() as patched:
        patched.setattr("pytest_kscen.run.runner.bring_storage", refuse)
        with pytest.raises(ValueError, match="another generation"):
            runner.__enter__()
    with runner:
        pass
    assert numbers.seen == [1, 2]


def test_scenario_refused_after_its_report_started_keeps_its_number(runner_of, monkeypatch):
    numbers = Numbers()
    runner = runner_of(reports=[numbers])
    create = InProcessApi.create

    async def refuse(api, resource, *arguments, **options):
        if resource == SCENARIOS and not options.get("dry_run"):
            raise ServiceUnavailable("etcd is down")
        return await create(api, resource, *arguments, **options)

    with monkeypatch.context() as patched:
        patched.setattr(InProcessApi, "create", refuse)
        with pytest.raises(ServiceUnavailable, match="etcd is down"):
            runner.scenario([])
    with runner:
        pass
    assert numbers.seen == [1, 2]
