"""Compare the journals of twenty seeds with those recorded before the package was reorganised.

Keys and words may be renamed: `RENAMED` lists each old word and its new one. Everything else must
be equal."""

from __future__ import annotations

import json
import lzma
import pathlib
import warnings

import pytest
from digest import CHAOS, CHURN

from pytest_kscen.clusters.embedded import EmbeddedCluster
from pytest_kscen.run.plan import Plan
from pytest_kscen.run.runner import ScenarioRunner

RECORDED = pathlib.Path(__file__).with_name("recorded_journals.jsonl.xz")
RENAMED: dict[str, str] = {}


def recorded():
    return [
        json.loads(line) for line in lzma.decompress(RECORDED.read_bytes()).decode().splitlines()
    ]


def renamed(value):
    """Replace old keys and words by new ones, at every depth."""
    if isinstance(value, dict):
        return {RENAMED.get(key, key): renamed(each) for key, each in value.items()}
    if isinstance(value, list):
        return [renamed(each) for each in value]
    return RENAMED.get(value, value) if isinstance(value, str) else value


@pytest.mark.parametrize("before", recorded(), ids=lambda before: f"seed-{before['seed']}")
def test_the_journal_is_as_before(before):
    cluster = EmbeddedCluster(before["seed"])
    runner = ScenarioRunner(cluster, Plan(CHURN, CHAOS), parent=cluster.parent)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        outcome = runner.run("10m")
    journal = [json.loads(line) for line in runner.runs[0].journal.content().splitlines()]
    assert cluster.server.core.store.revision == before["revision"]
    assert journal == renamed(before["journal"])
    assert json.loads(outcome.as_json()) == renamed(before["outcome"])
    runner.close()
    cluster.close()
