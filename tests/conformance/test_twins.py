"""The twins: the same random requests to the embedded API and to the real one, and both make the same of them.

KSCEN_TWINS=N plays N sequences that nobody has seen yet, instead of those that are played every time.
"""

from __future__ import annotations

import os
import signal

import pytest
from hypothesis import HealthCheck, given, settings
from moves import SEQUENCES
from twinworld import GADGETS, kinds

from pytest_kscen.clock import WallRunner
from pytest_kscen.clusters.conformance import OverHttps
from pytest_kscen.clusters.conformance.twins import difference, furnish, play, sweep
from pytest_kscen.clusters.conformance.visitor import Visitor
from pytest_kscen.clusters.controlplane.starting import start

pytestmark = pytest.mark.controlplane

EXPLORED = int(os.environ.get("KSCEN_TWINS", "0"))
AT_LEAST = EXPLORED or 2500
STAGES = [kind.stage for kind in kinds()]
played = []


@pytest.fixture(scope="module")
def quiet():
    """A real API server whose controllers have furnished the stages, and are then gone: they would have a part in the stories."""
    runner = WallRunner()
    processes, layout = start(runner)
    road = OverHttps(layout.kubeconfig)
    furnish(road, STAGES)
    for name in ("kube-controller-manager", "kube-scheduler"):
        os.kill(processes.pid(name), signal.SIGKILL)
    yield road
    processes.close()
    runner.close()


@pytest.fixture(scope="module")
def roads(road, quiet):
    """Both servers, with the same on their stages."""
    furnish(road, STAGES)
    for one in (road, quiet):
        visitor = Visitor(one, "default")
        visitor.call("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", GADGETS).ok(201)
        visitor.until(lambda visitor=visitor: visitor.get("/apis/kit.example.com/v1/gadgets").status == 200)
        sweep(one, STAGES)
    return road, quiet


@settings(max_examples=AT_LEAST, derandomize=not EXPLORED, database=None, deadline=None, suppress_health_check=list(HealthCheck))
@given(SEQUENCES)
def test_both_servers_make_the_same_of_it(roads, sequence):
    stage, moves, watching = sequence
    ours, theirs = (play(road, stage, moves, watching) for road in roads)
    played.append(stage.plural)
    assert not difference(moves, ours, theirs)


def test_they_have_met_often_enough():
    assert len(played) >= AT_LEAST
    assert {stage.plural for stage in STAGES} == set(played)
