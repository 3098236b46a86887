"""Options on the command line or in the environment without any effect are reported."""

from __future__ import annotations

import pytest

PLANS = """
    import pytest

    def test_calm(scenario_runner): pass

    @pytest.mark.chaos("vm-reboot")
    def test_machines(scenario_runner): pass

    @pytest.mark.plan_from_command_line
    def test_it(request): pass
"""


@pytest.mark.parametrize(
    ("selected", "reported"),
    [
        (
            "calm",
            [
                "--max-volumes: without effect, no selected test has volume_churn",
                (
                    "--enable-chaos-vm-reboot: without effect, no selected test has "
                    "plan_from_command_line"
                ),
                (
                    "--chaos-period-min: without effect, no selected test has network-block "
                    "or network-degrade or vm-reboot"
                ),
                (
                    "--chaos-incident-max: without effect, no selected test has "
                    "network-block or network-degrade"
                ),
            ],
        ),
        (
            "it",
            [
                (
                    "--chaos-incident-max: without effect, no selected test has "
                    "network-block or network-degrade"
                )
            ],
        ),
    ],
)
def test_flags_that_reach_no_selected_test_are_reported(pytester, monkeypatch, selected, reported):
    pytester.makepyfile(test_plans=PLANS)
    monkeypatch.setenv("KSCEN_CHAOS_LOSS_PERCENT", "0.5")
    line = [
        "--chaos-period-min=90s",
        "--chaos-incident-max=2m",
        "--max-volumes=3",
        "--enable-chaos-vm-reboot",
    ]
    result = pytester.runpytest("-q", "--collect-only", f"test_plans.py::test_{selected}", *line)
    assert [line for line in result.outlines if "without effect" in line] == reported


@pytest.mark.parametrize(
    ("mark", "flags", "is_told"),
    [("", [], True), ("", ["--enable-volume-resizer"], False), ("marked", [], False)],
)
def test_maximum_size_without_growing_volumes_is_reported(pytester, mark, flags, is_told):
    churn = "volume_churn(resizer=True)" if mark else "plan_from_command_line"
    pytester.makepyfile(f"import pytest\n@pytest.mark.{churn}\ndef test_it(scenario_runner): pass")
    reported = (
        "--kscen-volume-size-max: without effect, no selected test has volume_churn(resizer=True)"
    )
    result = pytester.runpytest("-q", "--collect-only", "--kscen-volume-size-max=2Gi", *flags)
    assert [line for line in result.outlines if "without effect" in line] == [reported] * is_told


OVERRULED = """
    import pytest

    @pytest.mark.volume_churn(max_volumes=3, lifetime=("1m", None))
    @pytest.mark.chaos("degrade", loss=0.05)
    def test_states(scenario_runner): pass

    @pytest.mark.volume_churn
    def test_leaves_open(scenario_runner): pass

    @pytest.mark.plan_from_command_line
    @pytest.mark.chaos("degrade", loss=0.05)
    def test_marks_what_is_switched_on(scenario_runner): pass

    @pytest.mark.volume_churn(resizer=True, max_size="500Mi")
    def test_grows(scenario_runner): pass
"""


@pytest.mark.parametrize(
    ("selected", "reported"),
    [
        (
            "states",
            [
                "--max-volumes: without effect, all markers set max_volumes themselves",
                "--volume-period-min: without effect, all markers set lifetime themselves",
                "--chaos-loss-percent: without effect, all markers set loss themselves",
            ],
        ),
        (
            "",
            [
                "--kscen-volume-size-max: without effect, all markers set max_size themselves",
                "--chaos-loss-percent: without effect, all markers set loss themselves",
            ],
        ),
    ],
)
def test_flags_overridden_by_all_markers_are_reported(pytester, selected, reported):
    pytester.makepyfile(OVERRULED)
    line = [
        "--max-volumes=20",
        "--volume-period-min=2m",
        "--volume-period-max=9m",
        "--chaos-loss-percent=0.1",
    ]
    line += [] if selected else ["--enable-chaos-network-degrade", "--kscen-volume-size-max=2Gi"]
    result = pytester.runpytest("-q", "--collect-only", "-k", selected, *line)
    assert [line for line in result.outlines if "without effect" in line] == reported


MACHINES = """
    import pytest

    @pytest.mark.volume_churn(max_volumes=1)
    def test_calm(scenario_runner):
        scenario_runner.run("10s")

    @pytest.mark.chaos("vm-reboot", period=("5s", "5s"))
    def test_declared(scenario_runner):
        assert scenario_runner.run("20s")

    def test_conducted(scenario_runner):
        with scenario_runner:
            pass
"""


@pytest.mark.parametrize(
    ("selected", "is_told"), [("calm", True), ("calm or declared", False), ("conducted", False)]
)
@pytest.mark.parametrize("workers", [[], ["-n1"]])
def test_unused_namespace_of_machines_is_reported(pytester, workers, selected, is_told):
    if workers:
        pytest.importorskip("xdist")
    pytester.makepyfile(test_with_machines_or_none=MACHINES)
    result = pytester.runpytest_inprocess("-q", *workers, "-k", selected, "--vm-namespace=foo")
    reported = "--vm-namespace: without effect, no run has used virtual machines"
    assert [line for line in result.outlines if "without effect" in line] == [reported] * is_told


def test_misspelt_variable_is_reported(pytester, monkeypatch):
    for name in ("MAX_VOLUME", "TREES", "TESTS_NETNS", "CACHE", "SEED"):
        monkeypatch.setenv(f"KSCEN_{name}", "1")
    reported = "KSCEN_MAX_VOLUME: without effect, did you mean KSCEN_MAX_VOLUMES?"
    result = pytester.runpytest("--collect-only")
    assert [line for line in result.outlines if "without effect" in line] == [
        f"kscen: {reported}",
        reported,
    ]


@pytest.mark.filterwarnings("ignore:nothing is declared")
def test_unused_duration_is_reported(pytester):
    pytester.makepyfile(
        test_length_or_none="""
        def test_open(scenario_runner):
            scenario_runner.run()

        def test_own(scenario_runner):
            scenario_runner.run("2s")
    """
    )
    reported = "--kscen-duration: without effect, all runs set their length themselves"
    for selected, line in (("own", [reported]), ("o", [])):
        result = pytester.runpytest("-k", selected, "--kscen-duration=1s")
        assert [line for line in result.outlines if "without effect" in line] == line
