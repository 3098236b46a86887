"""Cleanup before and after a run, on owned and on foreign clusters."""

from __future__ import annotations

import dataclasses

import pytest
from chaos_cluster import VMS, chaos_cluster

from pytest_kscen.chaos import cleanup, manual_faults
from pytest_kscen.chaos.clients import add_rule, job, remove_rule
from pytest_kscen.chaos.incidents import cause_incident
from pytest_kscen.kube.api import ForwardingApi
from pytest_kscen.objects.errors import Forbidden, ServiceUnavailable
from pytest_kscen.objects.resources import CILIUM_NETWORK_POLICIES, JOBS, NAMESPACES
from pytest_kscen.objects.storage import NAMESPACE as STORAGE
from pytest_kscen.objects.virtualization import VIRTUAL_MACHINE_OPERATIONS

OTHERS = {"app": "theirs"}
GO = {"chaos.megatest/type": "blocking-everything"}
OURS = {"kscen.io/run": "an-older-run"}
GO_SCRIPT = (
    'set -e\nCOMMENT="node-1-add-iptables"\nwhile iptables -L INPUT --line-numbers | grep -q '
    '"$COMMENT"; do true; done\n'
)


def create_leftovers(world):
    for name, labels in (("theirs", OTHERS), ("go", GO), ("ours", OURS)):
        world.make(
            CILIUM_NETWORK_POLICIES, f"{name}-policy", VMS, metadata={"labels": labels}, spec={}
        )
        world.call(world.api.create(JOBS, job(f"{name}-job", "", "true", 10, labels)))
        world.call(
            world.api.create(
                JOBS,
                {
                    **job(f"{name}-elsewhere", "", "true", 10, labels),
                    "metadata": elsewhere(name, labels),
                },
            )
        )
    world.make(CILIUM_NETWORK_POLICIES, "far", "default", metadata={"labels": OTHERS}, spec={})


def elsewhere(name, labels):
    return {"name": f"{name}-elsewhere", "namespace": VMS, "labels": labels}


def test_owned_cluster_loses_all_policies_and_jobs():
    with chaos_cluster() as world:
        create_leftovers(world)
        world.call(cleanup.clear_before(world.context))

        assert world.names(CILIUM_NETWORK_POLICIES) == []
        assert world.names(JOBS, "default") == []
        assert world.names(JOBS, VMS) == []


def test_jobs_of_system_and_storage_namespaces_are_kept():
    with chaos_cluster() as world:
        world.make(NAMESPACES, STORAGE)
        for namespace in ("kube-system", STORAGE, "default", VMS):
            metadata = {"name": "one", "namespace": namespace}
            world.call(
                world.api.create(JOBS, {**job("one", "", "true", 10, {}), "metadata": metadata})
            )
        world.call(cleanup.clear_before(world.context))

        assert [
            world.names(JOBS, namespace) for namespace in ("kube-system", STORAGE, "default", VMS)
        ] == [
            ["one"],
            ["one"],
            [],
            [],
        ]


def test_foreign_cluster_loses_only_chaos_objects():
    with chaos_cluster(owned=False) as world:
        create_leftovers(world)
        world.call(cleanup.clear_before(world.context))

        assert world.names(CILIUM_NETWORK_POLICIES) == ["far", "theirs-policy"]
        assert world.names(JOBS, "default") == ["theirs-job"]
        assert world.names(JOBS, VMS) == ["go-elsewhere", "ours-elsewhere", "theirs-elsewhere"]


def test_finished_chaos_operations_are_deleted():
    with chaos_cluster() as world:
        for name, phase, labels in (
            ("a", "Completed", OURS),
            ("b", "InProgress", OURS),
            ("c", "Completed", OTHERS),
        ):
            world.make(
                VIRTUAL_MACHINE_OPERATIONS,
                name,
                VMS,
                metadata={"labels": labels},
                spec={},
                status={"phase": phase},
            )
        world.call(cleanup.clear_before(world.context))

        assert world.names(VIRTUAL_MACHINE_OPERATIONS, VMS) == ["b", "c"]


@pytest.mark.parametrize(("phase", "waited"), [("InProgress", 300), ("Completed", 0)])
def test_unfinished_stop_is_deleted_without_starting_the_machine(phase, waited):
    with chaos_cluster() as world:
        stop = {"type": "Stop", "virtualMachineName": "node-1"}
        metadata = {"labels": OURS}
        world.make(
            VIRTUAL_MACHINE_OPERATIONS,
            "chaos-stop-x",
            VMS,
            metadata=metadata,
            spec=stop,
            status={"phase": phase},
        )
        began = world.journal.now
        world.call(cleanup.clear_before(world.context))

        assert world.journal.now == began + waited
        assert world.names(VIRTUAL_MACHINE_OPERATIONS, VMS) == []
        assert [data["verb"] for _, _, data in world.journal_records("wrote")] == ["delete"]


@pytest.mark.parametrize(
    ("script", "mark"),
    [
        (add_rule("chaos-losses-x-add-a", "10.0.0.1", 0.1), "kscen/"),
        (remove_rule("chaos-losses-x-add-a", "10.0.0.1", 0.1, 30), "kscen/"),
        (GO_SCRIPT, "node-1-add-iptables"),
        (
            'iptables -A INPUT -s 10.0.0.1 -m comment --comment "node-1-add-iptables" -j DROP',
            "node-1-add-iptables",
        ),
    ],
)
def test_chaos_jobs_name_nodes_that_may_keep_rules(script, mark):
    assert cleanup.marks([job("j", "node-1", script, 30, {})]) == [("node-1", mark)]


def test_other_jobs_name_no_nodes():
    assert (
        cleanup.marks(
            [job("j", "node-1", 'echo --comment "x"', 30, {}), job("k", "", GO_SCRIPT, 30, {})]
        )
        == []
    )


def at_once(monkeypatch, refused=()):
    """Return the swept nodes and their rule mark; sweeps of refused nodes fail."""
    found = []

    async def order(actor, name, node, mark, labels):
        if node in refused:
            raise Forbidden("you cannot create jobs on it")

    async def swept(actor, name, node, mark):
        found.append((node, mark))

    monkeypatch.setattr(cleanup, "create_sweep", order)
    monkeypatch.setattr(cleanup, "finish_sweep", swept)
    return found


def test_each_node_is_swept_once(monkeypatch):
    swept = at_once(monkeypatch)
    with chaos_cluster(nodes=2) as world:
        for number in range(2):
            for node in ("node-1", "node-9"):
                script = add_rule(f"j{number}", "10.0.0.1", 0.1)
                world.call(world.api.create(JOBS, job(f"j{number}-{node}", node, script, 30, GO)))
        world.call(cleanup.clear_before(world.context))

        assert swept == [("node-1", "kscen/")]
        assert world.names(JOBS, "default") == []


def test_node_that_may_not_be_swept_is_reported_and_the_next_is_swept(monkeypatch):
    swept = at_once(monkeypatch, refused=["node-1"])
    with chaos_cluster(nodes=2) as world:
        for node in ("node-1", "node-2"):
            world.call(
                world.api.create(
                    JOBS, job(f"on-{node}", node, add_rule("j", "10.0.0.1", 0.1), 30, GO)
                )
            )
        with pytest.raises(Forbidden):
            world.call(cleanup.clear_before(world.context))
        assert swept == [("node-2", "kscen/")]
        assert [data for _, _, data in world.journal_records("not-swept")] == [
            {"nodes": ["node-1"], "why": "you cannot create jobs on it"}
        ]


def test_rules_on_unreachable_node_are_reported_in_journal_and_log(caplog):
    with chaos_cluster(nodes=2) as world:
        for node in ("node-1", "node-2"):
            world.call(
                world.api.create(
                    JOBS, job(f"on-{node}", node, add_rule(f"on-{node}", "10.0.0.1", 0.1), 30, OURS)
                )
            )
        world.runner.advance(20)
        world.cluster.site.machines.power_off("node-1")
        began = world.journal.now
        world.call(cleanup.clear_before(world.context))

        why = (
            "it is unknown whether node-1 still has the iptables rules with 'kscen/' in "
            "their comment"
        )
        ((at, _, data),) = world.journal_records("not-swept")
        assert (at - began, data) == (60, {"nodes": ["node-1"], "why": why})
        assert [data["node"] for _, _, data in world.journal_records("rules-swept")] == ["node-2"]
        (record,) = caplog.records
        assert (record.levelname, record.name) == ("WARNING", "pytest_kscen.chaos-cleaner")
        assert (
            record.getMessage()
            == f"chaos-cleaner: rules of iptables may be left node=node-1 why={why}"
        )

        (there,) = world.names(JOBS, "default")
        world.call(cleanup.clear_before(world.context))
        assert [data["nodes"] for _, _, data in world.journal_records("not-swept")] == [
            ["node-1"]
        ] * 2
        assert world.names(JOBS, "default") not in ([], [there])


def test_nothing_is_left_after_a_run():
    with chaos_cluster(owned=False) as world:
        create_leftovers(world)
        world.call(cause_incident(world.context, manual_faults.network_block("node-1", "node-2")))
        world.call(cleanup.clear_after(world.context))

        assert world.names(CILIUM_NETWORK_POLICIES, VMS) == [
            "go-policy",
            "ours-policy",
            "theirs-policy",
        ]


def test_jobs_are_deleted_without_a_parent():
    with chaos_cluster() as world:
        create_leftovers(world)
        world.context = type(world.context)(
            world.context.api_for,
            world.context.clock,
            world.context.chance,
            world.journal,
            "run-1",
            owned=True,
            parent=None,
        )
        world.call(cleanup.clear_before(world.context))

        assert world.names(JOBS, "default") == []


class Refusing(ForwardingApi):
    """API that refuses all requests for one resource."""

    def __init__(self, api, resource, refusal):
        super().__init__(api)
        self.resource, self.refusal = resource, refusal
        self.create = api.create

    async def list(self, resource, namespace="", **options):
        return await self._unless_refused(resource, self._api.list(resource, namespace, **options))

    async def delete(self, resource, name, namespace="", **options):
        return await self._unless_refused(
            resource, self._api.delete(resource, name, namespace, **options)
        )

    async def _unless_refused(self, resource, request):
        if resource == self.resource:
            request.close()
            raise self.refusal
        return await request


@pytest.mark.parametrize("refusal", [Forbidden("not yours"), ServiceUnavailable("no leader")])
@pytest.mark.parametrize("refused", [JOBS, CILIUM_NETWORK_POLICIES, VIRTUAL_MACHINE_OPERATIONS])
def test_refusal_at_the_end_does_not_stop_the_other_deletions(refused, refusal):
    with chaos_cluster() as world:
        mine = {"labels": {"kscen.io/run": "run-1"}}
        kinds = (JOBS, "default"), (CILIUM_NETWORK_POLICIES, VMS), (VIRTUAL_MACHINE_OPERATIONS, VMS)
        for resource, namespace in kinds:
            spec = (
                {"template": job("x", "", "true", 10, {})["spec"]["template"]}
                if resource == JOBS
                else {}
            )
            world.make(resource, "mine", namespace, metadata=mine, spec=spec)

        def api_for(name):
            return Refusing(world.cluster.api(name), refused, refusal)

        parent = dataclasses.replace(world.context.parent, api_for=api_for)
        with pytest.raises(type(refusal)):
            world.call(
                cleanup.clear_after(
                    dataclasses.replace(world.context, api_for=api_for, parent=parent)
                )
            )
        left = {resource: world.names(resource, namespace) for resource, namespace in kinds}
        assert left == {resource: ["mine"] if resource == refused else [] for resource, _ in kinds}


def test_deleted_leftovers_are_reported_by_name(caplog):
    with chaos_cluster() as world, caplog.at_level("INFO"):
        create_leftovers(world)
        world.call(cleanup.clear_before(world.context))
    assert any(
        "clear away before the run resource=jobs.batch object=go-job" in record.getMessage()
        for record in caplog.records
    )


def test_error_in_one_step_does_not_stop_the_other_steps():
    taken = []

    async def step(number):
        taken.append(number)
        if number < 3:
            raise [KeyError("name"), Forbidden("no")][number - 1]

    with chaos_cluster() as world, pytest.raises(ExceptionGroup) as failed:
        world.call(cleanup._all([step(1), step(2), step(3)]))
    assert taken == [1, 2, 3]
    assert [type(error) for error in failed.value.exceptions] == [KeyError, Forbidden]
