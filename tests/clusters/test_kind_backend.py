from __future__ import annotations

import os
import pathlib
import sys

import pytest

from pytest_kscen.clusters.cluster import ClusterRefused
from pytest_kscen.clusters.kind import KindBackedCluster, KindOptions, SharedKindCluster

WORKERS = """
    import os
    import pytest
    from pytest_kscen.clusters.kind import KindOptions, SharedKindCluster

    @pytest.fixture(scope="session")
    def kind(testrun_uid):
        share = SharedKindCluster(KindOptions(run=testrun_uid, program={program!r}))
        facts = share.acquire()
        yield facts["name"]
        share.release()

    @pytest.mark.parametrize("n", range(6))
    def test_a(kind, n):
        assert kind.startswith("kscen-")
        {crash}
"""


def cluster_options(docker, **more):
    return KindOptions(run="run", program=str(docker.program), **more)


def test_options_select_kind_cluster():
    words = {
        "cluster_name": "mine",
        "kind_image": "i",
        "kind_bin": "/k",
        "kind_kubectl_bin": "/c",
        "keep_cluster": True,
    }
    assert KindOptions.of(words.get, "run") == KindOptions(
        "run", "mine", "i", "/k", "/c", keep=True
    )
    unnamed = KindOptions.of(lambda _, default: default)
    assert unnamed == KindOptions()
    assert unnamed.cluster_name == f"kscen-{os.getpid()}"
    assert (
        KindOptions.of({"cluster_name": "pytest-kind"}.get, "r" * 32).cluster_name
        == f"kscen-{'r' * 12}"
    )


def test_cluster_is_shared(docker):
    first, second = (
        SharedKindCluster(cluster_options(docker)),
        SharedKindCluster(cluster_options(docker)),
    )
    assert first.acquire()["name"] == second.acquire()["name"] == "kscen-run"
    assert "hollow" in first.kubeconfig.read_text()
    first.release()
    assert docker.clusters() == ["kscen-run"]
    second.release()
    assert docker.clusters() == []
    assert docker.calls("create", "delete") == ["create cluster", "delete cluster"]
    assert not first.kubeconfig.exists()
    assert not pathlib.Path(".pytest-kind").exists()


def test_existing_cluster_is_used_and_kept(docker):
    earlier = SharedKindCluster(cluster_options(docker, name="mine", keep=True))
    assert earlier.acquire()["ours"] is True
    earlier.release()
    assert docker.clusters() == ["mine"]

    share = SharedKindCluster(cluster_options(docker, name="mine"))
    assert share.acquire()["ours"] is False
    assert "hollow" in share.kubeconfig.read_text()
    share.release()
    assert docker.clusters() == ["mine"]


def test_failed_creation_leaves_no_cluster(docker, monkeypatch):
    monkeypatch.setenv("KSCEN_STANDIN_MODE", "failing")
    share = SharedKindCluster(cluster_options(docker, keep=True))
    with pytest.raises(
        ClusterRefused,
        match=r"kind created no cluster 'kscen-run': .* ended with 1; .* Check that Docker is running",
    ):
        share.acquire()
    assert docker.clusters() == []
    assert not share.kubeconfig.parent.exists()


def test_image_and_nodes_are_passed_to_kind(docker):
    share = SharedKindCluster(cluster_options(docker, image="kindest/node:v1.36.4"), nodes=3)
    share.acquire()
    (created,) = [
        line
        for line in (docker.folder / "calls").read_text().splitlines()
        if line.startswith("create")
    ]
    assert "--image=kindest/node:v1.36.4" in created
    assert (share.kubeconfig.parent / "kind.json").read_text().count('"worker"') == 2
    with pytest.raises(
        ClusterRefused,
        match="a test run has one kind cluster, and 'kscen-run' was made with 3 nodes, not with 5",
    ):
        SharedKindCluster(cluster_options(docker), nodes=5).acquire()
    SharedKindCluster(cluster_options(docker)).acquire()
    assert docker.clusters() == ["kscen-run"]


def test_missing_kind_program_is_refused(docker):
    with pytest.raises(ClusterRefused, match=r"^--kind-bin: there is no program 'nowhere/kind'$"):
        SharedKindCluster(KindOptions(program="nowhere/kind"))


def test_clusters_of_killed_runs_are_deleted(docker, tmp_path):
    killed = os.fork()
    if not killed:
        SharedKindCluster(KindOptions(run="killed", program=str(docker.program))).acquire()
        os._exit(0)
    os.waitpid(killed, 0)
    assert docker.clusters() == ["kscen-killed"]
    share = SharedKindCluster(cluster_options(docker))
    share.acquire()
    assert docker.clusters() == ["kscen-run"]
    share.release()


def test_missing_pytest_kind_error_has_remedy(docker, monkeypatch):
    monkeypatch.setitem(sys.modules, "pytest_kind", None)
    with pytest.raises(
        ClusterRefused, match=r"not installed: run `pip install 'pytest-kscen\[kind\]'"
    ):
        SharedKindCluster(cluster_options(docker))


@pytest.mark.parametrize("crash", ["", "n or os._exit(1)"])
def test_workers_share_cluster_despite_crash(docker, pytester, crash):
    pytester.makepyfile(WORKERS.format(program=str(docker.program), crash=crash))
    result = pytester.runpytest_subprocess(
        "-n2", "-p", "no:cacheprovider", "-W", "default", "--max-worker-restart=1"
    )
    result.assert_outcomes(passed=5 if crash else 6, failed=1 if crash else 0)
    assert docker.clusters() == []
    assert set(docker.calls("create", "delete")) == {"create cluster", "delete cluster"}


@pytest.mark.controlplane
def test_kind_cluster_runs_workloads(docker, monkeypatch):
    import kubernetes

    monkeypatch.setenv("KSCEN_STANDIN_MODE", "real")
    first = KindBackedCluster(cluster_options(docker))
    second = KindBackedCluster(cluster_options(docker))
    try:
        assert first.owned
        assert not first.replayable
        kubernetes.client.CoreV1Api(first.client).create_namespaced_config_map(
            "default", {"metadata": {"name": "seen"}}
        )
        assert kubernetes.client.CoreV1Api(second.client).read_namespaced_config_map(
            "seen", "default"
        )
        assert "service/kubernetes" in second.kind.kubectl("get", "services", "-o", "name")
        second.kind.load_docker_image("example")
    finally:
        first.close()
        second.close()
    assert docker.calls("create", "delete") == ["create cluster", "delete cluster"]


@pytest.mark.controlplane
@pytest.mark.parametrize("workers", [0, 2])
def test_plugin_creates_one_cluster_per_run(docker, pytester, monkeypatch, workers):
    monkeypatch.setenv("KSCEN_STANDIN_MODE", "real")
    pytester.makepyfile(
        """
        import kubernetes
        import pytest

        @pytest.mark.parametrize("n", range(4))
        def test_a(cluster, n):
            assert cluster.backend == "kind" and cluster.owned
            core = kubernetes.client.CoreV1Api(cluster.client)
            core.create_namespaced_config_map("default", {"metadata": {"name": f"n{n}"}})
        """
    )
    result = pytester.runpytest_subprocess(
        f"-n{workers}",
        "-p",
        "no:cacheprovider",
        "-W",
        "default",
        "--kscen-cluster=kind",
        f"--kind-bin={docker.program}",
    )
    result.assert_outcomes(passed=4)
    assert docker.clusters() == []
    assert docker.calls("create", "delete") == ["create cluster", "delete cluster"]
