"""Run churn and all chaos from a seed and print the journal's hash and its actions."""

from __future__ import annotations

import hashlib
import sys

from pytest_kscen.chaos.profiles import NetworkBlock, NetworkDegrade, PodDestroy, VmReboot
from pytest_kscen.clusters.embedded import EmbeddedCluster
from pytest_kscen.megatest.churn import Churn
from pytest_kscen.run.plan import Plan
from pytest_kscen.run.runner import ScenarioRunner

OFTEN, SHORT = (20.0, 60.0), (10.0, 20.0)
CHURN = Churn(
    max_volumes=4,
    resizer=True,
    replica_destroyer=True,
    replica_destroyer_period=OFTEN,
    replica_creator=True,
    replica_creator_period=OFTEN,
    pod_destroyer=True,
)
CHAOS = (
    NetworkBlock(SHORT, OFTEN),
    NetworkDegrade(OFTEN, SHORT, loss=0.05),
    VmReboot((90.0, 180.0)),
    PodDestroy(),
)
ACTIONS = {"attach", "detach", "resize the volume", "create a replica", "delete a replica"}


def digest(seed: str) -> str:
    cluster = EmbeddedCluster(seed)
    runner = ScenarioRunner(cluster, Plan(CHURN, CHAOS), parent=cluster.parent)
    outcome = runner.run("10m")
    journal = runner.runs[0].journal.content()
    played = sorted(
        {incident.variant for incident in outcome.incidents} | set(outcome.actions) & ACTIONS
    )
    state = repr([cluster.server.core.store.revision, outcome.as_json()]).encode()
    runner.close()
    cluster.close()
    return (
        f"{len(journal.splitlines())} lines {hashlib.sha256(journal + state).hexdigest()}: "
        f"{', '.join(played)}"
    )


if __name__ == "__main__":
    sys.stdout.write(digest(sys.argv[1] if len(sys.argv) > 1 else "7") + "\n")
