"""Several engine processes on one embedded cluster's port: one holds the lease."""

from __future__ import annotations

import contextlib
import re
import signal
import subprocess
import sys
import time

import pytest
import yaml

from pytest_kscen.clusters.embedded import EmbeddedCluster
from pytest_kscen.clusters.kubeconfig import KubeconfigCluster
from pytest_kscen.kube.leases import LEASE_DURATION, LeaseLost
from pytest_kscen.objects.chaos_mesh import SHIPPED
from pytest_kscen.objects.resources import (
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    LEASES,
    VALIDATING_WEBHOOKS,
)
from pytest_kscen.run.plan import Plan
from pytest_kscen.run.runner import ScenarioRunner
from pytest_kscen.run.workflow_setup import LEASE_NAME, LEASE_NAMESPACE, WEBHOOK

DRIVES = "Workflows and Schedules of chaos-mesh.org are driven from now on\n"
WAITS = re.compile(
    r"(workflow-engine \w{5}, process (\d+) on \S+) drives the workflows here, "
    r"and holds the Lease kube-system/workflow-engine\.kscen\.io: waiting for its end\n"
)
LOST = LeaseLost("the Lease kube-system/workflow-engine.kscen.io is held by another now")
FILE = """
apiVersion: v1
kind: ConfigMap
metadata: {name: cast, namespace: default}
---
apiVersion: chaos-mesh.org/v1alpha1
kind: Workflow
metadata: {name: w}
spec: {entry: rest, templates: [{name: rest, templateType: Suspend, deadline: 1s}]}
"""


@pytest.fixture
def cluster():
    with contextlib.closing(EmbeddedCluster("port", nodes=0)) as cluster:
        assert cluster.kubeconfig.exists()
        yield cluster


@pytest.fixture
def start(cluster):
    with contextlib.ExitStack() as started:

        def start():
            command = [
                sys.executable,
                "-m",
                "pytest_kscen",
                "workflow-engine",
                "--kubeconfig",
                str(cluster.kubeconfig),
            ]
            engine = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )
            started.callback(engine.communicate)
            started.callback(engine.kill)
            return engine

        yield start


def pytest_on(cluster, folder):
    (folder / "w.workflow.yaml").write_text(FILE)
    (folder / "pytest.ini").write_text("[pytest]\n")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        "--kubeconfig",
        str(cluster.kubeconfig),
    ]
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, timeout=120
    )


def ends(engine, number):
    engine.send_signal(number)
    return engine.wait(timeout=60)


def test_second_engine_waits_and_takes_over(start):
    first = start()
    assert first.stdout.readline() == DRIVES
    second = start()
    message = WAITS.fullmatch(second.stdout.readline())
    assert message
    assert message[2] == str(first.pid)
    assert ends(first, signal.SIGTERM) == 0
    assert second.stdout.readline() == DRIVES

    third = start()
    assert WAITS.fullmatch(third.stdout.readline())[2] == str(second.pid)
    began = time.monotonic()
    ends(second, signal.SIGKILL)
    assert third.stdout.readline() == DRIVES
    assert time.monotonic() - began < LEASE_DURATION + 5
    assert ends(third, signal.SIGINT) == 0


def test_waiting_engine_can_be_stopped(start):
    first = start()
    assert first.stdout.readline() == DRIVES
    second = start()
    assert WAITS.fullmatch(second.stdout.readline())
    assert ends(second, signal.SIGINT) == 0
    assert second.communicate() == ("", "")
    assert first.poll() is None


def test_engine_losing_the_lease_ends_and_keeps_the_others_webhook(cluster, start):
    engine = start()
    assert engine.stdout.readline() == DRIVES
    call, api = cluster.runner.call, cluster.api("test")
    end = time.monotonic() + 30
    while not call(
        api.list(VALIDATING_WEBHOOKS)
    ).items:  # simulated time stands still: the engine goes by the wall's
        assert time.monotonic() < end
        time.sleep(0.05)
    call(api.patch(LEASES, LEASE_NAME, {"spec": {"holderIdentity": "another"}}, LEASE_NAMESPACE))
    assert engine.wait(timeout=30) == 1
    message = engine.communicate()[1].splitlines()[-1]
    assert message == (
        f"the Lease {LEASE_NAMESPACE}/{LEASE_NAME} is held by another now: another engine "
        "may drive the workflows, so this one has ended"
    )
    assert [each["metadata"]["name"] for each in call(api.list(VALIDATING_WEBHOOKS)).items] == [
        WEBHOOK
    ]


def test_pytest_refuses_while_an_engine_runs_and_releases_the_lease_otherwise(
    cluster, start, tmp_path
):
    engine = start()
    assert engine.stdout.readline() == DRIVES
    played = pytest_on(cluster, tmp_path)
    assert played.returncode == 1, played.stdout
    assert re.search(
        rf"are driven by workflow-engine \w{{5}}, process {engine.pid} on ", played.stdout
    )
    assert "end that first; if it was killed, try again when 15 s are over" in played.stdout
    call, api = cluster.runner.call, cluster.api("test")
    assert call(api.list(SHIPPED.workflows)).items == []
    assert call(api.list(CONFIG_MAPS, "default", fields="metadata.name=cast")).items == []

    assert ends(engine, signal.SIGINT) == 0
    played = pytest_on(cluster, tmp_path)
    assert played.returncode == 0, played.stdout
    assert "holderIdentity" not in call(api.get(LEASES, LEASE_NAME, LEASE_NAMESPACE))["spec"]
    assert call(api.list(CUSTOM_RESOURCE_DEFINITIONS)).items


def test_run_losing_the_lease_fails(cluster):
    hour = yaml.safe_load(FILE.partition("---")[2].replace("1s", "1h"))
    with contextlib.ExitStack() as opened:
        given = opened.enter_context(contextlib.closing(KubeconfigCluster(cluster.kubeconfig)))
        runner = opened.enter_context(contextlib.closing(ScenarioRunner(given, Plan())))

        def play():
            with runner as run:
                workflow = run.workflow(hour)
                run.call(
                    given.api("test").patch(
                        LEASES, LEASE_NAME, {"spec": {"holderIdentity": "another"}}, LEASE_NAMESPACE
                    )
                )
                run.until(workflow.finished, timeout="30s")

        with pytest.raises(LeaseLost, match="is held by another now"):
            play()
        crashed = [each.data for each in runner.runs[0].journal if each.what == "crashed"]
    assert crashed[0] == {"component": "workflow-engine", "error": repr(LOST)}
