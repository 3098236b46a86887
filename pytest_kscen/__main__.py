"""`python -m pytest_kscen COMMAND`: commands for clusters, files and the folders of runs.

Each command is a module with `main(arguments) -> exit code`.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from pytest_kscen.objects.arguments import nearest

if TYPE_CHECKING:
    from collections.abc import Callable

COMMANDS = {
    "controlplane": "build the real control plane's programs, or print where they are",
    "story": "print a volume's story from a run's folder",
    "judge": "judge a run again from its folder",
    "scenario-report": "print the results of a scenario, or compare two runs of it",
    "validate": "check Workflows, Schedules and Scenarios for errors",
    "scenario-compare": "play a Scenario with two configurations of the scheduler, side by side",
    "scenario-controller": "play the Scenarios that are applied to a cluster",
    "workflow-engine": "drive the Workflows and Schedules that are applied to a cluster",
    "record": "write the present state of a cluster into a Scenario file",
    "record-api": "record the resources of a real API server into the package",
    "record-chaos-mesh": "record Chaos Mesh's definitions into the package",
    "record-protobuf": "record the protobuf numbers of Kubernetes' fields",
}


def main(arguments: list[str]) -> int:
    """Run the command that the first argument names, and return its exit code; 2 if unknown."""
    name, rest = (arguments[0], arguments[1:]) if arguments else ("", [])
    if name not in COMMANDS:
        stream = sys.stdout if name in {"-h", "--help"} else sys.stderr
        unknown = name and stream is sys.stderr
        error = [f"unknown command {name!r}{nearest(name, COMMANDS)}"] if unknown else []
        rows = [f"  {name:<20} {purpose}" for name, purpose in sorted(COMMANDS.items())]
        print(
            "\n".join([*error, "usage: python -m pytest_kscen COMMAND [options]", *rows]),
            file=stream,
        )
        return 0 if stream is sys.stdout else 2
    return command(name)(rest)


# a table whose rows are imports
def command(name: str) -> Callable[[list[str]], int]:  # noqa: C901
    """Import the module of one command, and return its `main`."""
    match name:
        case "controlplane":
            from pytest_kscen.commands.controlplane import main as run
        case "story":
            from pytest_kscen.commands.story import main as run
        case "judge":
            from pytest_kscen.commands.judge import main as run
        case "scenario-report":
            from pytest_kscen.commands.scenario_report import main as run
        case "validate":
            from pytest_kscen.commands.validate import main as run
        case "scenario-compare":
            from pytest_kscen.commands.scenario_compare import main as run
        case "scenario-controller":
            from pytest_kscen.commands.scenario_controller import main as run
        case "workflow-engine":
            from pytest_kscen.commands.workflow_engine import main as run
        case "record":
            from pytest_kscen.commands.record import main as run
        case "record-api":
            from pytest_kscen.commands.record_api import main as run
        case "record-chaos-mesh":
            from pytest_kscen.commands.record_chaos_mesh import main as run
        case "record-protobuf":
            from pytest_kscen.commands.record_protobuf import main as run
    return run


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
