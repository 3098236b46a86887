"""`python -m pytest_kscen scenario-controller`: play the Scenarios that are applied to a
cluster.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import pathlib
import signal
import sys
from typing import TYPE_CHECKING

from pytest_kscen.clusters.cluster import ClusterRefused
from pytest_kscen.clusters.kubeconfig import COMMAND_FLAGS, KubeconfigCluster
from pytest_kscen.commands.output import print_phases
from pytest_kscen.journal import Journal
from pytest_kscen.objects.arguments import seconds_of_text
from pytest_kscen.objects.errors import ApiError
from pytest_kscen.run.plan import ScenarioSettings
from pytest_kscen.run.preflight import PreflightRefused
from pytest_kscen.run.scenarios import ScenarioPlayer
from pytest_kscen.scenario.participants import ControllerRegister
from pytest_kscen.scenario.waiting import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kscen.clusters.cluster import Cluster
    from pytest_kscen.scenario.waiting import ControllerWaiter

DAY = 86400.0


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m pytest_kscen scenario-controller",
        description=(
            "Play the Scenarios that are applied to a cluster, until Ctrl-C. Each Scenario begins "
            "with deleting all objects of the cluster."
        ),
    )
    parser.add_argument(
        "--kubeconfig", type=pathlib.Path, help="the cluster (default: that of kubectl)"
    )
    parser.add_argument("--context", help="the kubeconfig's context (default: its current one)")
    parser.add_argument(
        "--disposable",
        action="store_true",
        help="allow the cluster to be emptied; required to play Scenarios",
    )
    parser.add_argument(
        "--results",
        default="",
        help="when results are written (default: UPDATE_SCENARIO_RESULTS_STRATEGY)",
    )
    parser.add_argument(
        "--patience",
        type=seconds_of_text,
        default=PATIENCE,
        help="how long controllers may take, as in 10m",
    )
    parser.add_argument(
        "--waiter",
        action="append",
        default=[],
        metavar="MODULE:NAME",
        help=(
            "the waiter of your own controller, an object or a class without arguments; may "
            "be repeated"
        ),
    )
    parser.add_argument("--journal", type=pathlib.Path, help="write the journal to this file")
    chosen = parser.parse_args(arguments)
    terms = ScenarioSettings(
        chosen.disposable, chosen.results, chosen.patience, consent="--disposable"
    )
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # SIGTERM cleans up like Ctrl-C
    try:
        waiters = [_waiter(path) for path in chosen.waiter]
        with contextlib.closing(
            KubeconfigCluster(chosen.kubeconfig, chosen.context, flags=COMMAND_FLAGS)
        ) as cluster:
            scenario_player = open_scenario_player(cluster, terms, chosen.journal, waiters)
            with contextlib.suppress(KeyboardInterrupt):
                print(
                    (
                        "Scenarios are played from now on; controllers request their turn at "
                        f"{scenario_player.gate_url}CONTROLLER"
                    ),
                    flush=True,
                )
                while True:
                    cluster.advance(DAY)
    except (ClusterRefused, PreflightRefused, ApiError, OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _waiter(path: str) -> ControllerWaiter:
    module, _, name = path.partition(":")
    try:
        found = getattr(importlib.import_module(module), name)  # noqa: TID251  # user's waiter
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(
            f"--waiter {path}: cannot be imported, write it as in my_module:WAITER: {error}"
        ) from None
    made = found() if isinstance(found, type) else found
    ControllerRegister().add(made)
    return made  # type: ignore[no-any-return]  # the register would have refused another


def open_scenario_player(
    cluster: Cluster,
    terms: ScenarioSettings,
    journal: pathlib.Path | None = None,
    waiters: Sequence[ControllerWaiter] = (),
) -> ScenarioPlayer:
    """Open the player of Scenarios on a cluster; the cluster closes it.

    Each phase of a Scenario is printed; the journal is kept in the file `journal`, or in
    memory.
    """
    scenario_player = ScenarioPlayer.of(cluster, terms)
    for waiter in waiters:
        scenario_player.controller.register.add(waiter)
    scenario_player.journals.to = Journal(cluster.runner.clock, journal)
    print_phases(scenario_player.journals.to, "scenario-phase", "scenario")
    return scenario_player
