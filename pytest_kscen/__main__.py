"""`python -m pytest_kscen COMMAND`: the chores around the harness. Each command is a module with `main(arguments) -> exit code`."""

from __future__ import annotations

import sys
from importlib import import_module

COMMANDS = {
    "controlplane": ("pytest_kscen.clusters.controlplane.command", "build the real control plane's programs, or find them"),
    "story": ("pytest_kscen.reports.command", "tell a volume's story from a run's folder"),
    "judge": ("pytest_kscen.reports.again", "judge a run again from its folder"),
    "scenario-report": ("pytest_kscen.reports.scenarios", "tell what a scenario has come to, or compare two runs of it"),
    "validate": ("pytest_kscen.runs.validating", "tell what is wrong with Workflows, Schedules and Scenarios"),
    "scenario-compare": ("pytest_kscen.runs.comparing", "play a Scenario with two configurations of the scheduler, side by side"),
    "scenario-controller": ("pytest_kscen.runs.controlling", "play the Scenarios that are applied to a cluster"),
    "workflow-engine": ("pytest_kscen.runs.driving", "drive the Workflows and Schedules that are applied to a cluster"),
    "record": ("pytest_kscen.runs.recording", "turn a cluster, as it stands, into a Scenario file"),
    "record-api": ("pytest_kscen.machinery.recorded.record", "record what a real API server serves into the package"),
    "record-chaos-mesh": ("pytest_kscen.objects.chaos_definitions.recording", "record Chaos Mesh's definitions into the package"),
    "record-protobuf": ("pytest_kscen.machinery.recorded.numbering", "record how protobuf numbers Kubernetes' fields"),
}


def main(arguments: list[str]) -> int:
    """Hand the rest of the line to its command."""
    name, rest = (arguments[0], arguments[1:]) if arguments else ("", [])
    if name not in COMMANDS:
        stream = sys.stdout if name in {"-h", "--help"} else sys.stderr
        print(_usage(), file=stream)
        return 0 if stream is sys.stdout else 2
    module, _ = COMMANDS[name]
    return int(import_module(module).main(rest))


def _usage() -> str:
    rows = [f"  {name:<20} {purpose}" for name, (_, purpose) in sorted(COMMANDS.items())]
    return "\n".join(["usage: python -m pytest_kscen COMMAND [options]", *rows])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
