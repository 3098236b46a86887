"""The simulated daemon on a real API server: definitions are accepted and chaos is injected."""

import contextlib

import pytest
from mesh_cluster import MeshCluster

from pytest_kscen.clusters.controlplane.cluster import ControlPlaneCluster
from pytest_kscen.models.chaos_mesh import install
from pytest_kscen.objects.chaos_mesh import OWN, OWN_GROUP, SHIPPED
from pytest_kscen.objects.chaos_mesh_definitions import engine_definitions
from pytest_kscen.objects.errors import Invalid
from pytest_kscen.run.workflows import add_probe_fields
from pytest_kscen.workflow.probes.probe import PROBE_FORMS

pytestmark = pytest.mark.controlplane


@pytest.fixture(scope="module")
def mesh_cluster():
    with contextlib.closing(ControlPlaneCluster("chaos-mesh", nodes=2)) as cluster:
        yield MeshCluster("chaos-mesh", cluster=cluster)


@pytest.fixture
def pods(mesh_cluster):
    for number in (1, 2):
        mesh_cluster.pod(f"pod-{number}", node=f"node-{number}")
    mesh_cluster.cluster.until(
        lambda: {pod["status"].get("phase") for pod in mesh_cluster.pods().values()} == {"Running"},
        "30s",
    )
    yield list(mesh_cluster.pods())
    for name in mesh_cluster.pods():
        mesh_cluster.remove(name)


def gone(mesh_cluster, kind):
    mesh_cluster.delete(kind)
    mesh_cluster.cluster.until(lambda: mesh_cluster.see(kind) is None, "10s")


def test_network_chaos_matches_the_real_controller(mesh_cluster, pods):
    one, other = pods
    target = {"mode": "all", "selector": {"labelSelectors": {"app": other}}}
    mesh_cluster.chaos("NetworkChaos", app=one, action="partition", direction="both", target=target)
    mesh_cluster.cluster.until(lambda: mesh_cluster.conditions("NetworkChaos") == "SI", "10s")
    assert mesh_cluster.cut(one, other)
    assert mesh_cluster.cut(other, one)
    gone(mesh_cluster, "NetworkChaos")
    assert not mesh_cluster.cut(one, other)


@pytest.mark.parametrize("action", ["pod-kill", "container-kill", "pod-failure"])
def test_pod_chaos_matches_the_real_controller(mesh_cluster, pods, action):
    mesh_cluster.chaos("PodChaos", app=pods[0], action=action)
    mesh_cluster.cluster.until(lambda: mesh_cluster.conditions("PodChaos") == "SI", "30s")
    assert (pods[0] in mesh_cluster.pods()) is (action != "pod-kill")
    gone(mesh_cluster, "PodChaos")


def test_four_kinds_are_served_in_both_groups(mesh_cluster):
    mesh_cluster.call(
        install(mesh_cluster.api, mesh_cluster.cluster.runner.clock, engine_definitions(OWN_GROUP))
    )
    template = {"name": "a", "templateType": "Suspend", "deadline": "1s", "retry": {"limit": 1}}
    for family in (SHIPPED, OWN):
        obj = mesh_cluster.make(
            family.workflows, {"name": "w"}, {"entry": "a", "templates": [template], "onExit": "a"}
        )
        assert obj["spec"]["templates"] == [template]
        reported = mesh_cluster.call(
            mesh_cluster.api.patch(
                family.workflows,
                "w",
                {"status": {"phase": "Running"}},
                "default",
                subresource="status",
            )
        )
        assert reported["status"] == {"phase": "Running"}
        with pytest.raises(Invalid, match="entry"):
            mesh_cluster.make(family.workflows, {"name": "x"}, {"templates": []})


def test_definitions_of_an_earlier_run_get_the_fields_of_new_probes(mesh_cluster):
    class Form:
        key, patience, of, ask = "clock", 1.0, None, None

    def kept():
        probe = {"name": "p", "when": "Start", "clock": {"before": "2030"}}
        template = {"name": "a", "templateType": "Suspend", "deadline": "1s", "probes": [probe]}
        body = {"entry": "a", "templates": [template]}
        made = mesh_cluster.call(
            mesh_cluster.api.create(
                OWN.workflows,
                {
                    "apiVersion": OWN.workflows.api_version,
                    "kind": "Workflow",
                    "metadata": {"generateName": "w-", "namespace": "default"},
                    "spec": body,
                },
            )
        )
        return "clock" in made["spec"]["templates"][0]["probes"][0]

    clock, definitions = mesh_cluster.cluster.runner.clock, engine_definitions(OWN_GROUP)
    mesh_cluster.call(install(mesh_cluster.api, clock, definitions))
    mesh_cluster.call(add_probe_fields(mesh_cluster.api, clock, definitions))
    assert not kept()
    PROBE_FORMS.add(Form)
    try:
        mesh_cluster.call(add_probe_fields(mesh_cluster.api, clock, definitions))
        assert kept()
    finally:
        PROBE_FORMS.discard(Form)
