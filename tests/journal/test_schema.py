"""Versions of run archives: older ones are read, later ones are refused."""

from __future__ import annotations

import pathlib
import tomllib

import pytest

from pytest_kscen.clock import VirtualRunner
from pytest_kscen.journal import Entry, Journal, JournalDamaged, read, schema
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


def test_journal_of_the_first_schema_is_read(journal):
    started, incident, effect, refused, crashed, ended = read(journal(OLD))
    assert (started.actor, started.data["link_profiles"]) == ("run", ["network-block"])
    assert incident.data["sides"] == [["a"], ["b"]]
    assert incident.data["powers_off"] is False
    assert effect.what == "incident-possible-effect"
    assert (refused.what, refused.data["nodes"]) == ("incident-refused", ["b"])
    assert crashed.data == {"component": "liveness", "error": "KeyError()"}
    assert (ended.data["available"], ended.data["possibly_done"]) == (0.5, True)


def test_journal_of_the_first_schema_is_judged(journal):
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


LATER = "the journal has schema 99; this installation reads 1 to 2. Read it with the installation "
NO_SCHEMA = "and has to be a number from 1 on: restore the file as the run has written it"


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (
            '{"schema":99,"written_by":"pytest-kscen 7.1","at":0.0,"actor":"a","what":"b"}',
            f"{LATER}that wrote it (pytest-kscen 7.1), or with a later one",
        ),
        (
            '{"schema":99,"at":0.0,"actor":"a","what":"b"}',
            f"{LATER}that wrote it, or with a later one",
        ),
        (
            '{"schema":99,"at":0.0,"actor":"a","what":"b","who":"c"}',
            f"{LATER}that wrote it, or with a later one",
        ),
        ('{"schema":0,"at":0.0,"who":"a","what":"b"}', f"'schema' is 0, {NO_SCHEMA}"),
        ('{"schema":true,"at":0.0,"who":"a","what":"b"}', f"'schema' is True, {NO_SCHEMA}"),
        ('{"schema":"2","at":0.0,"actor":"a","what":"b"}', f"'schema' is '2', {NO_SCHEMA}"),
    ],
)
def test_journal_of_an_unknown_schema_is_refused(journal, line, why):
    path = journal(f"{line}\n")
    with pytest.raises(JournalDamaged) as refused:
        read(path)
    assert str(refused.value) == f"{path}:1: {why}"


def test_the_first_line_states_the_schema_of_all_lines(journal):
    stamped = '{"schema":2,"written_by":"pytest-kscen 0.1.0","at":0.0,"actor":"a","what":"b"}'
    later = '{"at":1.0,"actor":"a","what":"wrote","who":"c","schema":7,"had":1}'
    assert read(journal(f"{stamped}\n{later}\n"))[1] == Entry(
        1.0, "a", "wrote", {"who": "c", "schema": 7, "had": 1}
    )


def test_first_line_may_have_a_key_who(journal):
    line = (
        '{"schema":2,"written_by":"pytest-kscen 0.1.0","at":0.0,"actor":"a","what":"b","who":"c"}'
    )
    assert read(journal(f"{line}\n")) == [Entry(0.0, "a", "b", {"who": "c"})]


def test_stamp_without_the_writer_is_read(journal):
    path = journal('{"schema":2,"at":0.0,"actor":"a","what":"b"}\n')
    assert read(path) == [Entry(0.0, "a", "b", {})]


def test_later_line_of_the_first_schema_needs_its_keys(journal):
    path = journal(f'{OLD}{{"at":4.0,"actor":"x","what":"y"}}\n')
    with pytest.raises(JournalDamaged, match=r"it has no 'who'$"):
        read(path)


def test_run_reads_its_own_journal_with_any_keys():
    runner = VirtualRunner()
    journal = Journal(runner.clock)
    journal.write("a", "first", {"who": "b"})
    journal.write("a", "second", {"schema": 7, "written_by": "c"})
    assert list(journal) == [
        Entry(0.0, "a", "first", {"who": "b"}),
        Entry(0.0, "a", "second", {"schema": 7, "written_by": "c"}),
    ]
    journal.close()
    runner.close()


def test_version_is_that_of_the_distribution():
    root = pathlib.Path(schema.__file__).parents[2]
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    assert project["version"] == schema.VERSION


@pytest.mark.parametrize(
    ("first", "version"),
    [({"who": "run"}, 1), ({"actor": "run"}, schema.SCHEMA), ({}, schema.SCHEMA)],
)
def test_schema_of_a_line_without_stamp(first, version):
    assert schema.pop_version(dict(first)) == version
