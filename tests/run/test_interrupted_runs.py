"""Runs interrupted by crashes or by the user end in order."""

from __future__ import annotations

import errno
import io
import os
import re
import signal

import pytest
from listing import objects

from pytest_kscen.chaos.observer import Observer
from pytest_kscen.chaos.profiles import NetworkBlock
from pytest_kscen.chaos.vm_operations import MachineRestart, MachineStop
from pytest_kscen.clock import ActorCrashedError
from pytest_kscen.clock.virtual import START
from pytest_kscen.journal import JournalLost
from pytest_kscen.kube.in_process import InProcessApi
from pytest_kscen.megatest.churn import Churn
from pytest_kscen.objects.errors import Forbidden, ServiceUnavailable
from pytest_kscen.objects.resources import CILIUM_NETWORK_POLICIES, JOBS
from pytest_kscen.objects.storage import REPLICATED_VOLUMES
from pytest_kscen.objects.virtualization import VIRTUAL_MACHINES
from pytest_kscen.report.protocol import Report
from pytest_kscen.run.phases import Phase
from pytest_kscen.run.plan import Plan


class FullDisk(io.BytesIO):
    """Journal file on a disk without space for the next line."""

    def __init__(self, file):
        super().__init__(file.getvalue())
        self.seek(0, os.SEEK_END)
        self.has_room = False

    def write(self, data):
        if self.has_room:
            return super().write(data)
        self.has_room = True
        raise OSError(errno.ENOSPC, "No space left on device")


def press(cluster, *seconds):
    """Send Ctrl-C after so many seconds."""
    for when in seconds:
        cluster.runner.loop.call_later(when, os.kill, os.getpid(), signal.SIGINT)


@pytest.mark.parametrize("how", ["within a block", "left on"])
def test_fault_that_cannot_be_undone_does_not_block_the_others(
    cluster, runner_of, monkeypatch, how
):
    heal = MachineStop.heal

    async def stuck(*arguments):
        await heal(*arguments)
        raise TimeoutError("the machine does not come back")

    def body(run):
        run.advance("1m")
        run.chaos.network_block("node-1", "node-2")
        monkeypatch.setattr(MachineStop, "heal", stuck)
        stopped = run.chaos.vm_stop("node-3")
        if how == "within a block":
            with stopped:
                run.advance("10s")

    runner = runner_of(Plan(Churn(max_volumes=2)))
    with pytest.raises(TimeoutError, match="does not come back"), runner as run:
        body(run)
    assert objects(cluster, REPLICATED_VOLUMES) == []
    assert objects(cluster, CILIUM_NETWORK_POLICIES, run.context.parent.api_for("test")) == []
    assert [entry.what for entry in run.journal if entry.actor == "run"][-2:] == [
        "leftovers",
        "run-ended",
    ]
    assert run.outcome.leftovers == []


def test_crash_ends_the_run_at_once(cluster, runner_of, monkeypatch):
    async def draw(*_):
        raise KeyError("status")

    monkeypatch.setattr("pytest_kscen.chaos.network_blocks.draw_block", draw)
    runner = runner_of(Plan(Churn(max_volumes=2), (NetworkBlock(period=(60.0, 60.0)),)))
    with pytest.raises(KeyError, match="status"):
        runner.run("3h")
    (run,) = runner.runs
    assert 60 <= run.outcome.lasted < 61
    assert run.outcome.leftovers == objects(cluster, REPLICATED_VOLUMES) == []
    assert [
        (entry.data["component"], entry.data["error"])
        for entry in run.journal
        if entry.what == "crashed"
    ] == [("network-block", "KeyError('status')")]


def test_unwritable_journal_ends_the_run_and_leaves_nothing(cluster, runner_of):
    """There is space again for the next line."""

    def fill():
        (run,) = runner.runs
        run.journal._file = FullDisk(run.journal._file)

    runner = runner_of(Plan(Churn(max_volumes=2), (NetworkBlock(),)))
    cluster.runner.loop.call_later(300, fill)
    with pytest.raises(JournalLost, match="No space left on device"):
        runner.run("3h")
    (run,) = runner.runs
    assert run.outcome.verdict == "unknown"
    assert "journal is unknown: it breaks off after 4m" in run.outcome.explain()
    assert cluster.now - START < 900
    assert (
        objects(cluster, REPLICATED_VOLUMES)
        == objects(
            cluster,
            CILIUM_NETWORK_POLICIES,
            cluster.parent(kubeconfig=None, namespace="").api_for("x"),
        )
        == []
    )


@pytest.mark.parametrize(
    ("lives", "at"),
    [
        (lambda run: run.advance("3h"), 60),
        (lambda run: run.until(lambda: False, "3h"), 60),
        (lambda run: run.cluster.advance("3h"), 60),
        (lambda run: None, 0.5),
    ],
    ids=["while it lasts", "while something is awaited", "while others turn time", "while it ends"],
)
def test_cluster_crash_ends_the_run_with_an_unknown_verdict(cluster, runner_of, lives, at):
    async def own():
        await cluster.runner.clock.sleep(at)
        raise KeyError("spec")

    def body(run):
        run.volumes.create("availability")
        cluster.runner.start(own(), "own")
        lives(run)

    crash_message = "the actor own crashed: KeyError('spec')"
    with (
        pytest.raises(ActorCrashedError, match=f"^{re.escape(crash_message)}$"),
        runner_of() as run,
    ):
        body(run)
    assert run.outcome.verdict == "unknown"
    assert [entry.data for entry in run.journal if entry.what == "crashed"] == [
        {"component": "cluster", "error": f'ActorCrashedError("{crash_message}")'}
    ]
    assert not run.life.is_running
    assert run.life.passed[-2:] == [Phase.RELEASED, Phase.OVER]
    assert (objects(cluster, REPLICATED_VOLUMES) == []) is (
        at == 60
    )  # a crash in its end ends that as well


def test_crash_in_a_temporary_fault_ends_the_run_at_once(runner_of, monkeypatch):
    async def heal(_, incident):
        await incident.clients.nested.clock.sleep(30)
        raise KeyError("bootID")

    monkeypatch.setattr(MachineRestart, "heal", heal)

    def body(run):
        run.chaos.vm_reboot("node-1")
        run.advance("3h")

    with pytest.raises(KeyError, match="bootID"), runner_of() as run:
        body(run)
    assert run.outcome.lasted < 60
    assert run.outcome.leftovers == []


def test_refusal_at_the_end_does_not_block_other_steps(cluster, runner_of, monkeypatch):
    real, over = InProcessApi.list, []

    async def list_(self, resource, *arguments, **options):
        if over and resource == JOBS:
            raise Forbidden("you cannot list jobs any more")
        return await real(self, resource, *arguments, **options)

    monkeypatch.setattr(InProcessApi, "list", list_)
    runner = runner_of(Plan(Churn(max_volumes=2), (NetworkBlock(),)))
    cluster.runner.loop.call_later(150, over.append, True)
    with pytest.raises(Forbidden, match="any more"):
        runner.run("3m")
    (run,) = runner.runs
    entries = [entry.what for entry in run.journal if entry.actor == "run"]
    assert entries[-4:] == ["crashed", "not-listed", "leftovers", "run-ended"]
    assert run.outcome.leftovers == objects(cluster, REPLICATED_VOLUMES) == []
    assert objects(cluster, CILIUM_NETWORK_POLICIES, run.context.parent.api_for("test")) == []


def test_volume_with_a_crashed_actor_is_deleted_with_the_others(cluster, runner_of, monkeypatch):
    async def cycle(rv, *_):
        await rv.context.clock.sleep(120)
        raise KeyError("spec")

    monkeypatch.setattr("pytest_kscen.megatest.volume.attach_and_detach", cycle)
    runner = runner_of(Plan(Churn(max_volumes=3, step=(3, 3))))
    with pytest.raises(ExceptionGroup), runner as run:
        run.until(lambda: False, timeout="3h")
    assert 60 < run.outcome.lasted < 300
    assert not run.outcome.stopped_early
    assert run.outcome.leftovers == objects(cluster, REPLICATED_VOLUMES) == []


def test_one_failing_api_does_not_block_the_search_of_leftovers(cluster, runner_of, monkeypatch):
    real = InProcessApi.list

    async def list_(self, resource, *arguments, **options):
        if resource.plural == "ingresses":
            raise ServiceUnavailable("the server is currently unable to handle the request")
        return await real(self, resource, *arguments, **options)

    monkeypatch.setattr(InProcessApi, "list", list_)
    runner = runner_of(Plan(Churn(max_volumes=2)))
    runner.run("3m")
    (run,) = runner.runs
    entries = [
        (entry.at, entry.what, entry.data)
        for entry in run.journal
        if entry.what in {"not-listed", "leftovers"}
    ]
    assert [(what, data.get("resource", data.get("objects"))) for _, what, data in entries] == [
        ("not-listed", "ingresses.networking.k8s.io"),
        ("leftovers", []),
    ]


def test_ctrl_c_ends_a_run_in_order(cluster, runner_of):
    press(cluster, 400)
    outcome = runner_of(Plan(Churn(max_volumes=2), (NetworkBlock(),))).run("1h")
    assert outcome.stopped_early
    assert 300 < outcome.lasted < 400
    assert outcome.leftovers == []
    assert objects(cluster, REPLICATED_VOLUMES) == []


def test_run_without_an_end_lasts_until_ctrl_c(cluster, runner_of, monkeypatch):
    monkeypatch.setattr("pytest_kscen.run.context.DAY", 1000.0)  # so that it waits for several days
    cluster.backend = "controlplane"  # a cluster on the wall's clock, whose runs have no end
    press(cluster, 5000)
    runner = runner_of(Plan(Churn(max_volumes=1)))
    outcome = runner.run()
    started = next(entry for entry in runner.runs[0].journal if entry.what == "run-started")
    assert started.data["duration"] is None
    assert outcome.verdict == "valid"
    assert outcome.stopped_early
    assert 4900 < outcome.lasted < 5000


def test_second_ctrl_c_keeps_volumes_and_names_them(cluster, runner_of):
    press(cluster, 100, 100.5)
    plan = Plan(
        Churn(max_volumes=2, step=(2, 2), lifetime=(900.0, 900.0)),
        (NetworkBlock(period=(20.0, 20.0), incident=(300.0, 300.0)),),
    )
    runner = runner_of(plan)
    outcome = runner.run("1h")
    assert outcome.verdict == "unknown", outcome.explain()
    assert {volume.verdict for volume in outcome.volumes} <= {
        "stable",
        "recovered",
        "interrupted",
        "unknown",
    }
    volumes = [name for name in outcome.leftovers if name.startswith("replicatedvolumes/")]
    assert len(volumes) == 2
    assert [incident.removed_at is None for incident in outcome.incidents] == [False] * len(
        outcome.incidents
    )
    assert (
        objects(cluster, CILIUM_NETWORK_POLICIES, runner.runs[0].context.parent.api_for("test"))
        == []
    )


def test_second_ctrl_c_skips_the_wait_for_recovery(cluster, runner_of, monkeypatch):
    async def settle(self):
        await self._context.clock.sleep(300)

    monkeypatch.setattr(Observer, "settle", settle)
    press(cluster, 100, 120)
    outcome = runner_of(Plan(Churn(max_volumes=1), (NetworkBlock(),))).run("1h")
    assert outcome.stopped_early
    assert cluster.now - START < 200


def test_ctrl_c_in_the_middle_of_a_body(cluster, runner_of):
    press(cluster, 20)
    with pytest.raises(KeyboardInterrupt), runner_of() as run:
        run.advance("1h")
    assert run.outcome.lasted < 60
    assert run.outcome.leftovers == []


def user_code(_):
    os.kill(os.getpid(), signal.SIGINT)


def wait_in_test_code(cluster):
    press(cluster, 20)
    cluster.advance("1h")


@pytest.mark.parametrize("busy_with", [user_code, wait_in_test_code])
def test_ctrl_c_in_test_code_interrupts_it(cluster, runner_of, busy_with):
    gone_on = []

    def body(run):
        run.advance("1m")
        busy_with(cluster)
        gone_on.append("and makes volumes")

    with pytest.raises(KeyboardInterrupt), runner_of(Plan(Churn(max_volumes=1))) as run:
        body(run)
    assert gone_on == []
    assert run.outcome.stopped_early
    assert 60 <= run.outcome.lasted <= 81
    assert run.outcome.leftovers == objects(cluster, REPLICATED_VOLUMES) == []


def test_ctrl_c_while_a_test_starts_a_fault_undoes_it(cluster, runner_of):
    def body(run):
        press(cluster, 1)
        run.chaos.vm_stop("node-1")

    with pytest.raises(KeyboardInterrupt), runner_of() as run:
        body(run)
    machines = objects(cluster, VIRTUAL_MACHINES, run.context.parent.api_for("test"))
    assert {one["status"]["phase"] for one in machines} == {"Running"}
    assert [incident.removed_at is None for incident in run.outcome.incidents] == [False]


def test_only_faults_by_hand_are_kept_while_the_run_lasts(runner_of):
    with runner_of() as run:
        held = run.chaos.network_block("node-1", "node-2")
        (stated,) = run.chaos._known
        started = {
            "profile": "network-block",
            "variant": "split-brain",
            "targets": {"nodes": ["node-1"]},
        }
        run.journal.write("chaos", "incident-started", {"incident": "planned", **started})
        for incident in ("planned", stated):
            run.journal.write(
                "chaos-observer",
                "incident-effect",
                {"incident": incident, "effect": "a link is down"},
            )
        assert {name: record.effects for name, record in run.chaos._known.items()} == {
            stated: ["a link is down"]
        }
        held.end()


@pytest.mark.filterwarnings("ignore:nothing is declared")
@pytest.mark.parametrize("early", [True, False])
def test_ctrl_c_after_the_end_does_not_stop_the_report(cluster, runner_of, early):
    reported = []

    class Late(Report):
        def finish(self, run):
            os.kill(os.getpid(), signal.SIGINT)
            reported.append((run.result.outcome.stopped_early, run.stopped()))

    before = signal.getsignal(signal.SIGINT)
    if early:
        press(cluster, 60)
    runner = runner_of(reports=[Late()])
    assert runner.run("1h").verdict == "valid"
    assert reported == [(early, True)]
    assert signal.getsignal(signal.SIGINT) is before
    assert "volumes-abandoned" not in {entry.what for entry in runner.runs[0].journal}
