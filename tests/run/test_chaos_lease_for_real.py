"""Chaos lease on the wall clock, with two runs on the port of an embedded cluster."""

from __future__ import annotations

import contextlib
import time

import pytest

from pytest_kscen.clock import ActorCrashedError
from pytest_kscen.clusters.embedded import EmbeddedCluster
from pytest_kscen.clusters.kubeconfig import KubeconfigCluster
from pytest_kscen.kube.leases import holder_of
from pytest_kscen.objects.resources import LEASES
from pytest_kscen.run.chaos_lease import NAME
from pytest_kscen.run.plan import Plan
from pytest_kscen.run.preflight import PreflightRefused
from pytest_kscen.run.runner import ScenarioRunner


@pytest.fixture(scope="module")
def world():
    with contextlib.closing(EmbeddedCluster("chaos-lease", nodes=2)) as world:
        world.parent(kubeconfig=None, namespace="")
        yield world


@pytest.fixture
def begin(world):
    """Start a runner with its own connection."""
    with contextlib.ExitStack() as opened:

        def begin():
            cluster = opened.enter_context(
                contextlib.closing(KubeconfigCluster(world.kubeconfig, None))
            )
            named = {"kubeconfig": world._host.kubeconfig, "namespace": "vms"}
            runner = ScenarioRunner(cluster, Plan(), parent=lambda: cluster.parent(**named))
            return opened.enter_context(contextlib.closing(runner))

        yield begin


def holders(world):
    tested, parent = world.api("test"), world.parent(kubeconfig=None, namespace="").api_for("test")
    places = (tested, "default"), (parent, "vms")
    return [
        holder_of(world.runner.call(api.get(LEASES, NAME, namespace))) for api, namespace in places
    ]


async def crashes():
    raise ZeroDivisionError


def test_second_run_is_refused_until_the_first_is_over_even_after_a_crash(world, begin):
    first, second = begin(), begin()

    def play_and_crash():
        with first as run:
            assert [
                f"run {run.context.run_id}, process " in holder for holder in holders(world)
            ] == [
                True,
                True,
            ]
            with (
                pytest.raises(
                    PreflightRefused,
                    match="another run causes faults on the tested cluster, or needs it without any: run ",
                ),
                second,
            ):
                """It does not come so far."""
            first.cluster.runner.start(crashes(), "the weak one")
            while run.life.is_running:
                time.sleep(0.01)

    with pytest.raises(ActorCrashedError, match="the weak one crashed"):
        play_and_crash()
    assert first.runs[0].outcome.judged == "unknown"
    assert holders(world) == ["", ""]
    with second as run:
        assert run.context.run_id in holders(world)[0]
    assert holders(world) == ["", ""]
