"""Play with each planted bug until a run is not valid, and print a Markdown table.

Bugs of storage, data path, harness and controllers: ten-minute megatests with three volumes, all
their actors and all chaos profiles, over seeds. Bugs of scheduler, controllers and workflow
engine: the sample scenarios or workflows, once. Each bug has a process of its own, with a limit of
real time.

    python tests/planted_bugs/table.py [--system storage] [--bug NAME] [--seeds 20] [--minutes 10]

`--short` is the form for CI: every fifth bug, three seeds. `--control` plays without a bug, too: the
exit code is 1 if such a run is not valid.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import logging
import pathlib
import statistics
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parents[2]
if __name__ == "__main__":
    sys.path[:1] = [str(ROOT), str(ROOT / "tests")]  # in place of this folder

from planted_bugs.catalogue import BUGS, TABLES, planted  # noqa: E402  # after the path is set

SCENARIOS = ["scenarios/samples", "--ignore=scenarios/samples/workflows"]
SAMPLES = {
    "scheduler": SCENARIOS,
    "controllers": SCENARIOS,
    "workflow": ["scenarios/samples/workflows"],
}
WITHOUT_MEGATEST = ("scheduler", "workflow")
CONTROL = "(none)"
SHORT_STEP, SHORT_SEEDS = 5, 3
LINE = 160  # characters of a finding in the table


class Result(NamedTuple):
    found: bool
    seeds: int
    """Number of seeds that were played."""
    verdict: str
    line: str = ""
    """First line of the explanation."""


def play(seed: str, minutes: float) -> Result:
    """Play one megatest, and return its verdict. An error that ends the run is one, too."""
    from pytest_kscen.chaos.profiles import PROFILES
    from pytest_kscen.clusters.embedded import EmbeddedCluster
    from pytest_kscen.megatest.churn import Churn
    from pytest_kscen.run.plan import Plan
    from pytest_kscen.run.runner import ScenarioRunner

    actors = {"resizer": True, "replica_destroyer": True, "replica_creator": True}
    plan = Plan(
        Churn(max_volumes=3, step=(1, 1), **actors),
        tuple(profile() for profile in PROFILES.values()),
    )
    cluster = EmbeddedCluster(seed, nodes=6)
    runner = ScenarioRunner(
        cluster, plan, parent=lambda: cluster.parent(kubeconfig=None, namespace="")
    )
    try:
        outcome = runner.run(60 * minutes)
    except Exception as error:  # noqa: BLE001  # whatever it is, it is the table's to tell
        text = str(error) or repr(error)
        return Result(found=True, seeds=1, verdict="crash", line=text.splitlines()[0])
    finally:
        runner.close()
        cluster.close()
    line = "" if outcome.judged == "valid" else outcome.explain().splitlines()[0]
    return Result(outcome.judged != "valid", 1, outcome.judged, line)


def play_seeds(seeds: int, minutes: float) -> Result:
    """Play megatests until one is not valid."""
    result = Result(found=False, seeds=0, verdict="valid")
    for number in range(1, seeds + 1):
        result = play(str(number), minutes)._replace(seeds=number)
        if result.found:
            break
    return result


def play_samples(arguments: list[str]) -> Result:
    """Collect and play sample files with pytest, and return the first failure."""
    import pytest

    class FirstFailure:
        line = ""

        def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
            if report.failed and not self.line:
                lines = [line for line in report.longreprtext.splitlines() if line.strip()]
                self.line = f"{report.nodeid.rpartition('/')[2]}: {lines[0] if lines else ''}"

    first = FirstFailure()
    code = pytest.main(
        [*arguments, f"--rootdir={ROOT}", "-q", "-p", "no:cacheprovider", "-W", "ignore"], [first]
    )
    failed = code != pytest.ExitCode.OK
    return Result(failed, 1, "failed" if failed else "passed", first.line)


def child(name: str, seeds: int, minutes: float) -> Result:
    """Play with one bug in this process, without any output."""
    logging.getLogger().addHandler(logging.NullHandler())
    with contextlib.ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        stack.enter_context(contextlib.redirect_stdout(io.StringIO()))
        bug = BUGS.get(name)
        if bug:
            stack.enter_context(planted(name))
            if bug.system in SAMPLES:
                result = play_samples(SAMPLES[bug.system])
                if result.found or bug.system in WITHOUT_MEGATEST:
                    return result
        return play_seeds(seeds, minutes)


def measure(name: str, seeds: int, minutes: float, limit: float) -> Result:
    """Play with one bug in a process of its own."""
    command = [sys.executable, __file__, "--child", "--bug", name, "--seeds", str(seeds)]
    try:
        done = subprocess.run(
            [*command, "--minutes", str(minutes)],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=limit,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Result(found=True, seeds=0, verdict="no end", line=f"not over after {limit:g} s")
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no output"])[-1]
        return Result(found=True, seeds=0, verdict="crash", line=last)
    return Result(*json.loads(done.stdout.splitlines()[-1]))


def row(name: str, result: Result) -> str:
    line = " ".join(result.line.replace("|", "\\|").split())
    system = BUGS[name].system if name in BUGS else ""
    cells = (
        system,
        name,
        "yes" if result.found else "no",
        str(result.seeds) if result.found else f"none of {result.seeds}",
        result.verdict,
        line if len(line) <= LINE else f"{line[: LINE - 1]}…",
        BUGS[name].cause if name in BUGS else "",
    )
    return f"| {' | '.join(cells)} |"


def main(arguments: argparse.Namespace, names: list[str]) -> int:
    """Print the table and a line for each system; return the exit code."""
    print("| system | bug | found | seeds | verdict | first finding | cause |")
    print("|---|---|---|---|---|---|---|")
    found: dict[str, list[Result]] = {}
    code = 0
    with ThreadPoolExecutor(arguments.jobs) as pool:
        results = pool.map(
            lambda name: measure(name, arguments.seeds, arguments.minutes, arguments.limit), names
        )
        for name, result in zip(names, results, strict=True):
            print(row(name, result), flush=True)
            if name in BUGS:
                found.setdefault(BUGS[name].system, []).append(result)
            else:
                code = int(result.found)
    print()
    for system, results_of in found.items():
        seeds = [result.seeds for result in results_of if result.found]
        median = f", median of {statistics.median(seeds):g} seeds" if seeds else ""
        print(f"{system}: {len(seeds)} of {len(results_of)} found{median}")
    return code


def selected(arguments: argparse.Namespace) -> list[str]:
    names = [
        bug.name
        for system, table in TABLES.items()
        if arguments.system in (None, system)
        for bug in table
        if arguments.bug in (None, bug.name)
    ]
    if arguments.short:
        names = names[::SHORT_STEP]
        arguments.seeds = min(arguments.seeds, SHORT_SEEDS)
    return [CONTROL, *names] if arguments.control else names


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--system", choices=list(TABLES))
    parser.add_argument("--bug", choices=[*BUGS, CONTROL], metavar="NAME")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--minutes", type=float, default=10.0, help="of cluster time, per run")
    parser.add_argument("--limit", type=float, default=900.0, help="seconds of real time per bug")
    parser.add_argument("--jobs", type=int, default=1, help="bugs played at once")
    parser.add_argument("--short", action="store_true", help="few bugs and seeds, for CI")
    parser.add_argument("--control", action="store_true", help="play without a bug, too")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        print(json.dumps(child(given.bug, given.seeds, given.minutes)))
    else:
        sys.exit(main(given, selected(given)))
