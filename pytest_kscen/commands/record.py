"""`python -m pytest_kscen record`: write an existing cluster as a Scenario file. Read only."""

from __future__ import annotations

import argparse
import contextlib
import pathlib
import sys
from typing import TYPE_CHECKING

import yaml

from pytest_kscen.clusters.cluster import ClusterRefused
from pytest_kscen.clusters.kubeconfig import COMMAND_FLAGS, KubeconfigCluster
from pytest_kscen.embedded.controllers.provisioner import BUILT_IN_CLASSES
from pytest_kscen.objects.errors import ApiError
from pytest_kscen.scenario.recording import NotRecordedError, record

if TYPE_CHECKING:
    from pytest_kscen.objects.resources import Obj


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002  # as yaml calls it
        return True


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m pytest_kscen record",
        description="Write the present state of a cluster into a Scenario file. Read only.",
    )
    parser.add_argument(
        "--kubeconfig", type=pathlib.Path, help="the cluster (default: that of kubectl)"
    )
    parser.add_argument("--context", help="the kubeconfig's context (default: its current one)")
    parser.add_argument(
        "--namespace",
        action="append",
        default=[],
        help="only this namespace's objects; may be repeated",
    )
    parser.add_argument(
        "--name", default="recorded", help="the Scenario's name (default: recorded)"
    )
    parser.add_argument(
        "--reschedule",
        action="store_true",
        help="record pods without their nodes, so that the scheduler places them again",
    )
    parser.add_argument(
        "-o",
        "--output",
        type=pathlib.Path,
        help="file to write; NAME.scenario.yaml is a test (default: standard output)",
    )
    chosen = parser.parse_args(arguments)
    try:
        with contextlib.closing(
            KubeconfigCluster(chosen.kubeconfig, chosen.context, flags=COMMAND_FLAGS)
        ) as cluster:
            recorded = cluster.runner.call(
                record(
                    cluster.api("record"),
                    chosen.name,
                    namespaces=chosen.namespace,
                    reschedule=chosen.reschedule,
                    preinstalled=[each["metadata"]["name"] for each in BUILT_IN_CLASSES],
                )
            )
        text = written(recorded)
        chosen.output.write_text(text) if chosen.output else sys.stdout.write(text)
    except (ClusterRefused, NotRecordedError, ApiError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def written(scenario: Obj) -> str:
    return yaml.dump(scenario, Dumper=_Dumper, sort_keys=False, width=120)
