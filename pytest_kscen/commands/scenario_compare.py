"""`python -m pytest_kscen scenario-compare FILE ONE OTHER`: play a Scenario with two scheduler
configurations and compare.
"""

from __future__ import annotations

import argparse
import contextlib
import pathlib
import sys
from typing import TYPE_CHECKING

from pytest_kscen.clusters.embedded import EmbeddedCluster
from pytest_kscen.commands.output import print_lines
from pytest_kscen.objects.documents import DocumentRefused
from pytest_kscen.objects.scenarios import FAILED
from pytest_kscen.run.plan import Plan
from pytest_kscen.run.runner import ScenarioRunner

if TYPE_CHECKING:
    from pytest_kscen.scenario.analysis.result import Result


class PlayFailed(Exception):
    """Report a Scenario that failed with one of the configurations.

    The message names the file, the configuration and the Scenario's own message.
    """


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m pytest_kscen scenario-compare",
        description=(
            "Play a Scenario with two configurations of the scheduler, and print the differences."
        ),
    )
    parser.add_argument("scenario", type=pathlib.Path, help="the file with the Scenario")
    parser.add_argument(
        "one",
        type=pathlib.Path,
        help="a file with a KubeSchedulerConfiguration; the report uses its name",
    )
    parser.add_argument("other", type=pathlib.Path, help="a second one")
    parser.add_argument("--seed", default="0", help="seed of both clusters")
    parser.add_argument("--markdown", action="store_true", help="Markdown in place of plain text")
    parser.add_argument(
        "--picture", type=pathlib.Path, metavar="FILE", help="draw allocation by step there, as SVG"
    )
    chosen = parser.parse_args(arguments)
    try:
        one, other = (
            _play(chosen.scenario, each, chosen.seed) for each in (chosen.one, chosen.other)
        )
        found = one.compare(other, names=(chosen.one.stem, chosen.other.stem))
    except (DocumentRefused, PlayFailed, ValueError) as wrong:
        print(wrong, file=sys.stderr)
        return 1
    if chosen.picture:
        chosen.picture.write_text(found.picture())
    print_lines((found.markdown() if chosen.markdown else found.text()).splitlines())
    return 0


def _play(scenario: pathlib.Path, configuration: pathlib.Path, seed: str) -> Result:
    with contextlib.closing(EmbeddedCluster(seed, nodes=0)) as cluster:
        runner = ScenarioRunner(cluster, Plan())
        with contextlib.closing(runner):
            played = runner.play(scenario, scheduler=configuration)
            if played.phase == FAILED:
                raise PlayFailed(f"{scenario} with {configuration}: {played.message}")
            return played.result
