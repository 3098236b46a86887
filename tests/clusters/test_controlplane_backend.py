from __future__ import annotations

import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import time

import kubernetes
import pytest

from pytest_kscen.clusters import open_cluster
from pytest_kscen.clusters.cluster import ClusterRefused
from pytest_kscen.clusters.controlplane import programs, starting
from pytest_kscen.clusters.controlplane.cluster import ControlPlaneCluster
from pytest_kscen.objects.errors import Unauthorized
from pytest_kscen.objects.resources import PODS, SERVICE_ACCOUNTS

SLEEPING_RUN = """
import sys, time
from pytest_kscen.clusters.controlplane.cluster import ControlPlaneCluster

cluster = ControlPlaneCluster(nodes=0)
print(cluster.processes.folder, *(cluster.processes.pid(name) for name in sys.argv[1:]), flush=True)
time.sleep(1000)
"""


@pytest.fixture
def install_program(tmp_path, monkeypatch):
    """Install programs that only sleep, and return a function that replaces one."""
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)

    def put(name, words):
        (tmp_path / name).write_text(f"#!/bin/sh\n{words}\n")
        (tmp_path / name).chmod(0o755)

    for name in programs.SERVER_PROGRAMS:
        put(name, "exec sleep 1000")
    return put


def leftovers(tmp_path):
    return list(tmp_path.glob("kscen-*"))


def test_start_failure_shows_end_of_program_log(install_program, tmp_path):
    install_program(
        "kube-apiserver", "for i in $(seq 30); do echo line $i; done; echo 'bad flag' >&2; exit 1"
    )
    with pytest.raises(ClusterRefused) as refusal:
        ControlPlaneCluster()
    lines = str(refusal.value).splitlines()
    assert lines[0] == (
        "the real control plane did not start: kube-apiserver ended early. The end of its log:"
    )
    assert lines[-1] == "bad flag"
    assert len(lines) == 16
    assert leftovers(tmp_path) == []


def test_unresponsive_api_server_is_refused(install_program, tmp_path, monkeypatch):
    monkeypatch.setattr(starting, "START_TIMEOUT", 0.3)
    install_program("kube-apiserver", "echo thinking; exec sleep 1000")
    with pytest.raises(
        ClusterRefused,
        match=r"kube-apiserver did not serve within 0 s. The end of its log:\nthinking",
    ):
        ControlPlaneCluster()
    assert leftovers(tmp_path) == []


def test_taken_port_is_replaced(install_program, tmp_path):
    ports = tmp_path / "ports"
    install_program(
        "kube-apiserver",
        f'echo "$@" >> {ports}; echo "listen tcp 127.0.0.1: bind: address already in use"; exit 1',
    )
    with pytest.raises(
        ClusterRefused,
        match="no port for a kube-apiserver: 5 that were free were taken before it came up",
    ):
        ControlPlaneCluster()
    tried = [word for word in ports.read_text().split() if word.startswith("--secure-port=")]
    assert len(set(tried)) == 5
    assert leftovers(tmp_path) == []


def test_missing_programs_are_refused(tmp_path, monkeypatch):
    for variable in ("KUBEBUILDER_ASSETS", "KSCEN_CACHE", "PATH"):
        monkeypatch.setenv(variable, str(tmp_path))
    with pytest.raises(ClusterRefused, match="python -m pytest_kscen controlplane build"):
        open_cluster("controlplane", seed="1")


@pytest.fixture(scope="module")
def cluster():
    with contextlib.closing(open_cluster("controlplane", seed="1", nodes=0)) as cluster:
        yield cluster


@pytest.mark.controlplane
def test_opened_cluster_is_ready(cluster):
    assert cluster.owned
    assert not cluster.replayable
    assert kubernetes.client.VersionApi(cluster.client).get_code().git_version.startswith("v1.")
    assert cluster.runner.call(cluster.api().get(SERVICE_ACCOUNTS, "default", "default"))


@pytest.mark.controlplane
def test_request_without_token_is_unauthorized(cluster):
    import aiohttp

    async def ask():
        url = f"{cluster.client.configuration.host}/api/v1/nodes"
        async with aiohttp.ClientSession() as session, session.get(url, ssl=False) as response:
            return response.status

    assert cluster.runner.call(ask()) == Unauthorized.code


@pytest.mark.controlplane
def test_workloads_run_on_simulated_nodes():
    with contextlib.closing(ControlPlaneCluster(nodes=2)) as cluster:
        run_a_deployment(cluster)
        read_a_log(cluster)


def read_a_log(cluster):
    core = kubernetes.client.CoreV1Api(cluster.client)
    container = {
        "name": "c",
        "image": "busybox",
        "command": ["sh", "-c", "echo one; echo two; sleep 3600"],
    }
    core.create_namespaced_pod(
        "default", {"metadata": {"name": "talker"}, "spec": {"containers": [container]}}
    )
    cluster.until(
        lambda: core.read_namespaced_pod("talker", "default").status.phase == "Running",
        timeout="60s",
    )
    assert cluster.runner.call(cluster.api().log("talker", "default")) == "one\ntwo\n"
    assert core.read_namespaced_pod_log("talker", "default", tail_lines=1) == "two\n"


def run_a_deployment(cluster):
    core, apps = (
        kubernetes.client.CoreV1Api(cluster.client),
        kubernetes.client.AppsV1Api(cluster.client),
    )
    assert len(core.list_node().items) == 2
    container = {"name": "c", "image": "pause"}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}}
    spec = {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    apps.create_namespaced_deployment("default", {"metadata": {"name": "web"}, "spec": spec})
    cluster.until(
        lambda: apps.read_namespaced_deployment("web", "default").status.ready_replicas == 3,
        timeout="60s",
    )
    pods = cluster.runner.call(cluster.api().list(PODS, "default")).items
    assert {pod["status"]["phase"] for pod in pods} == {"Running"}


@pytest.mark.controlplane
def test_until_raises_timeout_error(cluster):
    before = cluster.now
    cluster.advance("0.1s")
    assert 0.1 <= cluster.now - before < 10
    with pytest.raises(
        TimeoutError, match=r"not true within 0.2s of cluster time: .*lambda: False"
    ):
        cluster.until(lambda: False, timeout="0.2s")


@pytest.mark.controlplane
def test_kubectl_reads_namespace(cluster):
    kubectl = programs.find_programs(("kubectl",))["kubectl"]
    command = [
        kubectl,
        "--kubeconfig",
        cluster.kubeconfig,
        "get",
        "namespace",
        "default",
        "-o",
        "name",
    ]
    assert (
        subprocess.run(command, capture_output=True, text=True, check=True).stdout
        == "namespace/default\n"
    )


@pytest.mark.controlplane
def test_concurrent_control_planes_are_separate(cluster):
    with contextlib.closing(ControlPlaneCluster(nodes=0)) as other:
        kubernetes.client.CoreV1Api(other.client).create_namespace(
            {"metadata": {"name": "elsewhere"}}
        )
        folder = other.processes.folder
        os.kill(other.processes.pid("kube-scheduler"), signal.SIGKILL)
        with pytest.raises(TimeoutError) as late:
            other.until(lambda: False, timeout="0.5s")
        assert late.value.__notes__[0].startswith(
            "kube-scheduler of the real control plane has ended."
        )
    here = [
        item.metadata.name
        for item in kubernetes.client.CoreV1Api(cluster.client).list_namespace().items
    ]
    assert "elsewhere" not in here
    assert not folder.exists()


@pytest.mark.controlplane
def test_killed_run_leaves_no_processes():
    run = subprocess.Popen(
        [sys.executable, "-c", SLEEPING_RUN, *programs.SERVER_PROGRAMS],
        stdout=subprocess.PIPE,
        text=True,
    )
    folder, *pids = run.stdout.readline().split()
    assert len(pids) == 4
    os.kill(run.pid, signal.SIGKILL)
    run.communicate()
    for _ in range(300):
        if not pathlib.Path(folder).exists() and not any(
            pathlib.Path(f"/proc/{pid}").exists() for pid in pids
        ):
            return
        time.sleep(0.1)
    raise AssertionError(f"{folder} or one of {pids} is still there after 30 s")
