"""The same daemon behind a real API server: the definitions are taken, and what is said to be
injected is.
"""

import contextlib

import pytest
from meshed import Mesh

from pytest_kscen.clusters.controlplane.cluster import ControlPlaneCluster
from pytest_kscen.models.chaos_mesh import install
from pytest_kscen.objects.chaos_mesh import OWN, OWN_GROUP, SHIPPED
from pytest_kscen.objects.chaos_mesh_definitions import engine_definitions
from pytest_kscen.objects.errors import Invalid

pytestmark = pytest.mark.controlplane


@pytest.fixture(scope="module")
def mesh():
    with contextlib.closing(ControlPlaneCluster("chaos-mesh", nodes=2)) as cluster:
        yield Mesh("chaos-mesh", cluster=cluster)


@pytest.fixture
def pods(mesh):
    for number in (1, 2):
        mesh.pod(f"pod-{number}", node=f"node-{number}")
    mesh.cluster.until(
        lambda: {pod["status"].get("phase") for pod in mesh.pods().values()} == {"Running"}, "30s"
    )
    yield list(mesh.pods())
    for name in mesh.pods():
        mesh.remove(name)


def gone(mesh, kind):
    mesh.delete(kind)
    mesh.cluster.until(lambda: mesh.see(kind) is None, "10s")


def test_network_chaos_matches_the_real_controller(mesh, pods):
    one, other = pods
    target = {"mode": "all", "selector": {"labelSelectors": {"app": other}}}
    mesh.chaos("NetworkChaos", app=one, action="partition", direction="both", target=target)
    mesh.cluster.until(lambda: mesh.conditions("NetworkChaos") == "SI", "10s")
    assert mesh.cut(one, other)
    assert mesh.cut(other, one)
    gone(mesh, "NetworkChaos")
    assert not mesh.cut(one, other)


@pytest.mark.parametrize("action", ["pod-kill", "container-kill", "pod-failure"])
def test_pod_chaos_matches_the_real_controller(mesh, pods, action):
    mesh.chaos("PodChaos", app=pods[0], action=action)
    mesh.cluster.until(lambda: mesh.conditions("PodChaos") == "SI", "30s")
    assert (pods[0] in mesh.pods()) is (action != "pod-kill")
    gone(mesh, "PodChaos")


def test_four_kinds_are_served_in_both_groups(mesh):
    mesh.call(install(mesh.api, mesh.cluster.runner.clock, engine_definitions(OWN_GROUP)))
    template = {"name": "a", "templateType": "Suspend", "deadline": "1s", "retry": {"limit": 1}}
    for family in (SHIPPED, OWN):
        obj = mesh.make(
            family.workflows, {"name": "w"}, {"entry": "a", "templates": [template], "onExit": "a"}
        )
        assert obj["spec"]["templates"] == [template]
        told = mesh.call(
            mesh.api.patch(
                family.workflows,
                "w",
                {"status": {"phase": "Running"}},
                "default",
                subresource="status",
            )
        )
        assert told["status"] == {"phase": "Running"}
        with pytest.raises(Invalid, match="entry"):
            mesh.make(family.workflows, {"name": "x"}, {"templates": []})
