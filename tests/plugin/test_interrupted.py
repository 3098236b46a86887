"""A session interrupted during a run by hand reports everything up to then."""

from __future__ import annotations

import pytest

BEFORE = """
    import os, signal
    import pytest

    def test_before_fails():
        assert False, "a result that is needed"

    def press():
        os.kill(os.getpid(), signal.SIGINT)

    def cut(run):
        volume = run.volumes.create(storage_class="availability", attach=1)
        run.until(volume.ready)
        run.chaos.network_block(*volume.nodes[:2])
        run.advance("1m")

"""
OWN_CODE = """
    def test_it(scenario_runner):
        with scenario_runner as run:
            cut(run)
            press()
"""
WAITING = """
    def test_it(scenario_runner):
        with scenario_runner as run:
            cut(run)
            run.cluster.runner.loop.call_later(60, press)
            run.advance("200h")
"""
OF_A_FIXTURE = """
    @pytest.fixture
    def run(scenario_runner):
        with scenario_runner as run:
            yield run

    def test_it(run):
        cut(run)
        press()
"""
EXIT = """
    def test_it(scenario_runner):
        with scenario_runner as run:
            cut(run)
            pytest.exit("enough", returncode=2)
"""
VALID = """
    def test_it(scenario_runner):
        with scenario_runner as run:
            run.cluster.runner.loop.call_later(60, press)
            run.advance("200h")
"""


def interrupted(pytester, body):
    pytester.makepyfile(test_it=BEFORE + body)
    result = pytester.runpytest_subprocess("--kscen-seed=1")
    assert result.ret == pytest.ExitCode.INTERRUPTED
    assert result.parseoutcomes() == {"failed": 1}
    return result


@pytest.mark.parametrize("body", [OWN_CODE, WAITING, OF_A_FIXTURE, EXIT])
def test_interrupted_invalid_run_is_reported_without_failing_the_test(pytester, body):
    interrupted(pytester, body).stdout.fnmatch_lines(
        [
            "*= FAILURES =*",
            "E *AssertionError: a result that is needed",
            "*= kscen runs =*",
            "test_it.py::test_it: invalid after * of cluster time*; seed 1",
            "  volumes is invalid: 1 of 1 volumes did not keep their guaranteed state: mgt-*",
            "  liveness is invalid: not ready again while blocking-everything-* lasted: mgt-*",
            "FAILED test_it.py::test_before_fails - AssertionError: a result that is needed",
            "!*!",
        ]
    )


def test_interrupted_valid_run_is_reported(pytester):
    reported = interrupted(pytester, VALID).stdout.str().splitlines()
    assert "test_it.py::test_it: valid after 1m of cluster time, stopped early; seed 1" in reported
