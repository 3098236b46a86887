"""Mistakes in @pytest.mark.guarantees are refused at collection, before anything runs."""

from __future__ import annotations

import pytest

HEAD = "import pytest\nimport pytest_kscen as kscen\n"
RUN = "def test_it(scenario_runner):\n    scenario_runner.run('1m')\n"


@pytest.mark.parametrize(
    ("marker", "message"),
    [
        ("'pods'", "guarantees: 'pods' is not a guarantee: make one with always, eventually or"),
        ("kscen.always('pods')", "guarantees: always('pods') has no predicate: give one, or"),
        ("*[kscen.always('pods', 'true')] * 2", "guarantees: two are named 'always pods: true'"),
        ("name=kscen.always('pods', 'true')", "guarantees takes guarantees alone, without names"),
    ],
)
def test_mistake_is_refused_at_collection(pytester, marker, message):
    pytester.makepyfile(f"{HEAD}@pytest.mark.guarantees({marker})\n{RUN}")

    result = pytester.runpytest_subprocess()

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*{message.replace('[', '[[]')}*"])


def test_marked_test_without_a_run_is_refused(pytester):
    pytester.makepyfile(
        f"{HEAD}@pytest.mark.guarantees(kscen.always('pods', 'true'))\ndef test_it(cluster): pass\n"
    )

    result = pytester.runpytest_subprocess()

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*@pytest.mark.guarantees: the plan is never run*"])


def test_markers_of_class_and_test_are_joined(pytester):
    pytester.makepyfile(
        f"""{HEAD}
@pytest.mark.guarantees(kscen.sometimes('nodes', 'true', name='first'))
class TestIt:
    @pytest.mark.guarantees(kscen.sometimes('pods', 'true', name='second'))
    def test_it(self, scenario_runner):
        outcome = scenario_runner.run('1m')
        assert [one.name for one in outcome.guarantees] == ['first', 'second']
        assert outcome.verdict == 'valid', outcome.explain()
"""
    )

    pytester.runpytest_subprocess().assert_outcomes(passed=1)
