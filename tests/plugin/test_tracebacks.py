"""Misuse is reported at the test's line; internal errors with their own place."""

from __future__ import annotations

import pytest

BODIES = {
    "runner.run('5 minutes')": (
        "ValueError: '5 minutes' is not a duration: write for example 90s*"
    ),
    "runner.run(0)": (
        "ValueError: duration=0: a run needs time: give more than zero, as in '90s' or '1h30m'"
    ),
    "inside(runner, lambda run: run.until(False))": (
        "TypeError: until(False): pass the condition itself*"
    ),
    "inside(runner, lambda run: run.until(lambda: False, '5s'))": (
        "TimeoutError: not true within 5s of cluster time*"
    ),
    "inside(runner, lambda run: run.chaos.vm_stop('node-9'))": (
        "*Impossible: there is no virtual machine 'node-9' in the*"
    ),
    (
        "inside(runner, lambda run: run.apply(config_map('A_b')))"
    ): '*Invalid: ConfigMap "A_b" is invalid*',
    (
        "inside(runner, lambda run: run.volumes.create('none', name='A_b'))"
    ): "ValueError: name='A_b': give 120 of a-z, *",
    (
        "inside(runner, lambda run: run.volumes.create('none', size='lots'))"
    ): "ValueError: size='lots' is not a quantity: write*",
    "inside(runner, lambda run: runner.run())": "RuntimeError: a run is on: act on what*",
}
TEST = """
    import pytest

    def config_map(name):
        return {{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {{"name": name}}}}

    def inside(runner, act):
        with runner as run:
            act(run)

    @pytest.mark.cluster(nodes=1)
    def test_it(scenario_runner):
        runner = scenario_runner
        {body}
"""


def frames(result):
    """Return the places in a failure's traceback."""
    return [
        line
        for line in result.outlines
        if ".py:" in line and "::" not in line and not line.startswith("E ")
    ]


@pytest.mark.filterwarnings("ignore:nothing is declared")
@pytest.mark.parametrize("body", BODIES)
def test_misuse_is_reported_at_its_place(pytester, body):
    pytester.makepyfile(test_use=TEST.format(body=body))
    result = pytester.runpytest("--show-capture=no")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([f"E  *{BODIES[body]}"])
    assert {line.partition(":")[0] for line in frames(result)} == {"test_use.py"}, (
        result.stdout.str()
    )
    result.stdout.no_fnmatch_line("*The above exception was the direct cause*")
    result.stdout.no_fnmatch_line("*During handling of the above exception*")


def test_full_traceback_can_be_shown(pytester):
    pytester.makepyfile(test_use=TEST.format(body="runner.run(0)"))
    assert any("runner.py:" in line for line in frames(pytester.runpytest("--full-trace")))


def test_internal_error_is_reported_with_its_place(pytester):
    pytester.makepyfile(test_use=TEST.format(body="runner.plan = None; runner.run('1m')"))
    result = pytester.runpytest()
    result.assert_outcomes(failed=1)
    assert any("runner.py:" in line for line in frames(result))
