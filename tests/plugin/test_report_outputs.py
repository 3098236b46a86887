"""Reports of one small run on the terminal, in JUnit's file, in Allure's folder and the archive."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET

import pytest

TEST = """
    import pytest

    @pytest.mark.volume_churn(max_volumes=1)
    @pytest.mark.chaos("pod-destroy", label="app=agent")
    def test_it(scenario_runner):
        outcome = scenario_runner.run("5m")
        assert outcome.verdict == "valid", outcome.explain()
"""


def test_terminal_prints_each_run(pytester):
    pytester.makepyfile(TEST)
    reported = [
        "*kscen runs*",
        "test_*::test_it: valid after 5m of cluster time; seed *",
        "  volumes: * created, 0 errors: *",
    ]
    for option, told_of in (
        ("--verbosity=0", ["  pod-destroy: * incidents*"]),
        ("-v", ["  times: *", "  pod-destroy*: * incidents*"]),
    ):
        pytester.runpytest(option).stdout.fnmatch_lines([*reported, *told_of])


def test_quiet_terminal_prints_the_headline(pytester):
    pytester.makepyfile(TEST)
    result = pytester.runpytest("-q")
    result.stdout.fnmatch_lines(["test_*::test_it: valid after *"])
    result.stdout.no_fnmatch_line("  volumes: *")


def test_xdist_worker_prints_each_run(pytester):
    pytest.importorskip("xdist")
    pytester.makepyfile(TEST)
    pytester.runpytest_subprocess("-n1").stdout.fnmatch_lines(["test_*::test_it: valid after *"])


def test_junit_has_properties(pytester):
    pytester.makepyfile(TEST)
    pytester.runpytest("--junitxml=junit.xml")
    found = ET.parse(pytester.path / "junit.xml").iter("property")
    reported = {one.get("name"): one.get("value") for one in found}
    assert reported["kscen.verdict"] == "valid"
    assert int(reported["kscen.incidents.effective"]) >= 1


def test_allure_has_steps_and_attachments(pytester):
    pytest.importorskip("allure")
    pytester.makepyfile(TEST)
    pytester.runpytest("--alluredir=allure")
    (result,) = [
        json.loads(path.read_text()) for path in (pytester.path / "allure").glob("*-result.json")
    ]
    (run,) = [step for step in result["steps"] if step["name"].startswith("run 1: valid")]
    assert {"summary", "outcome.json", "journal.jsonl"} <= {
        paper["name"] for paper in run["attachments"]
    }
    assert any("pod-destroy" in step["name"] and step["steps"] for step in run["steps"])


def test_allure_shows_the_verdict_of_a_run(pytester):
    pytest.importorskip("allure")
    pytester.makepyfile("""
        import pytest

        def test_it(scenario_runner):
            with scenario_runner as run:
                volume = run.volumes.create("consistency-and-availability", name="v")
                run.until(volume.ready)
                for node in volume.nodes[:2]:
                    run.chaos.vm_stop(node)
                run.advance("2m")
            assert run.outcome.verdict == "invalid"

        @pytest.mark.chaos("network-block")
        def test_nothing(scenario_runner):
            assert scenario_runner.run("10m").verdict == "unknown"
    """)
    pytester.runpytest("--alluredir=allure")
    results = [
        json.loads(path.read_text()) for path in (pytester.path / "allure").glob("*-result.json")
    ]
    reported = {result["name"]: (result["status"], result["steps"][-1]) for result in results}
    assert {name: (status, run["status"]) for name, (status, run) in reported.items()} == {
        "test_it": ("passed", "failed"),
        "test_nothing": ("passed", "broken"),
    }
    _, run = reported["test_it"]
    (volume,) = [step for step in run["steps"] if step["name"] == "broken: v"]
    assert volume["status"] == "failed"
    assert (
        "1 of 1 volumes did not keep their guaranteed state: v" in run["statusDetails"]["message"]
    )


def test_allure_has_the_story_of_broken_volumes_despite_many_changes(pytester):
    pytest.importorskip("allure")
    pytester.makepyfile("""
        from pytest_kscen.judge.outcome import judge
        from pytest_kscen.clock import VirtualRunner
        from pytest_kscen.journal import Journal
        from pytest_kscen.report.allure import attach

        def test_it():
            runner = VirtualRunner()
            journal = Journal(runner.clock)
            for number in range(30):
                own = {"volume": f"v{number:02}"}
                journal.write("m", "volume", {**own, "storage_class": "none"})
                journal.write("m", "checker-started", {**own, "conditions": ["IOReady"]})
                for observed in ["False"] + ["True"] * (number < 29):
                    changed = {"condition": "IOReady", "observed": observed, "expected": "True"}
                    journal.write("m", "condition-changed", {**own, **changed})
            journal.write("run", "frozen", {})
            attach(judge(journal), journal, "run 1")
            runner.close()
    """)
    pytester.runpytest("--alluredir=allure").assert_outcomes(passed=1)
    (result,) = [
        json.loads(path.read_text()) for path in (pytester.path / "allure").glob("*-result.json")
    ]
    reported = [step["name"] for step in result["steps"][0]["steps"]]
    assert reported == [
        "broken: v29",
        *(f"recovered: v{number:02}" for number in range(19)),
        "10 more volumes moved. Print the story of any: `python -m pytest_kscen story FOLDER VOLUME`",
    ]


def test_archive_has_the_summary(pytester):
    pytester.makepyfile(TEST)
    pytester.runpytest("--kscen-archive=runs")
    (folder,) = (pytester.path / "runs").iterdir()
    assert (folder / "summary.txt").read_text().startswith("valid after 5m")
    moved = {path.stem for path in folder.glob("stories/*.txt")}
    volumes = json.loads((folder / "outcome.json").read_text())["volumes"]
    assert moved == {one["name"] for one in volumes if one["verdict"] != "stable"}


def test_archive_that_cannot_be_created_is_refused_first(pytester):
    pytester.makepyfile(TEST)
    pytester.path.joinpath("file").write_text("")
    result = pytester.runpytest("--kscen-archive=file/nope")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        [
            (
                "ERROR: --kscen-archive 'file/nope' cannot be made: Not a directory: name a "
                "folder in which *"
            )
        ]
    )


def test_second_ctrl_c_does_not_stop_the_report(pytester):
    pytester.makeconftest("""
        import os, signal

        def pytest_runtest_logreport(report):
            if report.when == "call":
                os.kill(os.getpid(), signal.SIGINT)
    """)
    pytester.makepyfile("""
        import os, signal

        def test_it(scenario_runner, cluster):
            cluster.runner.loop.call_later(60, os.kill, os.getpid(), signal.SIGINT)
            assert scenario_runner.run("1h").stopped_early

        def test_for_which_there_is_no_time():
            pass
    """)
    result = pytester.runpytest_subprocess()
    result.assert_outcomes(passed=1)
    lines = [
        "kscen: Stopping: undoing faults and deleting volumes *",
        "*::test_it: valid after * of cluster time, stopped early; *",
    ]
    result.stdout.fnmatch_lines([*lines, "*a stop was requested*"])
    assert "Keeping the volumes" not in result.stdout.str()


def test_ctrl_c_ends_a_run_without_a_terminal(pytester):
    pytester.makeconftest("""
        import pytest

        @pytest.fixture(autouse=True)
        def gone(request, monkeypatch):
            def fail(line):
                raise BrokenPipeError("nobody reads")
            monkeypatch.setattr(request.config.pluginmanager.getplugin("terminalreporter"), "write_line", fail)
    """)
    pytester.makepyfile("""
        import os, signal

        def test_it(scenario_runner, cluster):
            cluster.runner.loop.call_later(60, os.kill, os.getpid(), signal.SIGINT)
            with scenario_runner as run:
                try:
                    run.advance("1h")
                except KeyboardInterrupt:
                    pass
            assert run.outcome.lasted < 300
    """)
    pytester.runpytest_subprocess().assert_outcomes(passed=1)


def test_second_ctrl_c_prints_what_remains(pytester):
    pytester.makepyfile("""
        import os, signal

        def test_it(scenario_runner, cluster):
            with scenario_runner as run:
                run.volumes.create("availability")
                for when in (60, 60.1):
                    cluster.runner.loop.call_later(when, os.kill, os.getpid(), signal.SIGINT)
                run.advance("1h")
    """)
    reported = pytester.runpytest_subprocess().stdout.str()
    first, _, rest = reported.partition("kscen: Stopping: undoing faults and deleting volumes")
    assert first
    assert "kscen: Keeping the volumes. Faults are still undone." in rest
