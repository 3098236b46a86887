"""Differential test: equal random requests to the embedded API and to the real one.

KSCEN_TWINS=N plays N new sequences instead of the fixed ones."""

from __future__ import annotations

import math
import os
import signal
import traceback

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.internal.conjecture import providers
from request_kinds import GADGETS, kinds
from request_strategies import SEQUENCES

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

NEW_SEQUENCES = int(os.environ.get("KSCEN_TWINS", "0"))
SEQUENCE_COUNT = NEW_SEQUENCES or 2500
SECONDS_PER_SEQUENCE = 0.24  # five times the duration on an idle machine
SEED = int(
    "a1c334b3eba1dd9cc507bfe8946d50041e68cdde977ff296"
    "52de74b5a9084bff4107e0096fa4060ad81ddac7ed99fc91",
    16,
)  # of the fixed sequences: they stay the same if the test is renamed
SHRINK_SECONDS = 30.0  # for shrinking
TARGETS = [kind.target for kind in kinds()]

pytestmark = [pytest.mark.controlplane]
MAX_SECONDS = (
    120.0 + SEQUENCE_COUNT * SECONDS_PER_SEQUENCE
)  # the conftest ends a test that takes longer


class TwinComparison:
    """Plays sequences on both servers and remembers the differences.

    After the first difference the time for shrinking is limited: then new sequences pass without
    being played, and known differences are returned, so that the search ends with one of them."""

    def __init__(self):
        self.played = []
        self._differences = {}
        self._end = math.inf

    def difference(self, transports, sequence):
        """Return the first difference and the steps that led to it, or an empty string."""
        name = repr(sequence)
        if name in self._differences:
            return self._shortened_difference(transports, sequence, self._differences[name])
        where = self._play(transports, *sequence) if elapsed() < self._end else ""
        if where:
            self._differences[name] = where
            self._end = min(self._end, elapsed() + SHRINK_SECONDS)
        return where

    def _shortened_difference(self, transports, sequence, where):
        target, steps, selectors = sequence
        for place in reversed(range(len(steps))):
            fewer = [*steps[:place], *steps[place + 1 :]]
            if found := self._play(transports, target, fewer, selectors):
                steps, where = fewer, found
        return "\n".join([where, *map(step_text, steps), f"WATCH {target.plural} {selectors}"])

    def _play(self, transports, target, steps, selectors):
        self.played.append(target.plural)
        try:
            return first_difference(
                steps, *(run_steps(transport, target, steps, selectors) for transport in transports)
            )
        except Exception:  # noqa: BLE001  # a server that does not answer is a difference too
            return traceback.format_exc()


def step_text(step):
    return " ".join(
        str(part) for part in (step.method, step.path, dict(step.query), step.type, step.body)
    )


@pytest.fixture(scope="module", autouse=True)
def reproducible_constants():
    """Disable drawing from the constants of loaded code, so that sequences do not depend on it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(providers.HypothesisProvider, "_local_constants", providers.Constants())
        providers.CONSTANTS_CACHE.cache.clear()
        yield
    providers.CONSTANTS_CACHE.cache.clear()


@pytest.fixture(scope="module")
def server_without_controllers():
    """Start a real API server and kill its controllers once the namespaces are prepared: their
    writes would be part of the outcomes.
    """
    runner = WallRunner()
    processes, layout = start_control_plane(runner)
    try:
        transport = HttpsTransport(layout.kubeconfig)
        prepare_namespaces(transport, TARGETS)
        for name in ("kube-controller-manager", "kube-scheduler"):
            os.kill(processes.pid(name), signal.SIGKILL)
        yield transport
    finally:
        processes.close()
        runner.close()


@pytest.fixture(scope="module")
def transports(transport, server_without_controllers):
    """Return both servers with equal initial objects."""
    prepare_namespaces(transport, TARGETS)
    for one in (transport, server_without_controllers):
        client = CaseClient(one, "default")
        client.call("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", GADGETS).ok(
            201
        )
        client.until(
            lambda client=client: client.get("/apis/kit.example.com/v1/gadgets").status == 200
        )
        delete_leftovers(one, TARGETS)
    return transport, server_without_controllers


@pytest.fixture(scope="module")
def comparison():
    return TwinComparison()


@(seed(SEED) if not NEW_SEQUENCES else lambda test: test)
@settings(
    max_examples=SEQUENCE_COUNT,
    derandomize=not NEW_SEQUENCES,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate, Phase.shrink],
    report_multiple_bugs=False,
)
@given(SEQUENCES)
def test_both_servers_give_equal_results(transports, comparison, sequence):
    if difference := comparison.difference(transports, sequence):
        pytest.fail(difference, pytrace=False)


def test_all_sequences_and_kinds_were_played(comparison):
    assert len(comparison.played) >= SEQUENCE_COUNT
    assert {target.plural for target in TARGETS} == set(comparison.played)
