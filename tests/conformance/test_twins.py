"""The twins: the same random requests to the embedded API and to the real one, and both make the
same of them.

KSCEN_TWINS=N plays N sequences that nobody has seen yet, instead of those that are played every
time."""

from __future__ import annotations

import math
import os
import signal
import traceback

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.internal.conjecture import providers
from steps import SEQUENCES
from twinworld import GADGETS, kinds

from pytest_kscen.clock import WallRunner
from pytest_kscen.clock.wall import elapsed
from pytest_kscen.clusters.conformance import HttpsTransport
from pytest_kscen.clusters.conformance.case import CaseClient
from pytest_kscen.clusters.conformance.differential import (
    delete_leftovers,
    first_difference,
    prepare_namespaces,
    run_steps,
)
from pytest_kscen.clusters.controlplane.starting import start_control_plane

EXPLORED = int(os.environ.get("KSCEN_TWINS", "0"))
AT_LEAST = EXPLORED or 2500
SECONDS_EACH = 0.24  # at worst; five times what a sequence takes on an idle machine
SIMPLER = 30.0  # seconds to look for a simpler example
STAGES = [kind.target for kind in kinds()]

pytestmark = [pytest.mark.controlplane]
LONGEST = 120.0 + AT_LEAST * SECONDS_EACH  # the conftest ends a test that takes longer


class Judge:
    """Plays sequences. After the first that both servers do not agree on there is little time for a
    simpler one: then what was not played passes, and what was is remembered, so that the search
    ends and finds what it has found."""

    def __init__(self):
        self.played = []
        self._parted = {}
        self._end = math.inf

    def verdict(self, transports, sequence):
        """Where the two part, and what led there; nothing if they do not."""
        name = repr(sequence)
        if name in self._parted:
            return self._shorter(transports, sequence, self._parted[name])
        where = self._played(transports, *sequence) if elapsed() < self._end else ""
        if where:
            self._parted[name] = where
            self._end = min(self._end, elapsed() + SIMPLER)
        return where

    def _shorter(self, transports, sequence, where):
        target, steps, selectors = sequence
        for place in reversed(range(len(steps))):
            fewer = [*steps[:place], *steps[place + 1 :]]
            if found := self._played(transports, target, fewer, selectors):
                steps, where = fewer, found
        return "\n".join([where, *map(watched, steps), f"WATCH {target.plural} {selectors}"])

    def _played(self, transports, target, steps, selectors):
        self.played.append(target.plural)
        try:
            return first_difference(
                steps, *(run_steps(transport, target, steps, selectors) for transport in transports)
            )
        except Exception:  # noqa: BLE001  # a server that does not answer is a difference too
            return traceback.format_exc()


def watched(step):
    return " ".join(
        str(part) for part in (step.method, step.path, dict(step.query), step.type, step.body)
    )


@pytest.fixture(scope="module", autouse=True)
def the_same_every_time():
    """hypothesis draws from the constants of whatever code is loaded: without them no change of
    ours makes other sequences.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(providers.HypothesisProvider, "_local_constants", providers.Constants())
        providers.CONSTANTS_CACHE.cache.clear()
        yield
    providers.CONSTANTS_CACHE.cache.clear()


@pytest.fixture(scope="module")
def quiet():
    """A real API server whose controllers have furnished the stages, and are then gone: they
    would have a part in the stories.
    """
    runner = WallRunner()
    processes, layout = start_control_plane(runner)
    try:
        transport = HttpsTransport(layout.kubeconfig)
        prepare_namespaces(transport, STAGES)
        for name in ("kube-controller-manager", "kube-scheduler"):
            os.kill(processes.pid(name), signal.SIGKILL)
        yield transport
    finally:
        processes.close()
        runner.close()


@pytest.fixture(scope="module")
def transports(transport, quiet):
    """Both servers, with the same on their stages."""
    prepare_namespaces(transport, STAGES)
    for one in (transport, quiet):
        client = CaseClient(one, "default")
        client.call("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", GADGETS).ok(
            201
        )
        client.until(
            lambda client=client: client.get("/apis/kit.example.com/v1/gadgets").status == 200
        )
        delete_leftovers(one, STAGES)
    return transport, quiet


@pytest.fixture(scope="module")
def judge():
    return Judge()


@settings(
    max_examples=AT_LEAST,
    derandomize=not EXPLORED,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate, Phase.shrink],
    report_multiple_bugs=False,
)
@given(SEQUENCES)
def test_both_servers_make_the_same_of_it(transports, judge, sequence):
    if verdict := judge.verdict(transports, sequence):
        pytest.fail(verdict, pytrace=False)


def test_they_have_met_often_enough(judge):
    assert len(judge.played) >= AT_LEAST
    assert {target.plural for target in STAGES} == set(judge.played)
