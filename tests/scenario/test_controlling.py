"""The scenario controller beside a cluster that is somebody else's: what is applied there is played."""

from __future__ import annotations

import contextlib

import pytest

from pytest_kscen.__main__ import main
from pytest_kscen.clusters.embedded import EmbeddedCluster
from pytest_kscen.clusters.kubeconfig import KubeconfigCluster
from pytest_kscen.objects.scenarios import SCENARIOS, phase_of
from pytest_kscen.runs.controlling import USERS, open_theatre
from pytest_kscen.runs.terms import Terms
from pytest_kscen.scenario.analysis.timeline import Timeline
from tests.scenario.objects import create, delete, done, node, pod, scenario


def test_a_cluster_is_not_emptied_unless_somebody_says_so(capsys):
    with contextlib.closing(EmbeddedCluster("somebody", nodes=0)) as cluster:
        assert main(["scenario-controller", "--kubeconfig", str(cluster.kubeconfig)]) == 1
    assert "this kubeconfig cluster is not of our making: say that it may be emptied with" in capsys.readouterr().err


@pytest.mark.controlplane
def test_what_is_applied_is_played(capsys):
    from pytest_kscen.clusters.controlplane.cluster import ControlPlaneCluster

    applied = scenario(
        create(1, node()), create(2, pod("fits", "1500m")), create(3, pod("waits", "1")), delete(4, "Pod", "fits"), done(5)
    )
    with contextlib.ExitStack() as opened:
        theirs = opened.enter_context(contextlib.closing(ControlPlaneCluster("somebody", nodes=0)))
        ours = opened.enter_context(contextlib.closing(KubeconfigCluster(theirs.kubeconfig, users=USERS)))
        journal = open_theatre(ours, Terms(disposable=True, patience=60)).journals.to
        opened.callback(journal.close)
        theirs.runner.call(theirs.api("kubectl").create(SCENARIOS, applied))

        def live():
            return theirs.runner.call(theirs.api("kubectl").get(SCENARIOS, "test"))

        theirs.until(lambda: phase_of(live()) in ("Succeeded", "Failed"), "2m")
        assert (phase_of(live()), live()["status"].get("message")) == ("Succeeded", None)
        timeline = Timeline.of_status(live())
    assert (timeline.scheduled("fits").step, timeline.scheduled("waits").step.major) == ((2, 1), 4)
    assert capsys.readouterr().out == "test Running\ntest Succeeded\n"
