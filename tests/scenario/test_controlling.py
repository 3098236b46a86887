"""The scenario controller on a foreign cluster plays applied Scenarios."""

from __future__ import annotations

import contextlib
import subprocess
import sys

import kubernetes
import pytest
import yaml

from pytest_kscen.__main__ import main
from pytest_kscen.clusters.embedded import EmbeddedCluster
from pytest_kscen.clusters.kubeconfig import KubeconfigCluster
from pytest_kscen.commands.scenario_controller import open_scenario_player
from pytest_kscen.objects.resources import SERVICE_ACCOUNTS, Resource
from pytest_kscen.objects.scenarios import SCENARIOS, phase_of
from pytest_kscen.run.plan import ScenarioSettings
from pytest_kscen.scenario.analysis.timeline import Timeline
from pytest_kscen.scenario.waiting import Waiter
from tests.scenario.objects import create, delete, done, node, pod, scenario

RBAC = "rbac.authorization.k8s.io"
CLUSTER_ROLES = Resource(RBAC, "v1", "clusterroles", "ClusterRole", namespaced=False)
CLUSTER_ROLE_BINDINGS = Resource(
    RBAC, "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False
)


def test_cluster_is_emptied_only_with_consent(capsys):
    with contextlib.closing(EmbeddedCluster("somebody", nodes=0)) as cluster:
        assert main(["scenario-controller", "--kubeconfig", str(cluster.kubeconfig)]) == 1
    message = capsys.readouterr().err
    assert (
        "this kubeconfig cluster was not created by this session: allow it with --disposable\n"
    ) in message


@pytest.mark.parametrize("command", [["scenario-controller"], ["record"]])
def test_commands_mention_their_own_options(command, tmp_path, capsys):
    (tmp_path / "config").write_text("{contexts: [], clusters: [], users: []}")
    assert main([*command, "--kubeconfig", str(tmp_path / "config"), "--context", "there"]) == 1
    message = capsys.readouterr().err
    assert "--kscen" not in message
    assert "--context" in message or "--kubeconfig" in message


WAITER = Waiter("painter", {})


@pytest.mark.parametrize(
    ("path", "why"),
    [
        (
            "nowhere:X",
            (
                "--waiter nowhere:X: cannot be imported, write it as in my_module:WAITER: No "
                "module named 'nowhere'"
            ),
        ),
        (f"{__name__}:NONE", "has no attribute 'NONE'"),
        (f"{__name__}:WANTED", "is no waiter: it has no name, resources"),
        (f"{__name__}:WAITER", "this kubeconfig cluster was not created by this session"),
    ],
)
def test_custom_waiters_are_given_by_their_paths(path, why, capsys):
    with contextlib.closing(EmbeddedCluster("somebody", nodes=0)) as cluster:
        assert (
            main(["scenario-controller", "--kubeconfig", str(cluster.kubeconfig), "--waiter", path])
            == 1
        )
    assert why in capsys.readouterr().err


@pytest.fixture
def foreign_cluster():
    from pytest_kscen.clusters.controlplane.cluster import ControlPlaneCluster

    with contextlib.closing(ControlPlaneCluster("somebody", nodes=0)) as cluster:
        yield cluster


WANTED = scenario(create(1, node()), create(2, pod("fits")), done(3))


def pytest_on(kubeconfig, folder, *wanted):
    (folder / "one.scenario.yaml").write_text(yaml.safe_dump_all(wanted or [WANTED]))
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "one.scenario.yaml",
        "--kubeconfig",
        kubeconfig,
        "--kscen-disposable",
    ]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.controlplane
def test_pytest_plays_a_file_on_a_given_cluster(foreign_cluster, tmp_path):
    played = pytest_on(foreign_cluster.kubeconfig, tmp_path)
    assert (played.returncode, "Succeeded after 3 steps" in played.stdout) == (0, True), (
        played.stdout
    )


@pytest.mark.controlplane
def test_controller_that_cannot_be_held_is_refused(foreign_cluster, tmp_path):
    controllers = ["kube-scheduler"], ["replicaset-controller"], []
    off = ["statefulset-controller"], ["kubelet"], ["*"]
    wanted = [
        *(
            scenario(done(1), controllers=each, name=f"simulated-{number}")
            for number, each in enumerate(controllers)
        ),
        *(
            scenario(done(1), disabled=each, name=f"disabled-{number}")
            for number, each in enumerate(off)
        ),
        scenario(
            create(1, node()),
            create(1, pod("a")),
            done(1),
            controllers=[],
            disabled=["kube-scheduler"],
            name="no-scheduler",
        ),
    ]
    expected = {
        "apiVersion": "kscen.io/v1alpha1",
        "kind": "Expectations",
        "scenario": "no-scheduler",
        "pods": {"a": {"pending": True}},
    }

    played = pytest_on(foreign_cluster.kubeconfig, tmp_path, *wanted, expected)

    assert "4 failed, 3 passed" in played.stdout, played.stdout
    for name in ("replicaset-controller", "statefulset-controller", "kubelet"):
        assert (
            f"'{name}' is one of this cluster's own programs, which cannot be held; "
            in played.stdout
        )
    assert (
        '"*" cannot be disabled on this cluster: its own programs cannot be held; ' in played.stdout
    )


@pytest.mark.controlplane
def test_user_without_impersonation_gets_a_message(foreign_cluster, tmp_path):
    call, api = foreign_cluster.runner.call, foreign_cluster.api("kubectl")
    everything = {
        "apiGroups": ["*"],
        "resources": ["*"],
        "verbs": ["get", "list", "watch", "create", "update", "patch", "delete"],
    }
    call(api.create(CLUSTER_ROLES, {"metadata": {"name": "limited"}, "rules": [everything]}))
    subject = {"kind": "ServiceAccount", "name": "limited", "namespace": "default"}
    role = {"apiGroup": RBAC, "kind": "ClusterRole", "name": "limited"}
    call(
        api.create(
            CLUSTER_ROLE_BINDINGS,
            {"metadata": {"name": "limited"}, "roleRef": role, "subjects": [subject]},
        )
    )
    call(api.create(SERVICE_ACCOUNTS, {"metadata": {"name": "limited"}}, "default"))
    token = call(
        api.create(SERVICE_ACCOUNTS, {"spec": {}}, "default", name="limited", subresource="token")
    )["status"]["token"]
    config = yaml.safe_load(foreign_cluster.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": token}
    (tmp_path / "limited").write_text(yaml.safe_dump(config))

    played = pytest_on(tmp_path / "limited", tmp_path)

    assert "this kubeconfig's user may not impersonate: " in played.stdout, played.stdout


@pytest.mark.controlplane
def test_applied_scenario_is_played(foreign_cluster, capsys):
    applied = scenario(
        create(1, node()),
        create(2, pod("fits", "1500m")),
        create(3, pod("waits", "1")),
        delete(4, "Pod", "fits"),
        done(5),
    )
    with contextlib.ExitStack() as opened:
        ours = opened.enter_context(
            contextlib.closing(KubeconfigCluster(foreign_cluster.kubeconfig))
        )
        journal = open_scenario_player(
            ours, ScenarioSettings(disposable=True, patience=60)
        ).journals.to
        opened.callback(journal.close)
        foreign_cluster.runner.call(foreign_cluster.api("kubectl").create(SCENARIOS, applied))

        def live():
            return foreign_cluster.runner.call(
                foreign_cluster.api("kubectl").get(SCENARIOS, "test")
            )

        foreign_cluster.until(lambda: phase_of(live()) in ("Succeeded", "Failed"), "2m")
        assert (phase_of(live()), live()["status"].get("message")) == ("Succeeded", None)
        timeline = Timeline.of_status(live())
    assert (timeline.scheduled("fits").step, timeline.scheduled("waits").step.major) == ((2, 1), 4)
    assert capsys.readouterr().out == "test Running\ntest Succeeded\n"


def test_embedded_cluster_plays_applied_scenarios_once_enabled(runner):
    with contextlib.closing(
        kubernetes.config.new_client_from_config(str(runner.cluster.kubeconfig))
    ) as client:
        api = kubernetes.client.CustomObjectsApi(client)
        where = SCENARIOS.group, SCENARIOS.version, SCENARIOS.plural
        with pytest.raises(kubernetes.client.ApiException, match="404"):
            api.list_cluster_custom_object(*where)
        assert runner.scenario_player.played == []
        api.create_cluster_custom_object(*where, WANTED)
        runner.cluster.advance("1m")
        assert phase_of(api.get_cluster_custom_object(*where, "test")) == "Succeeded"
