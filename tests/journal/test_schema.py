"""Versions of what a run leaves: older ones are read, later ones are refused."""

from __future__ import annotations

import pathlib
import tomllib

import pytest

from pytest_kscen.journal import JournalDamaged, read, schema
from pytest_kscen.judge.outcome import judge

OLD = """\
{"at":0.0,"who":"run","what":"run-started","seed":"7","duration":60.0,"churn":false,"chaos":["network-block"],"conditions":["IOReady"],"label":"l"}
{"at":1.0,"who":"chaos","what":"incident-started","incident":"i","profile":"network-block","variant":"blocking-everything","targets":{"nodes":["a","b"]}}
{"at":1.5,"who":"chaos-observer","what":"incident-perhaps","incident":"i","effect":"e"}
{"at":2.0,"who":"chaos","what":"incident-spared","incident":"i","nodes":["b"]}
{"at":2.5,"who":"run","what":"crashed","actor":"liveness","error":"KeyError()"}
{"at":3.0,"who":"x","what":"ended","action":"delete a replica","volume":"v","took":1.0,"had":0.5,"perhaps_done":true,"result":"failed: no"}
"""


@pytest.fixture
def journal(tmp_path):
    def write(text):
        path = tmp_path / "journal.jsonl"
        path.write_text(text)
        return path

    return write


def test_a_journal_of_the_first_schema_is_read(journal):
    started, incident, effect, refused, crashed, ended = read(journal(OLD))
    assert (started.actor, started.data["link_profiles"]) == ("run", ["network-block"])
    assert incident.data["sides"] == [["a"], ["b"]]
    assert incident.data["powers_off"] is False
    assert effect.what == "incident-possible-effect"
    assert (refused.what, refused.data["nodes"]) == ("incident-refused", ["b"])
    assert crashed.data == {"component": "liveness", "error": "KeyError()"}
    assert (ended.data["available"], ended.data["possibly_done"]) == (0.5, True)


def test_a_journal_of_the_first_schema_is_judged(journal):
    (incident,) = judge(read(journal(OLD))).incidents
    assert (incident.possible_effects, incident.refused_nodes) == (["e"], ["b"])


@pytest.mark.parametrize(
    ("profile", "targets", "sides", "powers_off"),
    [
        (
            "network-block",
            {"nodes": ["a", "b", "c"], "group_a": ["a"], "group_b": ["b", "c"]},
            [["a"], ["b", "c"]],
            False,
        ),
        ("network-degrade", {"nodes": ["a", "b"]}, [["a"], ["b"]], False),
        ("vm-stop", {"nodes": ["a", "b"]}, [["a", "b"]], True),
        ("pod-destroy", {}, [[]], False),
    ],
)
def test_facts_of_incidents_are_added(profile, targets, sides, powers_off):
    line = {"at": 1, "who": "c", "what": "incident-started", "profile": profile}
    upgraded = schema.upgrade_entry({**line, "targets": targets})
    assert (upgraded["sides"], upgraded["powers_off"]) == (sides, powers_off)


def test_a_journal_of_a_later_schema_is_refused(journal):
    path = journal(
        '{"schema":99,"written_by":"pytest-kscen 7.1","at":0.0,"actor":"a","what":"b"}\n'
    )
    with pytest.raises(JournalDamaged) as refused:
        read(path)
    assert str(refused.value) == (
        f"{path}:1: the journal has the schema 99, and pytest-kscen {schema.VERSION} reads 1 to "
        f"{schema.SCHEMA}: read it with pytest-kscen 7.1 or later"
    )


def test_an_outcome_of_the_first_schema_is_upgraded():
    old = {
        "verdict": "valid",
        "volumes": [{"name": "v", "stuck": []}],
        "incidents": [{"id": "i", "spared": ["a"], "perhaps": []}],
    }
    assert schema.upgrade_outcome(old) == {
        **schema.stamp(),
        "verdict": "valid",
        "volumes": [{"name": "v", "overdue_deletions": []}],
        "incidents": [{"id": "i", "refused_nodes": ["a"], "possible_effects": []}],
    }


def test_the_version_is_that_of_the_distribution():
    root = pathlib.Path(schema.__file__).parents[2]
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    assert project["version"] == schema.VERSION
