"""Compare the journals of twenty seeds with those recorded before the package was reorganised.

Keys may be renamed and added: `journal.schema` has the tables for the journal, this module those for
the outcome and for reworded messages. Everything else must be equal."""

from __future__ import annotations

import json
import lzma
import pathlib
import warnings

import pytest
from digest import CHAOS, CHURN

from pytest_kscen.clusters.embedded import EmbeddedCluster
from pytest_kscen.journal import schema
from pytest_kscen.run.plan import Plan
from pytest_kscen.run.runner import ScenarioRunner

RENAMED_OUTCOME_KEYS = {
    "perhaps": "possible_effects",
    "gone": "deleted_before_recovery",
    "mingled": "overlapping",
    "spared": "refused_nodes",
    "stuck": "overdue_deletions",
    "asked_at": "requested_at",
}
"""Keys of an outcome's volumes and incidents: recorded -> present."""
REWORDED_MESSAGES = {"the rule did not come to node-": "the rule was not installed on node-"}
"""Parts of the messages of errors: recorded -> present."""
RECORDED = pathlib.Path(__file__).with_name("recorded_journals.jsonl.xz")


def recorded():
    text = lzma.decompress(RECORDED.read_bytes()).decode()
    for before, now in REWORDED_MESSAGES.items():
        text = text.replace(before, now)
    return [json.loads(line) for line in text.splitlines()]


def present_outcome(recorded):
    parts = {
        key: [
            {RENAMED_OUTCOME_KEYS.get(name, name): value for name, value in each.items()}
            for each in recorded[key]
        ]
        for key in ("volumes", "incidents")
    }
    return {**schema.stamp(), **recorded, **parts}


@pytest.mark.parametrize("before", recorded(), ids=lambda before: f"seed-{before['seed']}")
def test_journal_equals_the_recorded_one(before):
    cluster = EmbeddedCluster(before["seed"])
    runner = ScenarioRunner(cluster, Plan(CHURN, CHAOS), parent=cluster.parent)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        outcome = runner.run("10m")
    journal = [json.loads(line) for line in runner.runs[0].journal.content().splitlines()]
    assert cluster.server.core.store.revision == before["revision"]
    assert journal == [
        {**(schema.stamp() if number == 0 else {}), **schema.upgrade_entry(line)}
        for number, line in enumerate(before["journal"])
    ]
    assert json.loads(outcome.as_json()) == present_outcome(before["outcome"])
    runner.close()
    cluster.close()
