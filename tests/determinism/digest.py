"""Plays a run of churn and chaos from a seed and prints what its journal hashes to: the same wherever it is played."""

from __future__ import annotations

import hashlib
import pathlib
import sys
import tempfile

from pytest_kscen.chaos.pods import PodDestroy
from pytest_kscen.clusters.embedded import EmbeddedCluster
from pytest_kscen.megatest.churn import Churn
from pytest_kscen.runs.plan import Plan
from pytest_kscen.runs.runner import ScenarioRunner


def digest(seed: str) -> str:
    cluster = EmbeddedCluster(seed)
    plan = Plan(Churn(max_volumes=4), (PodDestroy("app=controller"), PodDestroy("app=agent", pods=(1, 2))))
    runner = ScenarioRunner(cluster, plan)
    outcome = runner.run("15m")
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "journal.jsonl")
        runner.runs[0].journal.save(path)
        journal = path.read_bytes()
    state = repr([cluster.server.core.store.revision, outcome.as_json()]).encode()
    runner.close()
    cluster.close()
    return f"{len(journal.splitlines())} lines {hashlib.sha256(journal + state).hexdigest()}"


if __name__ == "__main__":
    sys.stdout.write(digest(sys.argv[1] if len(sys.argv) > 1 else "7") + "\n")
