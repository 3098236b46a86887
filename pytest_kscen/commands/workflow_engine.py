"""`python -m pytest_kscen workflow-engine`: drive a cluster's Workflows and Schedules."""

from __future__ import annotations

import argparse
import contextlib
import functools
import math
import pathlib
import sys
from typing import TYPE_CHECKING

from pytest_kscen.clock import Signal
from pytest_kscen.clusters.cluster import ClusterRefused
from pytest_kscen.clusters.kubeconfig import COMMAND_FLAGS, KubeconfigCluster
from pytest_kscen.commands.output import print_phases
from pytest_kscen.journal import Journal
from pytest_kscen.kube.actor import RunContext
from pytest_kscen.kube.leases import LeaseLost
from pytest_kscen.objects.errors import ApiError
from pytest_kscen.run.context import handle_signals
from pytest_kscen.run.workflow_setup import EngineLease, start_admission, unregister
from pytest_kscen.run.workflows import family_on, has_definitions
from pytest_kscen.workflow.engine import ENGINE, drive
from pytest_kscen.workflow.engine.manager import CONCURRENCY
from pytest_kscen.workflow.telemetry import Metrics, Tracing, serve, tracer_to

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kscen.clusters.cluster import Cluster
    from pytest_kscen.objects.chaos_mesh import EngineResources

NO_DEFINITIONS = (
    "this cluster has no definitions of Chaos Mesh, so every node that is to inject "
    "chaos fails: install Chaos Mesh on it or, "
    "if it is the port of an embedded cluster, call run.workflows.drive() in its test "
    "instead of starting this command"
)
CHECK_PERIOD = 1.0  # seconds between two checks that no actor has crashed


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m pytest_kscen workflow-engine",
        description=(
            "Drive the Workflows and Schedules that are applied to a cluster, until Ctrl-C."
        ),
    )
    parser.add_argument(
        "--kubeconfig", type=pathlib.Path, help="the cluster (default: that of kubectl)"
    )
    parser.add_argument("--context", help="the kubeconfig's context (default: its current one)")
    parser.add_argument(
        "--concurrency",
        type=_above_zero(int, "a whole number, 1 or more"),
        default=CONCURRENCY,
        help="workflows driven at once, 1 or more",
    )
    parser.add_argument(
        "--rate",
        type=_above_zero(float, "a number above zero"),
        help="most events per second (default: no limit)",
    )
    parser.add_argument(
        "--metrics",
        type=int,
        metavar="PORT",
        help="serve metrics for Prometheus on this port of loopback",
    )
    parser.add_argument(
        "--traces", metavar="URL", help="send traces to this OpenTelemetry collector, over HTTP"
    )
    parser.add_argument("--journal", type=pathlib.Path, help="write the journal to this file")
    chosen = parser.parse_args(arguments)
    try:
        with contextlib.closing(
            KubeconfigCluster(chosen.kubeconfig, chosen.context, flags=COMMAND_FLAGS)
        ) as cluster:
            return _drive(cluster, chosen)
    except LeaseLost as lost:
        print(
            f"{lost}: another engine may drive the workflows, so this one has ended",
            file=sys.stderr,
        )
        return 1
    except (ClusterRefused, ApiError, OSError, ValueError, ModuleNotFoundError) as error:
        print(error, file=sys.stderr)
        return 1


def _above_zero(parse: Callable[[str], float], remedy: str) -> Callable[[str], float]:
    """Return an option's type, which accepts finite numbers above zero; `parse` reads the text.

    The message for an invalid value ends with the remedy.
    """

    def number_of(text: str) -> float:
        with contextlib.suppress(ValueError):
            if 0 < (number := parse(text)) < math.inf:
                return number
        raise argparse.ArgumentTypeError(f"invalid value {text!r}: give {remedy}")

    return number_of


def _drive(cluster: Cluster, chosen: argparse.Namespace) -> int:
    """Drive the workflows until Ctrl-C, SIGTERM, the crash of an actor or the loss of the lease.

    Returns 0 if the end came before the lease was free. Raises LeaseLost if it was lost.
    """
    end_requested, engine_lease = Signal(), EngineLease(cluster, ENGINE)

    def print_holder(holder: str) -> None:
        print(
            f"{holder} drives the workflows here, and holds the Lease {engine_lease.lease}: "
            "waiting for its end",
            flush=True,
        )

    journal = contextlib.closing(Journal(cluster.runner.clock, chosen.journal))
    with (
        handle_signals(cluster.runner.loop, end_requested.give, awaited=lambda: True),
        journal as opened,
    ):
        if not cluster.runner.call(engine_lease.wait(end_requested, print_holder)):
            return 0
        life = _LeaseKeeper(engine_lease, end_requested)
        cluster.runner.start(life.live(), ENGINE)
        family = _start_engine(cluster, opened, chosen, engine_lease)
        try:
            start_admission(cluster, family)
            while not end_requested.given:
                cluster.runner.call(end_requested.within(CHECK_PERIOD))
        finally:
            if not life.lost:
                cluster.runner.call(unregister(cluster.api(ENGINE)))
        if life.lost:
            raise life.lost
    return 0


class _LeaseKeeper:
    """Keeper of the engine's lease: gives the signal to end when the lease is lost.

    After that the webhook belongs to the next engine, and is not unregistered.
    """

    def __init__(self, engine_lease: EngineLease, end_requested: Signal) -> None:
        self._engine_lease = engine_lease
        self._end_requested = end_requested
        self.lost: LeaseLost | None = None

    async def live(self) -> None:
        try:
            await self._engine_lease.hold()
        except LeaseLost as lost:
            self.lost = lost
            self._end_requested.give()


def _start_engine(
    cluster: Cluster, journal: Journal, chosen: argparse.Namespace, engine_lease: EngineLease
) -> EngineResources:
    runner, metrics = cluster.runner, Metrics()
    journal.follow(metrics.take)
    print_phases(journal, "workflow-phase", "namespace", "workflow")
    if chosen.traces:
        journal.follow(Tracing(tracer_to(chosen.traces), runner.clock).take)
    context = RunContext(
        cluster.api,
        runner.clock,
        cluster.chance,
        journal,
        cluster.chance.stream(ENGINE).suffix(8),
        owned=False,
    )
    family = family_on(cluster)
    if not has_definitions(cluster):
        print(NO_DEFINITIONS, file=sys.stderr, flush=True)
    engine = functools.partial(
        drive, context, family, concurrency=chosen.concurrency, per_second=chosen.rate
    )
    runner.call(engine_lease.begin(engine))
    if chosen.metrics is not None:
        runner.start(serve(metrics, chosen.metrics), "metrics")
    print(f"Workflows and Schedules of {family.group} are driven from now on", flush=True)
    return family
