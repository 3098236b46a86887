"""`python -m pytest_kscen controlplane build|status|clean`."""

from __future__ import annotations

import argparse
import sys

from pytest_kscen.clusters.cluster import ClusterRefused
from pytest_kscen.clusters.controlplane import programs


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m pytest_kscen controlplane", description="The real control plane's programs."
    )
    parser.add_argument(
        "action",
        choices=["build", "status", "clean"],
        help="build: build them into the cache; status: print where they are; clean: remove them",
    )
    action = parser.parse_args(arguments).action
    try:
        if action == "status":
            return _status()
        if action == "build":
            print(f"ready in {programs.build_programs(lambda line: print(line, flush=True))}")
        else:
            for folder in programs.remove_builds():
                print(f"removed {folder}")
    except ClusterRefused as refusal:
        print(refusal, file=sys.stderr)
        return 1
    return 0


def _status() -> int:
    print(
        f"pinned: Kubernetes {programs.kubernetes_version()}, by "
        f"{programs.go_module_folder() / 'go.mod'}"
    )
    absent = programs.missing_programs(tuple(programs.go_tools()))
    for name, path in programs.find_programs(
        tuple(name for name in programs.go_tools() if name not in absent)
    ).items():
        print(f"{name}: {path}")
    for name in absent:
        print(f"{name}: missing; build it with: {programs.BUILD_COMMAND}")
    return 1 if absent else 0
