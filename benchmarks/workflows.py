"""Measure workflows in virtual time on the embedded API without other controllers.

The seconds are this process's own work, from the first workflow's creation to the last one's end,
API server and all. A transition is a change of a node's phase. `--json FILE` writes the figures
into a file too.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import resource
import subprocess
import sys
from dataclasses import dataclass

from measuring import Row, Stopwatch, report

from pytest_kscen.chance import Chance
from pytest_kscen.clock import VirtualRunner
from pytest_kscen.embedded.apiserver.builtin_kinds import builtin_kinds
from pytest_kscen.embedded.apiserver.kinds import Kinds
from pytest_kscen.embedded.apiserver.server import ApiServer
from pytest_kscen.journal import Journal
from pytest_kscen.kube.actor import RunContext
from pytest_kscen.kube.in_process import InProcessApi
from pytest_kscen.models.chaos_mesh.installation import install
from pytest_kscen.objects.chaos_mesh import OVER, SHIPPED, SUCCEED
from pytest_kscen.objects.resources import NAMESPACES
from pytest_kscen.workflow.engine.manager import WorkflowManager

PATIENCE = 24 * 3600.0
FIGURES: dict[str, float] = {}


@dataclass(frozen=True)
class Load:
    """So many workflows, each a tree: a Serial of Parallels of Serials with Suspends for leaves,
    or one long Serial.
    """

    workflows: int
    templates: int = 100
    long: bool = False

    def spec(self):
        leaves = self.templates - 1 if self.long else (self.templates - 1) * 9 // 10
        names = [f"leaf-{number}" for number in range(leaves)]
        templates = [
            {"name": name, "templateType": "Suspend", "deadline": f"{1 + number % 7}s"}
            for number, name in enumerate(names)
        ]
        groups = [] if self.long else [names[start : start + 10] for start in range(0, leaves, 10)]
        kinds = ("Serial", "Parallel")
        templates += [
            {"name": f"group-{number}", "templateType": kinds[number % 2], "children": group}
            for number, group in enumerate(groups)
        ]
        children = [f"group-{number}" for number in range(len(groups))] or names
        return {
            "entry": "all",
            "templates": [
                {"name": "all", "templateType": "Serial", "children": children},
                *templates,
            ],
        }

    def __str__(self):
        return f"{self.workflows:,} x {self.templates}{', each one Serial' if self.long else ''}"


class TransitionCounter:
    """What the journal tells, while it is written: how many transitions, and whether the next
    one came at once.
    """

    def __init__(self):
        self.transitions = self.nodes = self.late = self.over = 0
        self._ended: dict[tuple[str, str], float] = {}

    def __call__(self, entry):
        if entry.what == "workflow-phase":
            self.over += entry.data["phase"] in OVER
            assert entry.data["phase"] not in OVER or entry.data["phase"] == SUCCEED
        elif entry.what == "workflow-node":
            parent = entry.data["workflow"], entry.data["parent"]
            if entry.data["phase"] == "Init":
                self.nodes += 1
                self.late += self._ended.pop(parent, entry.at) != entry.at
            else:
                self.transitions += 1
                if entry.data["phase"] in OVER:
                    self._ended[parent] = entry.at


def drive(load):
    """Seconds of work, and what was heard."""
    runner, chance = VirtualRunner(), Chance("workflows")
    server = ApiServer(runner.clock, chance, Kinds(builtin_kinds()))
    api = InProcessApi(server)
    runner.call(api.create(NAMESPACES, {"metadata": {"name": "default"}}))
    runner.call(install(api, runner.clock))
    journal, counter = Journal(runner.clock), TransitionCounter()
    journal.follow(counter)
    actor = RunContext(
        lambda agent: InProcessApi(server, agent=agent), runner.clock, chance, journal, "run"
    ).actor("workflow-engine")
    runner.start(WorkflowManager(actor).run(), "workflow-engine")
    spec = load.spec()
    with Stopwatch(own_work=True, collecting=True) as watch:
        for number in range(load.workflows):
            metadata = {"name": f"w{number}", "namespace": "default"}
            runner.call(api.create(SHIPPED.workflows, {"metadata": metadata, "spec": spec}))
        assert runner.until(lambda: counter.over == load.workflows, PATIENCE)
    runner.close()
    return watch.seconds, counter


def alone(load):
    """The same in a process of its own, whose memory is told too."""
    arguments = [str(load.workflows), str(load.templates), *(["--long"] if load.long else [])]
    done = subprocess.run(
        [sys.executable, __file__, "--one", *arguments], check=True, capture_output=True, text=True
    )
    return json.loads(done.stdout)


def measured(load, rounds):
    best = min((alone(load) for _ in range(rounds)), key=lambda each: each["seconds"])
    FIGURES.update({f"{load} {name}": value for name, value in best.items()})
    return best


def one(arguments):
    seconds, counter = drive(Load(int(arguments[0]), int(arguments[1]), long="--long" in arguments))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    found = {
        "seconds": seconds,
        "nodes": counter.nodes,
        "transitions": counter.transitions,
        "late": counter.late,
        "peak MiB": peak,
    }
    print(json.dumps(found))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    rows = []
    small, long = Load(100), Load(100, long=True)
    figures = {load: measured(load, options.rounds) for load in (small, long)}
    for load, found in figures.items():
        assert found["late"] == 0, (
            "a next node was not made in the instant in which the one before ended"
        )
        per = found["seconds"] / found["transitions"] * 1000
        rows.append(
            Row(f"{load}: ms per transition", f"{per:.3f} ms", "1 ms", per, 1, less_is_better=True)
        )
        rows.append(
            Row(
                f"{load}: all {found['nodes']:,} nodes",
                f"{found['seconds']:.1f} s",
                "30 s",
                found["seconds"],
                30,
                less_is_better=True,
            )
        )
    large = measured(Load(1000), 1)
    assert large["late"] == 0
    growth = (large["seconds"] / large["nodes"]) / (
        figures[small]["seconds"] / figures[small]["nodes"]
    )
    rows.append(
        Row(
            "1,000 x 100: time per node, to that at 100",
            f"{large['seconds']:.1f} s",
            "",
            growth,
            1.3,
            less_is_better=True,
        )
    )
    rows.append(
        Row(
            "1,000 x 100: memory",
            f"{large['peak MiB']:.0f} MiB",
            "1,024 MiB",
            large["peak MiB"] / 1024,
            1,
            less_is_better=True,
        )
    )
    report("Workflows in virtual time", rows)
    if options.json:
        options.json.write_text(json.dumps(FIGURES, indent=1))


if __name__ == "__main__":
    if "--one" in sys.argv:
        one(sys.argv[sys.argv.index("--one") + 1 :])
    else:
        main()
