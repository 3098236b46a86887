"""Timing of probes, their counters and notifications."""

from __future__ import annotations

import pytest

from pytest_kscen.objects.resources import CONFIG_MAPS
from pytest_kscen.workflow.probes import score_of


def test_edge_probes_run_at_both_edges(probe_setup, flag_is):
    probing = probe_setup.probing({"name": "a", "when": "Start", **flag_is("up")}, {"name": "b", "when": "End", **flag_is("up")},
                           {"name": "c", "when": "Edges", **flag_is("up")})  # fmt: skip
    assert [verdict.probe.name for verdict in probe_setup.call(probing.at_start())] == ["a", "c"]
    probe_setup.flag("down")
    verdicts = probe_setup.call(probing.at_end())
    words = "configmaps flag: \"object.data['is'] == 'up'\" does not hold"
    assert [
        (verdict.probe.name, verdict.passed, verdict.stops, verdict.message) for verdict in verdicts
    ] == [
        ("b", False, True, words),
        ("c", False, True, words),
    ]
    assert probe_setup.notes() == [
        (0.0, "a", "Start", True, 1),
        (0.0, "c", "Start", True, 1),
        (0.0, "b", "End", False, 1),
        (0.0, "c", "End", False, 1),
    ]
    assert [result["verdict"] for result in probing.results] == ["Passed", "Failed", "Failed"]
    assert probing.score == 33.33
    assert probe_setup.failed == []


def test_edge_probe_is_retried_within_its_limit(probe_setup, flag_is):
    probing = probe_setup.probing(
        {**flag_is("down"), "failureThreshold": 3, "interval": "5s", "initialDelay": "2s"}
    )
    probe_setup.runner.start(flip(probe_setup, at=9.0, value="down"), "flip")
    (verdict,) = probe_setup.call(probing.at_start())
    assert verdict.passed
    assert probe_setup.notes() == [
        (2.0, "p", "Start", False, 1),
        (7.0, "p", "Start", False, 2),
        (12.0, "p", "Start", True, 3),
    ]
    assert probing.results[0]["failures"] == 2
    assert probing.score == 100


def test_continuous_probe_fails_after_consecutive_failures(probe_setup, flag_is):
    probing = probe_setup.probing(
        {
            "when": "Continuous",
            **flag_is("up"),
            "interval": "4s",
            "failureThreshold": 2,
            "initialDelay": "1s",
        }
    )
    for at, value in ((3.0, "down"), (7.0, "up"), (10.0, "down")):
        probe_setup.runner.start(flip(probe_setup, at=at, value=value), "flip")
    probe_setup.call(begun(probing))
    probe_setup.runner.advance(60)
    asked = [(at, passed, attempt) for at, _, _, passed, attempt in probe_setup.notes()]
    assert asked == [
        (1.0, True, 1),
        (5.0, False, 2),
        (9.0, True, 3),
        (13.0, False, 4),
        (17.0, False, 5),
    ]
    assert probe_setup.failed == [
        (17.0, "p", "configmaps flag: \"object.data['is'] == 'up'\" does not hold")
    ]
    assert probe_setup.call(probing.at_end()) == []
    assert probing.results == [
        {
            "name": "p",
            "when": "Continuous",
            "verdict": "Failed",
            "weight": 1,
            "count": 5,
            "failures": 3,
            "message": "configmaps flag: \"object.data['is'] == 'up'\" does not hold",
            "lastProbeTime": probing.results[0]["lastProbeTime"],
        }
    ]


def test_failed_probe_without_stop_continues_and_stays_failed(probe_setup, flag_is):
    probing = probe_setup.probing({"when": "Continuous", **flag_is("up"), "stopOnFailure": False})
    probe_setup.runner.start(flip(probe_setup, at=5.0, value="down"), "flip")
    probe_setup.runner.start(flip(probe_setup, at=15.0, value="up"), "flip")
    probe_setup.call(begun(probing))
    probe_setup.runner.advance(25)
    assert [(at, passed) for at, _, _, passed, _ in probe_setup.notes()] == [
        (0.0, True),
        (10.0, False),
        (20.0, True),
    ]
    assert probe_setup.failed == []
    assert probing.results[0]["verdict"] == "Failed"


def test_during_chaos_probe_runs_only_while_chaos_is_active(probe_setup, flag_is):
    probing = probe_setup.probing(
        {"when": "OnChaos", **flag_is("up"), "interval": "2s", "initialDelay": "1s"}
    )
    probe_setup.call(begun(probing))
    probe_setup.runner.advance(10)
    probe_setup.call(switched(probing, on=True))
    probe_setup.call(switched(probing, on=True))
    probe_setup.runner.advance(4)
    probe_setup.call(switched(probing, on=False))
    probe_setup.runner.advance(10)
    assert [(at, when) for at, _, when, _, _ in probe_setup.notes()] == [
        (11.0, "OnChaos"),
        (13.0, "OnChaos"),
    ]


def test_no_probe_runs_after_the_end(probe_setup, flag_is):
    probing = probe_setup.probing({"when": "Continuous", **flag_is("up"), "interval": "1s"})
    probe_setup.call(begun(probing))
    probe_setup.runner.advance(2.5)
    probe_setup.call(probing.at_end())
    probe_setup.runner.advance(10)
    assert [at for at, *_ in probe_setup.notes()] == [0.0, 1.0, 2.0]


def test_no_probe_starts_after_the_end(probe_setup, flag_is):
    probing = probe_setup.probing(
        {"when": "Continuous", **flag_is("up")}, {"name": "q", "when": "OnChaos", **flag_is("up")}
    )
    probe_setup.call(probing.at_end())
    probe_setup.call(begun(probing))
    probe_setup.call(switched(probing, on=True))
    probe_setup.runner.advance(60)
    assert probe_setup.notes() == []


def test_late_answer_is_no_answer(probe_setup):
    probe_setup.cluster.site.machines.power_off("node-1")
    container = {"container": {"image": "busybox", "command": ["sleep", "1"]}}
    assert probe_setup.ask(command=container, timeout="7s") == (
        False,
        "there was no answer within 7 s",
    )
    assert probe_setup.notes() == [(7.0, "p", "Start", False, 1)]


def test_results_continue_after_an_engine_restart(probe_setup, flag_is):
    first = probe_setup.probing({**flag_is("down")})
    probe_setup.call(first.at_start())
    second = probe_setup.probing({**flag_is("up")}, before=first.results)
    (verdict,) = probe_setup.call(second.at_end())
    assert verdict.passed
    assert (second.results[0]["count"], second.results[0]["verdict"]) == (2, "Failed")


@pytest.mark.parametrize(
    ("results", "score"),
    [
        ([], None),
        ([{"weight": 0, "verdict": "Failed"}], None),
        ([{"weight": 3, "verdict": "Passed"}, {"weight": 1, "verdict": "Failed"}], 75.0),
        ([{"verdict": "Passed"}, {"verdict": "Awaited"}], 50.0),
    ],
)
def test_score_is_the_weighted_share_of_passed_probes(results, score):
    assert score_of(results) == score


async def begun(probing):
    probing.begin_continuous()


async def switched(probing, *, on):
    probing.chaos_is_on(on)


async def flip(probe_setup, *, at, value):
    await probe_setup.actor.clock.sleep(at)
    await probe_setup.api.patch(CONFIG_MAPS, "flag", {"data": {"is": value}}, "default")
    await probe_setup.actor.clock.sleep(1e9)


def test_unexpected_answer_fails_only_that_probe(probe_setup, flag_is, monkeypatch):
    async def break_down(*_):
        raise KeyError("nobody has foreseen this")

    monkeypatch.setattr("pytest_kscen.workflow.probes.http.send_request", break_down)
    probing = probe_setup.probing(
        {"name": "a", "http": {"url": "http://somewhere.invalid"}}, {"name": "b", **flag_is("up")}
    )
    text = [(verdict.passed, verdict.message) for verdict in probe_setup.call(probing.at_start())]
    assert [passed for passed, _ in text] == [False, True]
    assert text[0][1] == "its answer cannot be evaluated: KeyError('nobody has foreseen this')"
