"""Runs that a test conducts itself, and runs that somebody stops."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import re
import signal

import pytest

from pytest_kscen.chaos.faults.machines import Reboot, Stop
from pytest_kscen.chaos.hands import Impossible
from pytest_kscen.chaos.network_blocker import NetworkBlock
from pytest_kscen.chaos.observer import Observer
from pytest_kscen.clock import ActorCrashedError
from pytest_kscen.clock.virtual import START
from pytest_kscen.clusters.embedded import EmbeddedCluster
from pytest_kscen.journal import JournalLost
from pytest_kscen.kube.inprocess import InProcessApi
from pytest_kscen.megatest.churn import Churn
from pytest_kscen.objects.cilium import CILIUM_NETWORK_POLICIES
from pytest_kscen.objects.errors import AlreadyExists, Forbidden, ServiceUnavailable
from pytest_kscen.objects.resources import CONFIG_MAPS, JOBS, NODES
from pytest_kscen.objects.storage import REPLICATED_VOLUMES
from pytest_kscen.objects.virtualization import VIRTUAL_MACHINES
from pytest_kscen.runs.plan import Plan
from pytest_kscen.runs.runner import ScenarioRunner


@pytest.fixture
def cluster():
    cluster = EmbeddedCluster("by hand")
    yield cluster
    cluster.close()


@pytest.fixture
def runner_of(cluster):
    made = []

    def make(plan=None, **more):
        made.append(ScenarioRunner(cluster, plan or Plan(), parent=cluster.parent, **more))
        return made[-1]

    yield make
    for one in made:
        one.close()


class Full(io.BytesIO):
    """A journal's file on a disk that has no room for the next line."""

    def __init__(self, file):
        super().__init__(file.getvalue())
        self.seek(0, os.SEEK_END)
        self.has_room = False

    def write(self, data):
        if self.has_room:
            return super().write(data)
        self.has_room = True
        raise OSError(errno.ENOSPC, "No space left on device")


def objects(cluster, resource, api=None):
    return cluster.runner.call((api or cluster.api("test")).list(resource)).items


def press(cluster, *seconds):
    """Ctrl-C, so many seconds from now."""
    for when in seconds:
        cluster.runner.loop.call_later(when, os.kill, os.getpid(), signal.SIGINT)


def test_a_volume_lives_until_the_run_is_judged(cluster, runner_of):
    with runner_of() as run:
        volume = run.volumes.create("availability", attach=1, name="mine")
        assert not volume.ready()
        run.until(volume.ready, timeout="1m")
        assert len(volume.nodes) >= 3
        run.until(lambda: volume.attached_to, timeout="1m")
        assert set(volume.attached_to) <= set(volume.nodes)
        with pytest.raises(RuntimeError, match="still on"):
            _ = run.outcome
    assert run.outcome.verdict == "valid", run.outcome.explain()
    assert run.outcome.volumes["mine"].verdict == "stable"
    assert objects(cluster, REPLICATED_VOLUMES) == []


def test_who_waits_in_vain_for_a_volume_is_told_what_it_lacks():
    with contextlib.closing(EmbeddedCluster("too small", nodes=1)) as cluster:
        runner = ScenarioRunner(cluster, Plan(), parent=cluster.parent)
        with runner as run:
            volume = run.volumes.create("availability", attach=2, name="v")
            with pytest.raises(TimeoutError) as late:
                run.until(volume.healthy, timeout="1m")
        runner.close()
    assert str(late.value).startswith(
        "within 1m of cluster time this did not come true: the volume v is ready: IOReady is False: InsufficientIOReadyReplicas: "
    )
    assert "; replicas' conditions that are False: v-" in str(late.value)
    assert str(late.value).endswith("; attached to 0 of 2 nodes")


def test_a_large_volume_has_ten_minutes_also_if_the_run_is_over_before(runner_of):
    with runner_of() as run:
        run.volumes.create("availability", size="50Gi")
        run.advance("1m")
    assert run.outcome.verdict == "valid", run.outcome.explain()


def test_a_large_volume_has_all_the_time_of_the_run(cluster, runner_of):
    with runner_of() as run:
        volume = run.volumes.create("availability", size="100Gi", name="large")
        run.advance("15m")
        assert not volume.ready()
        run.until(volume.ready, timeout="2h")
    assert run.outcome.volumes["large"].verdict == "stable"
    assert "large" in run.outcome.volumes
    assert run.outcome.volumes["large"] in run.outcome.volumes
    assert "small" not in run.outcome.volumes
    assert objects(cluster, REPLICATED_VOLUMES) == []


def test_a_fault_that_is_over_is_not_entered_again(runner_of):
    with runner_of() as run:
        with run.chaos.network_block("node-1", "node-2") as incident:
            run.advance("10s")
        fault = run.chaos.network_block("node-1", "node-2")
        fault.end()
        with pytest.raises(RuntimeError, match="is over: state the fault anew"), fault:
            """It does not come so far."""
    assert incident.removed_at is not None


def test_a_fault_says_what_it_is(runner_of):
    with runner_of() as run:
        fault = run.chaos.network_block("node-1", "node-2")
        assert re.fullmatch(r"<blocking-everything-[a-z0-9]{8} is on: nodes node-1, node-2>", repr(fault))
        fault.end()
        assert " is over: nodes node-1, node-2>" in repr(fault)


@pytest.mark.parametrize("nodes", [1, 2])
def test_a_volume_that_is_ready_is_attached_as_was_asked(runner_of, nodes):
    with runner_of() as run:
        volume = run.volumes.create("consistency-and-availability", attach=nodes)
        run.until(volume.ready)
        assert len(volume.attached_to) == nodes
        run.chaos.vm_stop(volume.attached_to[0])
        run.advance("1m")
        assert not volume.healthy()


def test_a_volume_or_its_name(runner_of):
    with runner_of() as run:
        volume = run.volumes.create("availability")
        run.until(volume.ready)
        for named in (volume, volume.name):
            with run.chaos.drbd_block(*volume.nodes[:2], named) as incident:
                assert incident.targets["volumes"] == [volume.name]


def test_what_cannot_be_made_is_refused_before_anything_is(cluster, runner_of):
    with runner_of() as run:
        with pytest.raises(ValueError, match="no storage class 'gold'; there are availability, consistency-and-availability, none"):
            run.volumes.create("gold")
        with pytest.raises(Impossible, match="no virtual machine 'node-9'"):
            run.chaos.network_block("node-1", "node-9")
        assert objects(cluster, REPLICATED_VOLUMES) == []
    assert run.outcome.verdict == "valid", run.outcome.explain()


def test_a_volume_that_others_made_is_theirs(cluster, runner_of):
    theirs = {"metadata": {"name": "precious"}, "spec": {"size": "1Gi", "replicatedStorageClassName": "availability"}}
    with runner_of() as run:
        made = cluster.runner.call(cluster.api("user").create(REPLICATED_VOLUMES, theirs))
        with pytest.raises(AlreadyExists):
            run.volumes.create("availability", name="precious")
        run.advance("1m")
        (volume,) = objects(cluster, REPLICATED_VOLUMES)
        assert volume["metadata"]["uid"] == made["metadata"]["uid"]
        assert "deletionTimestamp" not in volume["metadata"]
    assert [one["metadata"]["name"] for one in objects(cluster, REPLICATED_VOLUMES)] == ["precious"]
    assert list(run.outcome.volumes) == []


def test_a_name_is_given_once(cluster, runner_of):
    with runner_of() as run:
        volume = run.volumes.create("availability", name="data")
        with pytest.raises(ValueError, match="this run has made a volume of this name"):
            run.volumes.create("availability", name="data")
        run.until(volume.ready)
        run.advance("1m")
        assert "deletionTimestamp" not in volume.object["metadata"]
    assert [one.verdict for one in run.outcome.volumes] == ["stable"]


@pytest.mark.parametrize("name", ["UPPER", "Bad_Name", "-a", "a.", "a..b", " ", 121 * "a", 3, None])
def test_a_name_that_no_volume_may_have(runner_of, name):
    rule = "give 120 of a-z, 0-9, - and . at most, with a-z or 0-9 at either end and beside each ., as in my-volume"
    with runner_of() as run:
        before = run.journal.entries
        with pytest.raises(ValueError, match=f"^{re.escape(f'name={name!r}: {rule}')}$"):
            run.volumes.create("availability", name=name)
        assert run.journal.entries == before


@pytest.mark.parametrize("name", ["a", "0.b-1", 120 * "a"])
def test_a_name_that_a_volume_may_have(runner_of, name):
    with runner_of() as run:
        assert run.volumes.create("none", name=name).object["metadata"]["name"] == name
    assert list(run.outcome.volumes) == [run.outcome.volumes[name]]


@pytest.mark.parametrize("attach", [3, -1, True, 1.0, "1", None, []])
def test_a_number_of_nodes_that_no_volume_is_attached_to(cluster, runner_of, attach):
    with runner_of() as run:
        with pytest.raises(ValueError, match=rf"^attach={re.escape(repr(attach))}: a volume can be attached to 0, 1 or 2 nodes$"):
            run.volumes.create("none", attach=attach)
        assert objects(cluster, REPLICATED_VOLUMES) == []


@pytest.mark.parametrize("said", [None, 3, "", ["none"]])
def test_what_is_no_storage_class_is_said_to_be_none(runner_of, said):
    with runner_of() as run, pytest.raises(ValueError, match=rf"^there is no storage class {re.escape(repr(said))}; there are "):
        run.volumes.create(said)


def test_what_is_shown_of_a_volume_is_the_tests_own(runner_of):
    with runner_of() as run:
        volume = run.volumes.create("consistency-and-availability")
        run.until(volume.ready)
        nodes, status = volume.nodes, volume.object["status"]
        volume.replicas[0]["spec"]["nodeName"] = "elsewhere"
        volume.object["status"].clear()
        assert (volume.nodes, volume.object["status"]) == (nodes, status)


@pytest.mark.parametrize(
    ("obj", "lacks"),
    [
        ({"kind": "Nope"}, "apiVersion"),
        ({"apiVersion": "v1", "metadata": {"name": "a"}}, "kind"),
        ({"apiVersion": "v1", "kind": "ConfigMap"}, "metadata.name"),
        ({"apiVersion": "v1", "kind": "ConfigMap", "metadata": "a"}, "metadata.name"),
        ("v1", "apiVersion"),
    ],
)
def test_what_is_no_object_is_not_applied(cluster, runner_of, obj, lacks):
    good = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "good"}}
    with runner_of() as run:
        with pytest.raises(ValueError, match=f"^{re.escape(f'what is to be applied has no {lacks}: {obj!r}')}$"):
            run.apply(good, obj)
        assert "good" not in {one["metadata"]["name"] for one in objects(cluster, CONFIG_MAPS)}


@pytest.mark.parametrize("what", ["name", "storage_class"])
def test_what_a_volume_is_called_cannot_be_changed(runner_of, what):
    with runner_of() as run:
        volume = run.volumes.create("none", name="data")
        with pytest.raises(AttributeError):
            setattr(volume, what, "other")
        assert (volume.name, volume.storage_class) == ("data", "none")


def test_a_block_is_there_within_its_block(cluster, runner_of):
    with runner_of() as run:
        parent = run.stage.parent.api_for("test")
        with run.chaos.split_brain(["node-1", "node-2"], ["node-3"]) as incident:
            assert len(objects(cluster, CILIUM_NETWORK_POLICIES, parent)) >= 1
            run.advance("30s")
        assert objects(cluster, CILIUM_NETWORK_POLICIES, parent) == []
        assert incident.lasted >= 30
        assert (incident.recovery, incident.failed, incident.not_undone, incident.unrecovered) == (None, "", "", [])
    assert [one.lasting for one in run.outcome.incidents] == [False]
    assert run.outcome.incidents == [incident], "what `as` gives is what the outcome has"


@pytest.mark.parametrize(
    "state",
    [
        lambda chaos: chaos.vm_stop("node-1"),
        lambda chaos: chaos.vm_reboot("node-1"),
        lambda chaos: chaos.losses("node-1", "node-2", 0.5),
        lambda chaos: chaos.latency("node-2", "node-1"),
    ],
)
def test_nothing_is_done_to_a_machine_that_is_off(runner_of, state):
    told = "the virtual machine node-1 is off: name one that runs, or end first what has stopped it"
    with runner_of() as run:
        with run.chaos.vm_stop("node-1"):
            with pytest.raises(Impossible, match=f"^{told}$") as refusal:
                state(run.chaos)
            assert refusal.type is Impossible
        state(run.chaos).end()
    assert len(run.outcome.incidents) == 2, "what was refused is none"


def test_a_machine_that_is_off_can_be_cut_off(cluster, runner_of):
    with runner_of() as run, run.chaos.vm_stop("node-1"), run.chaos.network_block("node-1", "node-2"):
        assert len(objects(cluster, CILIUM_NETWORK_POLICIES, run.stage.parent.api_for("test"))) == 1


def test_a_lasting_fault_is_undone_after_judging(cluster, runner_of):
    with runner_of() as run:
        run.chaos.vm_stop("node-1")
        run.advance("1m")
    (record,) = run.outcome.incidents
    frozen = run.outcome.lasted
    assert record.lasting
    assert record.removed_at >= frozen
    machines = objects(cluster, VIRTUAL_MACHINES, run.stage.parent.api_for("test"))
    assert {one["status"]["phase"] for one in machines} == {"Running"}


def test_of_a_volume_whose_machines_are_all_off_nobody_knows_how_it_is(cluster, runner_of):
    with runner_of() as run:
        volume = run.volumes.create("availability")
        run.until(volume.ready)
        for machine in objects(cluster, NODES):
            run.chaos.vm_stop(machine["metadata"]["name"])
        run.advance("1m")
    assert run.outcome.volumes[volume.name].unjudged.startswith("all machines that held it were off")
    assert run.outcome.volumes.unknown == list(run.outcome.volumes)


def test_a_body_that_fails_is_cleaned_up_after(cluster, runner_of):
    def body(run):
        run.volumes.create("none")
        run.chaos.network_block("node-1", "node-2")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), runner_of() as run:
        body(run)
    assert run.outcome.leftovers == []
    assert objects(cluster, REPLICATED_VOLUMES) == []
    assert objects(cluster, CILIUM_NETWORK_POLICIES, run.stage.parent.api_for("test")) == []


@pytest.mark.parametrize("how", ["within a block", "left on"])
def test_one_that_cannot_be_undone_keeps_nothing_else_from_being(cluster, runner_of, monkeypatch, how):
    heal = Stop.heal

    async def stuck(*arguments):
        await heal(*arguments)
        raise TimeoutError("the machine does not come back")

    def body(run):
        run.advance("1m")
        run.chaos.network_block("node-1", "node-2")
        monkeypatch.setattr(Stop, "heal", stuck)
        stopped = run.chaos.vm_stop("node-3")
        if how == "within a block":
            with stopped:
                run.advance("10s")

    runner = runner_of(Plan(Churn(max_volumes=2)))
    with pytest.raises(TimeoutError, match="does not come back"), runner as run:
        body(run)
    assert objects(cluster, REPLICATED_VOLUMES) == []
    assert objects(cluster, CILIUM_NETWORK_POLICIES, run.stage.parent.api_for("test")) == []
    assert [entry.what for entry in run.journal if entry.who == "run"][-2:] == ["leftovers", "run-ended"]
    assert run.outcome.leftovers == []


def test_a_crash_ends_the_run_at_once(cluster, runner_of, monkeypatch):
    async def draw(*_):
        raise KeyError("status")

    monkeypatch.setattr(NetworkBlock, "_draw", draw)
    runner = runner_of(Plan(Churn(max_volumes=2), (NetworkBlock(period=(60.0, 60.0)),)))
    with pytest.raises(KeyError, match="status"):
        runner.run("3h")
    (run,) = runner.runs
    assert 60 <= run.outcome.lasted < 61
    assert run.outcome.leftovers == objects(cluster, REPLICATED_VOLUMES) == []
    assert [(entry.data["actor"], entry.data["error"]) for entry in run.journal if entry.what == "crashed"] == [
        ("network-block", "KeyError('status')")
    ]


def test_a_journal_that_cannot_be_written_ends_the_run_and_leaves_nothing(cluster, runner_of):
    """Though there is room again for the next line."""

    def fill():
        (run,) = runner.runs
        run.journal._file = Full(run.journal._file)

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
        == objects(cluster, CILIUM_NETWORK_POLICIES, cluster.parent(kubeconfig=None, namespace="").api_for("x"))
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
def test_a_crash_in_the_cluster_ends_the_run_and_makes_it_unknown(cluster, runner_of, lives, at):
    async def own():
        await cluster.runner.clock.sleep(at)
        raise KeyError("spec")

    def body(run):
        run.volumes.create("availability")
        cluster.runner.start(own(), "own")
        lives(run)

    told = "the actor own crashed: KeyError('spec')"
    with pytest.raises(ActorCrashedError, match=f"^{re.escape(told)}$"), runner_of() as run:
        body(run)
    assert run.outcome.verdict == "unknown"
    assert [entry.data for entry in run.journal if entry.what == "crashed"] == [
        {"actor": "cluster", "error": f'ActorCrashedError("{told}")'}
    ]
    assert not run.life.goes_on
    assert (objects(cluster, REPLICATED_VOLUMES) == []) is (at == 60)  # a crash in its end ends that as well


def test_a_crash_in_a_fault_that_passes_ends_the_run_at_once(runner_of, monkeypatch):
    async def heal(_, incident):
        await incident.hands.nested.clock.sleep(30)
        raise KeyError("bootID")

    monkeypatch.setattr(Reboot, "heal", heal)

    def body(run):
        run.chaos.vm_reboot("node-1")
        run.advance("3h")

    with pytest.raises(KeyError, match="bootID"), runner_of() as run:
        body(run)
    assert run.outcome.lasted < 60
    assert run.outcome.leftovers == []


def test_what_is_forbidden_at_the_end_keeps_nothing_else_from_being_done(cluster, runner_of, monkeypatch):
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
    told = [entry.what for entry in run.journal if entry.who == "run"]
    assert told[-4:] == ["crashed", "not-looked-into", "leftovers", "run-ended"]
    assert run.outcome.leftovers == objects(cluster, REPLICATED_VOLUMES) == []
    assert objects(cluster, CILIUM_NETWORK_POLICIES, run.stage.parent.api_for("test")) == []


def test_a_volume_whose_actor_crashes_goes_with_all_others(cluster, runner_of, monkeypatch):
    async def cycle(rv, *_):
        await rv.stage.clock.sleep(120)
        raise KeyError("spec")

    monkeypatch.setattr("pytest_kscen.megatest.volume.attach_and_detach", cycle)
    runner = runner_of(Plan(Churn(max_volumes=3, step=(3, 3))))
    with pytest.raises(ExceptionGroup), runner as run:
        run.until(lambda: False, timeout="3h")
    assert 60 < run.outcome.lasted < 300
    assert not run.outcome.stopped_early
    assert run.outcome.leftovers == objects(cluster, REPLICATED_VOLUMES) == []


def test_one_api_that_is_out_of_order_keeps_nothing_from_being_looked_for(cluster, runner_of, monkeypatch):
    real = InProcessApi.list

    async def list_(self, resource, *arguments, **options):
        if resource.plural == "ingresses":
            raise ServiceUnavailable("the server is currently unable to handle the request")
        return await real(self, resource, *arguments, **options)

    monkeypatch.setattr(InProcessApi, "list", list_)
    runner = runner_of(Plan(Churn(max_volumes=2)))
    runner.run("3m")
    (run,) = runner.runs
    told = [(entry.at, entry.what, entry.data) for entry in run.journal if entry.what in {"not-looked-into", "leftovers"}]
    assert [(what, data.get("resource", data.get("objects"))) for _, what, data in told] == [
        ("not-looked-into", "ingresses.networking.k8s.io"),
        ("leftovers", []),
    ]


def test_ctrl_c_ends_a_run_in_good_order(cluster, runner_of):
    press(cluster, 400)
    outcome = runner_of(Plan(Churn(max_volumes=2), (NetworkBlock(),))).run("1h")
    assert outcome.stopped_early
    assert 300 < outcome.lasted < 400
    assert outcome.leftovers == []
    assert objects(cluster, REPLICATED_VOLUMES) == []


def test_a_run_without_an_end_lasts_until_ctrl_c(cluster, runner_of):
    runner = runner_of(Plan(Churn(max_volumes=1)))
    runner._length = lambda: None
    press(cluster, 400)
    assert runner.run().verdict == "valid"


def test_a_second_ctrl_c_leaves_volumes_and_names_them(cluster, runner_of):
    press(cluster, 100, 100.5)
    plan = Plan(
        Churn(max_volumes=2, step=(2, 2), lifetime=(900.0, 900.0)), (NetworkBlock(period=(20.0, 20.0), incident=(300.0, 300.0)),)
    )
    runner = runner_of(plan)
    outcome = runner.run("1h")
    assert outcome.verdict == "unknown", outcome.explain()
    assert {volume.verdict for volume in outcome.volumes} <= {"stable", "recovered", "interrupted", "unknown"}
    volumes = [name for name in outcome.leftovers if name.startswith("replicatedvolumes/")]
    assert len(volumes) == 2
    assert [incident.removed_at is None for incident in outcome.incidents] == [False] * len(outcome.incidents)
    assert objects(cluster, CILIUM_NETWORK_POLICIES, runner.runs[0].stage.parent.api_for("test")) == []


def test_who_is_in_a_hurry_waits_for_no_recovery(cluster, runner_of, monkeypatch):
    async def settle(self):
        await self._stage.clock.sleep(300)

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


def own_code(_):
    os.kill(os.getpid(), signal.SIGINT)


def a_wait_of_its_own(cluster):
    press(cluster, 20)
    cluster.advance("1h")


@pytest.mark.parametrize("busy_with", [own_code, a_wait_of_its_own])
def test_ctrl_c_in_a_tests_own_code_interrupts_it(cluster, runner_of, busy_with):
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


def test_ctrl_c_while_a_test_makes_a_fault_undoes_it(cluster, runner_of):
    def body(run):
        press(cluster, 1)
        run.chaos.vm_stop("node-1")

    with pytest.raises(KeyboardInterrupt), runner_of() as run:
        body(run)
    machines = objects(cluster, VIRTUAL_MACHINES, run.stage.parent.api_for("test"))
    assert {one["status"]["phase"] for one in machines} == {"Running"}
    assert [incident.removed_at is None for incident in run.outcome.incidents] == [False]


def test_only_faults_by_hand_are_kept_while_the_run_lives(runner_of):
    with runner_of() as run:
        held = run.chaos.network_block("node-1", "node-2")
        (stated,) = run.chaos._known
        started = {"profile": "network-block", "variant": "split-brain", "targets": {"nodes": ["node-1"]}}
        run.journal.write("chaos", "incident-started", {"incident": "planned", **started})
        for incident in ("planned", stated):
            run.journal.write("chaos-observer", "incident-effect", {"incident": incident, "effect": "a link is down"})
        assert {name: record.effects for name, record in run.chaos._known.items()} == {stated: ["a link is down"]}
        held.end()


@pytest.mark.filterwarnings("ignore:nothing is declared")
@pytest.mark.parametrize("early", [True, False])
def test_ctrl_c_when_all_is_over_does_not_stop_the_telling(cluster, runner_of, early):
    told = []

    def tell(run):
        os.kill(os.getpid(), signal.SIGINT)
        told.append((run.outcome.stopped_early, run.is_told_to_stop))

    before = signal.getsignal(signal.SIGINT)
    if early:
        press(cluster, 60)
    runner = runner_of(tell=tell)
    assert runner.run("1h").verdict == "valid"
    assert told == [(early, True)]
    assert signal.getsignal(signal.SIGINT) is before
    assert "hurried" not in {entry.what for entry in runner.runs[0].journal}
