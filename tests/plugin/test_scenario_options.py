"""Scenario settings on the command line, in the environment and in the ini file."""

from __future__ import annotations

import pytest

from tests.scenario.objects import create, node, scenario


@pytest.mark.parametrize(
    ("option", "complaint"),
    [
        (
            "--kscen-scenario-results=Never",
            "invalid value 'Never': choose one of AtMovingNextStep, OnPause, OnDone",
        ),
        ("--kscen-scenario-patience=10", "'10' is not a duration: write for example 90s"),
    ],
)
def test_invalid_option_is_a_usage_error(pytester, option, complaint):
    pytester.makepyfile("def test_it(): pass")
    result = pytester.runpytest(option)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*{option.partition('=')[0]}: {complaint}*"])


def test_results_are_written_when_the_settings_require_it(pytester, monkeypatch):
    pytester.makepyfile(f"""
        def test_it(scenario_runner):
            played = scenario_runner.play({scenario(create(1, node()))!r})
            print("WRITTEN", "scenarioResult" in played.live["status"])
    """)

    def written(*arguments):
        (line,) = [
            line for line in pytester.runpytest("-s", *arguments).stdout.lines if "WRITTEN" in line
        ]
        return line.endswith("True")

    assert written()
    assert not written("--kscen-scenario-results=OnDone")
    monkeypatch.setenv("UPDATE_SCENARIO_RESULTS_STRATEGY", "OnDone")
    assert not written()
    pytester.makeini("[pytest]\nkscen_scenario_results = OnPause")
    assert written()
    monkeypatch.setenv("KSCEN_SCENARIO_RESULTS", "OnDone")
    assert not written()


def test_cluster_of_others_is_refused_without_consent(pytester):
    pytester.makepyfile(f"""
        def test_it(scenario_runner, monkeypatch):
            monkeypatch.setattr(type(scenario_runner.cluster), "owned", False)
            scenario_runner.play({scenario(create(1, node()))!r})
    """)
    result = pytester.runpytest()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            (
                "*this embedded cluster was not created by this session: allow it "
                "with --kscen-disposable*"
            )
        ]
    )
    pytester.runpytest("--kscen-disposable").assert_outcomes(passed=1)
