"""Runs conducted by the test itself, and interrupted ones."""

from __future__ import annotations

import contextlib
import re

import pytest
from listing import objects

from pytest_kscen.chaos.clients import FaultImpossible
from pytest_kscen.clusters.embedded import EmbeddedCluster
from pytest_kscen.objects.errors import AlreadyExists
from pytest_kscen.objects.resources import CILIUM_NETWORK_POLICIES, CONFIG_MAPS, NODES
from pytest_kscen.objects.storage import REPLICATED_VOLUMES
from pytest_kscen.objects.virtualization import VIRTUAL_MACHINES
from pytest_kscen.run.plan import Plan
from pytest_kscen.run.runner import ScenarioRunner


def test_volume_exists_until_the_run_is_judged(cluster, runner_of):
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


def test_timeout_waiting_for_a_volume_reports_missing_conditions():
    with contextlib.closing(EmbeddedCluster("too small", nodes=1)) as cluster:
        runner = ScenarioRunner(cluster, Plan(), parent=cluster.parent)
        with runner as run:
            volume = run.volumes.create("availability", attach=2, name="v")
            with pytest.raises(TimeoutError) as late:
                run.until(volume.healthy, timeout="1m")
        runner.close()
    assert str(late.value).startswith(
        "not true within 1m of cluster time: the volume v is ready: "
        "IOReady is False: InsufficientIOReadyReplicas: "
    )
    assert "; replicas' conditions that are False: v-" in str(late.value)
    assert str(late.value).endswith("; attached to 0 of 2 nodes")


def test_large_volume_has_ten_minutes_even_after_the_run(runner_of):
    with runner_of() as run:
        run.volumes.create("availability", size="50Gi")
        run.advance("1m")
    assert run.outcome.verdict == "valid", run.outcome.explain()


def test_large_volume_has_the_whole_run(cluster, runner_of):
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


def test_ended_fault_cannot_be_entered_again(runner_of):
    with runner_of() as run:
        with run.chaos.network_block("node-1", "node-2") as incident:
            run.advance("10s")
        fault = run.chaos.network_block("node-1", "node-2")
        fault.end()
        with pytest.raises(RuntimeError, match="is over: state the fault anew"), fault:
            """It does not come so far."""
    assert incident.removed_at is not None


def test_fault_describes_itself(runner_of):
    with runner_of() as run:
        fault = run.chaos.network_block("node-1", "node-2")
        assert re.fullmatch(
            r"<blocking-everything-[a-z0-9]{8} is on: nodes node-1, node-2>", repr(fault)
        )
        fault.end()
        assert " is over: nodes node-1, node-2>" in repr(fault)


@pytest.mark.parametrize("nodes", [1, 2])
def test_ready_volume_is_attached_as_requested(runner_of, nodes):
    with runner_of() as run:
        volume = run.volumes.create("consistency-and-availability", attach=nodes)
        run.until(volume.ready)
        assert len(volume.attached_to) == nodes
        run.chaos.vm_stop(volume.attached_to[0])
        run.advance("1m")
        assert not volume.healthy()


def test_volume_or_its_name_is_accepted(runner_of):
    with runner_of() as run:
        volume = run.volumes.create("availability")
        run.until(volume.ready)
        for named in (volume, volume.name):
            with run.chaos.drbd_block(*volume.nodes[:2], named) as incident:
                assert incident.targets["volumes"] == [volume.name]


def test_invalid_request_is_refused_before_anything_is_created(cluster, runner_of):
    with runner_of() as run:
        with pytest.raises(
            ValueError,
            match=(
                "no storage class 'gold'; there are availability, "
                "consistency-and-availability, none"
            ),
        ):
            run.volumes.create("gold")
        with pytest.raises(FaultImpossible, match="no virtual machine 'node-9'"):
            run.chaos.network_block("node-1", "node-9")
        assert objects(cluster, REPLICATED_VOLUMES) == []
    assert run.outcome.verdict == "valid", run.outcome.explain()


def test_volume_created_by_others_is_kept(cluster, runner_of):
    theirs = {
        "metadata": {"name": "precious"},
        "spec": {"size": "1Gi", "replicatedStorageClassName": "availability"},
    }
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


def test_name_is_used_once(cluster, runner_of):
    with runner_of() as run:
        volume = run.volumes.create("availability", name="data")
        with pytest.raises(ValueError, match="this run has made a volume of this name"):
            run.volumes.create("availability", name="data")
        run.until(volume.ready)
        run.advance("1m")
        assert "deletionTimestamp" not in volume.object["metadata"]
    assert [one.verdict for one in run.outcome.volumes] == ["stable"]


@pytest.mark.parametrize("name", ["UPPER", "Bad_Name", "-a", "a.", "a..b", " ", 121 * "a", 3, None])
def test_invalid_volume_name_is_refused(runner_of, name):
    rule = (
        "give 120 of a-z, 0-9, - and . at most, with a-z or 0-9 at either end and beside "
        "each ., as in my-volume"
    )
    with runner_of() as run:
        before = run.journal.entries
        with pytest.raises(ValueError, match=f"^{re.escape(f'name={name!r}: {rule}')}$"):
            run.volumes.create("availability", name=name)
        assert run.journal.entries == before


@pytest.mark.parametrize("name", ["a", "0.b-1", 120 * "a"])
def test_valid_volume_name_is_accepted(runner_of, name):
    with runner_of() as run:
        assert run.volumes.create("none", name=name).object["metadata"]["name"] == name
    assert list(run.outcome.volumes) == [run.outcome.volumes[name]]


@pytest.mark.parametrize("attach", [3, -1, True, 1.0, "1", None, []])
def test_invalid_number_of_nodes_is_refused(cluster, runner_of, attach):
    with runner_of() as run:
        with pytest.raises(
            ValueError,
            match=(
                rf"^attach={re.escape(repr(attach))}: a volume can be attached to 0, 1 or 2 "
                r"nodes$"
            ),
        ):
            run.volumes.create("none", attach=attach)
        assert objects(cluster, REPLICATED_VOLUMES) == []


@pytest.mark.parametrize("message", [None, 3, "", ["none"]])
def test_value_that_is_no_storage_class_is_refused(runner_of, message):
    with (
        runner_of() as run,
        pytest.raises(
            ValueError, match=rf"^there is no storage class {re.escape(repr(message))}; there are "
        ),
    ):
        run.volumes.create(message)


def test_returned_volume_is_a_copy(runner_of):
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
def test_value_that_is_no_object_is_not_applied(cluster, runner_of, obj, lacks):
    good = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "good"}}
    with runner_of() as run:
        with pytest.raises(
            ValueError, match=f"^{re.escape(f'object to apply has no {lacks}: {obj!r}')}$"
        ):
            run.apply(good, obj)
        assert "good" not in {one["metadata"]["name"] for one in objects(cluster, CONFIG_MAPS)}


@pytest.mark.parametrize("what", ["name", "storage_class"])
def test_volume_name_is_read_only(runner_of, what):
    with runner_of() as run:
        volume = run.volumes.create("none", name="data")
        with pytest.raises(AttributeError):
            setattr(volume, what, "other")
        assert (volume.name, volume.storage_class) == ("data", "none")


def test_block_is_active_within_its_context(cluster, runner_of):
    with runner_of() as run:
        parent = run.context.parent.api_for("test")
        with run.chaos.split_brain(["node-1", "node-2"], ["node-3"]) as incident:
            assert len(objects(cluster, CILIUM_NETWORK_POLICIES, parent)) >= 1
            run.advance("30s")
        assert objects(cluster, CILIUM_NETWORK_POLICIES, parent) == []
        assert incident.lasted >= 30
        assert (incident.recovery, incident.failed, incident.not_undone, incident.unrecovered) == (
            None,
            "",
            "",
            [],
        )
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
def test_stopped_machine_gets_no_operations(runner_of, state):
    reported = (
        "the virtual machine node-1 is off: name one that runs, or end first what has stopped it"
    )
    with runner_of() as run:
        with run.chaos.vm_stop("node-1"):
            with pytest.raises(FaultImpossible, match=f"^{reported}$") as refusal:
                state(run.chaos)
            assert refusal.type is FaultImpossible
        state(run.chaos).end()
    assert len(run.outcome.incidents) == 2, "what was refused is none"


def test_stopped_machine_can_be_cut_off(cluster, runner_of):
    with (
        runner_of() as run,
        run.chaos.vm_stop("node-1"),
        run.chaos.network_block("node-1", "node-2"),
    ):
        assert (
            len(objects(cluster, CILIUM_NETWORK_POLICIES, run.context.parent.api_for("test"))) == 1
        )


def test_lasting_fault_is_undone_after_judging(cluster, runner_of):
    with runner_of() as run:
        run.chaos.vm_stop("node-1")
        run.advance("1m")
    (record,) = run.outcome.incidents
    frozen = run.outcome.lasted
    assert record.lasting
    assert record.removed_at >= frozen
    machines = objects(cluster, VIRTUAL_MACHINES, run.context.parent.api_for("test"))
    assert {one["status"]["phase"] for one in machines} == {"Running"}


def test_recovery_is_awaited_without_a_parent(cluster):
    runner = ScenarioRunner(cluster, Plan())
    with runner as run:
        volume = run.volumes.create("consistency-and-availability")
        run.until(volume.ready)
        with run.chaos.pod_destroy("app=agent", 6):
            run.advance("3s")
    runner.close()
    assert run.outcome.incidents[0].recovery is not None
    cluster.advance("10m")


def test_volume_with_all_machines_off_is_unknown(cluster, runner_of):
    with runner_of() as run:
        volume = run.volumes.create("availability")
        run.until(volume.ready)
        for machine in objects(cluster, NODES):
            run.chaos.vm_stop(machine["metadata"]["name"])
        run.advance("1m")
    assert run.outcome.volumes[volume.name].unjudged.startswith(
        "all machines with its replicas are off"
    )
    assert run.outcome.volumes.unknown == list(run.outcome.volumes)


def test_failed_body_is_cleaned_up(cluster, runner_of):
    def body(run):
        run.volumes.create("none")
        run.chaos.network_block("node-1", "node-2")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), runner_of() as run:
        body(run)
    assert run.outcome.leftovers == []
    assert objects(cluster, REPLICATED_VOLUMES) == []
    assert objects(cluster, CILIUM_NETWORK_POLICIES, run.context.parent.api_for("test")) == []
