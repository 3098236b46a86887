"""The twins: the same random requests to the embedded API and to the real one; what each made of them must be equal.

KSCEN_TWINS=N plays N sequences that nobody has seen yet instead of the two thousand that CI always plays.
"""

from __future__ import annotations

import os
import signal

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from moves import sequence
from twinworld import GADGETS, kinds

from pytest_kscen.clock import WallRunner
from pytest_kscen.clusters.conformance import OverHttps
from pytest_kscen.clusters.conformance.twins import play
from pytest_kscen.clusters.conformance.visitor import Visitor
from pytest_kscen.clusters.controlplane.starting import start

pytestmark = pytest.mark.controlplane

EXPLORED = int(os.environ.get("KSCEN_TWINS", "0"))
SEQUENCES = EXPLORED or 2000
CLEARED_LATE = {"jobs", "replicationcontrollers"}  # they are deleted as orphans, which takes a collector that is not there
APART = {"daemonsets", "gadgets", "pods"}  # docs/differences.md says in what
WORLD = [kind for kind in kinds() if kind.plural not in CLEARED_LATE | APART]
NAMESPACES = list({kind.stage.namespace: None for kind in WORLD})


@pytest.fixture(scope="module")
def quiet():
    """A real API server whose controllers have made what namespaces are born with and are then gone: they would write too."""
    runner = WallRunner()
    processes, layout = start(runner)
    theirs = OverHttps(layout.kubeconfig)
    _furnish(theirs)
    for name in ("kube-controller-manager", "kube-scheduler"):
        os.kill(processes.pid(name), signal.SIGKILL)
    yield theirs
    processes.close()
    runner.close()


@pytest.fixture(scope="module")
def roads(road, quiet):
    """Both servers, with the namespaces and the definition that the sequences need, and nothing else in them."""
    _furnish(road)
    Visitor(road, NAMESPACES[0]).delete("storageclasses/standard").ok()  # a bare control plane has no class of its own
    for one in (road, quiet):
        for namespace in NAMESPACES:
            Visitor(one, namespace).delete("configmaps/kube-root-ca.crt").ok()
        visitor = Visitor(one, NAMESPACES[0])
        visitor.call("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", GADGETS).ok(201)
        visitor.until(lambda visitor=visitor: visitor.get("/apis/kit.example.com/v1/gadgets").status == 200)
    return road, quiet


def _furnish(road):
    visitors = [Visitor(road, namespace) for namespace in NAMESPACES]
    for visitor in visitors:
        visitor.call("POST", "/api/v1/namespaces", {"metadata": {"name": visitor.namespace}}).ok(201)
    for visitor in visitors:
        visitor.settle()
        visitor.until(lambda visitor=visitor: visitor.get("configmaps/kube-root-ca.crt").status == 200)


@settings(
    max_examples=SEQUENCES,
    derandomize=not EXPLORED,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate],
)
@given(st.one_of(*map(sequence, WORLD)))
def test_both_make_the_same_of_it(roads, told):
    stage, moves, watching = told
    ours, theirs = (play(road, stage, moves, watching) for road in roads)
    for move, mine, other in zip(moves, ours.answers, theirs.answers, strict=True):
        assert _said(mine) == _said(other), move
    assert ours.left == theirs.left
    assert ours.told == theirs.told


def _said(answer):
    """An answer whole; of a refusal its code and its reason: its words and causes are the kit's to judge."""
    status, body = answer[0], answer[-1]
    refused = isinstance(body, dict) and body.get("status") == "Failure"
    return (status, body.get("reason")) if refused else answer
