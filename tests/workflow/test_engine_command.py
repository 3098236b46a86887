"""The engine command beside a real API server, also with Chaos Mesh's definitions present."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import urllib.request

import pytest
from test_engine import suspend, template, workflow

from pytest_kscen.objects.chaos_mesh import OWN, SHIPPED, is_over, phase_of
from pytest_kscen.objects.chaos_mesh_definitions import recorded
from pytest_kscen.objects.resources import CUSTOM_RESOURCE_DEFINITIONS, LEASES
from pytest_kscen.run.workflow_setup import LEASE_NAME, LEASE_NAMESPACE

pytestmark = pytest.mark.controlplane

APPLIED = workflow(
    "entry", template("entry", "Serial", children=["first", "first"]), suspend("first", "1s")
)


@contextlib.contextmanager
def engine(kubeconfig, port):
    command = [
        sys.executable,
        "-m",
        "pytest_kscen",
        "workflow-engine",
        "--kubeconfig",
        str(kubeconfig),
        "--metrics",
        str(port),
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert "are driven from now on" in process.stdout.readline()
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.said = process.communicate(timeout=30)[0]
    assert process.returncode == 0


@pytest.mark.parametrize(
    ("family", "theirs"), [(SHIPPED, False), (OWN, True)], ids=["alone", "beside Chaos Mesh"]
)
def test_applied_workflow_is_driven(family, theirs, free_port):
    from pytest_kscen.clusters.controlplane.cluster import ControlPlaneCluster

    with contextlib.closing(ControlPlaneCluster("somebody", nodes=0)) as cluster:
        api, call = cluster.api("kubectl"), cluster.runner.call
        if theirs:
            definition = {
                "apiVersion": CUSTOM_RESOURCE_DEFINITIONS.api_version,
                "kind": CUSTOM_RESOURCE_DEFINITIONS.kind,
                "metadata": {"name": "workflows.chaos-mesh.org"},
                "spec": recorded().shipped["Workflow"],
            }
            call(api.create(CUSTOM_RESOURCE_DEFINITIONS, definition))
        with engine(cluster.kubeconfig, free_port) as process:
            call(
                api.create(
                    family.workflows,
                    {**APPLIED, "apiVersion": family.workflows.api_version},
                    "default",
                )
            )
            cluster.until(lambda: is_over(call(api.get(family.workflows, "w", "default"))), "1m")
            metrics = (
                urllib.request.urlopen(f"http://127.0.0.1:{free_port}/metrics", timeout=10)
                .read()
                .decode()
            )
        assert process.said.splitlines() == [
            "default/w Init",
            "default/w Running",
            "default/w Succeed",
        ]
        nodes = call(api.list(family.nodes, "default")).items
        assert sorted((node["spec"]["templateName"], phase_of(node)) for node in nodes) == [
            *(("entry", "Succeed"), ("first", "Succeed"), ("first", "Succeed"))
        ]
        assert 'kscen_workflow_workflows{phase="Succeed"} 1' in metrics.splitlines()
        lease = call(api.get(LEASES, LEASE_NAME, LEASE_NAMESPACE))["spec"]
        assert "holderIdentity" not in lease, "it was not given back"
        assert lease["renewTime"] >= lease["acquireTime"]


POLICY = {
    "matchConstraints": {
        "resourceRules": [
            {
                "apiGroups": [SHIPPED.group],
                "apiVersions": ["*"],
                "operations": ["UPDATE"],
                "resources": [f"{SHIPPED.nodes.plural}/status"],
            }
        ]
    },
    "validations": [{"expression": "false", "message": "not by me"}],
}
BINDING = {"policyName": "mute", "validationActions": ["Deny"]}


def test_workflow_with_refused_statuses_reports_it_and_continues_later(
    free_port,
):
    from pytest_kscen.clusters.controlplane.cluster import ControlPlaneCluster

    with (
        contextlib.closing(ControlPlaneCluster("mute", nodes=0)) as cluster,
        engine(cluster.kubeconfig, free_port),
    ):
        api, call = cluster.api("kubectl"), cluster.runner.call
        for kind, spec in (
            ("ValidatingAdmissionPolicy", POLICY),
            ("ValidatingAdmissionPolicyBinding", BINDING),
        ):
            resource = call(api.resource_of("admissionregistration.k8s.io/v1", kind))
            call(api.create(resource, {"metadata": {"name": "mute"}, "spec": spec}))
        cluster.advance("5s")  # until the API server has heard of it

        def reported():
            workflow = call(api.get(SHIPPED.workflows, "w", "default"))
            return phase_of(workflow), (workflow.get("status") or {}).get("message", "")

        call(api.create(SHIPPED.workflows, APPLIED, "default"))
        cluster.until(lambda: "cannot be written" in reported()[1], "1m")
        assert reported()[0] == "Running"
        assert "not by me" in reported()[1]
        call(api.delete(resource, "mute"))
        cluster.until(lambda: reported() == ("Succeed", ""), "2m")
        assert {phase_of(node) for node in call(api.list(SHIPPED.nodes, "default")).items} == {
            "Succeed"
        }


@pytest.fixture
def free_port():
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        return taken.getsockname()[1]
