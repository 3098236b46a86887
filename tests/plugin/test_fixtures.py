"""The fixtures seen from a project that uses them: scopes, seeds, async tests, archives and the
line that runs it again.
"""

from __future__ import annotations

import contextlib
import json
import shlex

import pytest

from pytest_kscen.clock import VirtualRunner
from pytest_kscen.journal import Journal, schema

CALM = """
    import pytest

    @pytest.mark.volume_churn(max_volumes=2)
    def test_calm(scenario_runner):
        outcome = scenario_runner.run("5m")
        assert outcome.verdict == "valid", outcome.explain()
"""


def test_clusters_are_fresh_or_shared_according_to_the_marker(pytester):
    pytester.makepyfile("""
        import pytest

        seen = []

        def test_one(cluster):
            seen.append(id(cluster.server))

        def test_another(cluster):
            assert id(cluster.server) not in seen

        @pytest.mark.cluster(scope="module", nodes=2)
        class TestShared:
            def test_first(self, cluster):
                seen[:] = [cluster]

            def test_second(self, cluster):
                assert seen == [cluster]

            @pytest.mark.cluster(nodes=3)
            def test_another_wish(self, cluster):
                assert seen != [cluster]
    """)
    pytester.runpytest("-p", "no:randomly").assert_outcomes(passed=5)


def test_shared_cluster_is_closed_with_its_module(pytester):
    pytester.makepyfile("""
        import pytest

        @pytest.mark.cluster(scope="module")
        def test_it(cluster, request):
            request.session.seen = cluster
    """)
    pytester.makepyfile(
        test_later="""
        def test_it_is_closed(request):
            assert request.session.seen.runner.loop.is_closed()
    """
    )
    pytester.runpytest(
        "test_shared_cluster_is_closed_with_its_module.py", "test_later.py"
    ).assert_outcomes(passed=2)


def test_several_clusters_in_one_test(pytester):
    pytester.makepyfile("""
        def test_two(cluster_factory):
            parent, nested = cluster_factory(nodes=1), cluster_factory(nodes=2)
            parent.advance("1m")
            assert nested.now < parent.now
    """)
    pytester.runpytest().assert_outcomes(passed=1)


def test_async_test_runs_on_the_clusters_clock(pytester):
    pytester.makepyfile("""
        from pytest_kscen.objects.resources import NODES

        async def test_it(cluster):
            before = cluster.now
            await cluster.runner.clock.sleep(3600)
            assert cluster.now - before == 3600
            assert len((await cluster.api().list(NODES)).items) == 6
    """)
    pytester.runpytest().assert_outcomes(passed=1)


def test_tests_have_their_own_seeds_unless_one_is_given(pytester):
    pytester.makepyfile("""
        def test_a(cluster):
            print("SEED", cluster.chance.seed)
        def test_b(cluster):
            print("SEED", cluster.chance.seed)
    """)

    def seeds(*arguments):
        lines = pytester.runpytest("-s", *arguments).stdout.str().splitlines()
        return [line.split("SEED ")[1] for line in lines if "SEED " in line]

    own = seeds()
    assert own == seeds()
    assert own[0] != own[1]
    assert seeds("--kscen-seed=5") == ["5", "5"]
    drawn = seeds("--kscen-seed=random")
    assert drawn[0] == drawn[1] != own[0]


def test_workers_share_the_drawn_seed(pytester):
    pytest.importorskip("xdist")
    pytester.makepyfile("""
        import pathlib, pytest

        @pytest.mark.parametrize("number", range(4))
        def test_it(cluster, number):
            pathlib.Path(f"seed-{number}").write_text(cluster.chance.seed)
    """)
    pytester.runpytest("-n2", "--kscen-seed=random").assert_outcomes(passed=4)
    assert len({pytester.path.joinpath(f"seed-{number}").read_text() for number in range(4)}) == 1


def test_failing_test_prints_the_command_to_repeat_it(pytester):
    pytester.makepyfile("def test_it(cluster):\n    assert False")
    result = pytester.runpytest("--kscen-seed=11")
    again = "pytest test_failing_test_prints_the_command_to_repeat_it.py::test_it --kscen-seed=11"
    result.stdout.fnmatch_lines(["*run it again*", again])


SHARED = """
    import pytest

    pytestmark = pytest.mark.cluster(scope="{scope}", nodes=1)
    seen = []

    def test_one(cluster):
        cluster.advance("1m")

    @pytest.mark.parametrize("text", ["a b"])
    def test_other(cluster, text):
        cluster.advance("1m")

    def test_that_fails(cluster):
        print("SEED", cluster.chance.seed)
        seconds = cluster.now % 3600
        assert seconds < 60, f"{{seconds:.0f}} s"
"""


@pytest.mark.parametrize("scope", ["module", "session"])
def test_failure_on_a_shared_cluster_repeats_all_its_tests(pytester, scope):
    pytester.makepyfile(test_a=SHARED.format(scope=scope))
    whole = pytester.runpytest("-p", "no:randomly")
    whole.assert_outcomes(passed=2, failed=1)
    (again,) = [line for line in whole.outlines if line.startswith("pytest ")]
    seed = next(line.removeprefix("SEED ") for line in whole.outlines if line.startswith("SEED "))
    assert again == (
        "pytest test_a.py::test_one 'test_a.py::test_other[a b]' "
        f"test_a.py::test_that_fails --kscen-seed={seed}"
    )
    repeated = pytester.runpytest("-p", "no:randomly", *shlex.split(again)[1:])
    repeated.assert_outcomes(passed=2, failed=1)
    alone = pytester.runpytest("test_a.py::test_that_fails")
    alone.assert_outcomes(passed=1)
    assert f"SEED {seed}" in pytester.runpytest("test_a.py::test_that_fails", "-s").stdout.str()


def test_run_is_archived(pytester):
    pytester.makepyfile(test_a=CALM)
    pytester.runpytest("--kscen-archive=kept", "--kscen-seed=3").assert_outcomes(passed=1)
    folder = pytester.path / "kept" / "test_a.py-test_calm"
    assert sorted(path.name for path in folder.iterdir()) == [
        "changes.jsonl.gz",
        "journal.jsonl",
        "outcome.json",
        "run.json",
        "summary.txt",
    ]
    run = json.loads((folder / "run.json").read_text())
    assert run["seed"] == "3"
    assert run["options"]["--kscen-seed"] == "3"
    assert run["command"] == "pytest test_a.py::test_calm --kscen-seed=3"
    outcome = json.loads((folder / "outcome.json").read_text())
    assert outcome["verdict"] == "valid"
    first = json.loads((folder / "journal.jsonl").read_text().splitlines()[0])
    begun = {
        "seed": "3",
        "duration": 300.0,
        "conditions": ["IOReady", "Quorum"],
        "churn": True,
        "chaos": [],
        "link_profiles": [],
    }
    assert first.pop("label").startswith("kscen.io/run=")
    assert first == {**schema.stamp(), "at": 0.0, "actor": "run", "what": "run-started", **begun}


def test_refused_run_keeps_the_folder_of_an_earlier_one(pytester):
    pytester.makepyfile(test_a=CALM)
    pytester.runpytest("--kscen-archive=kept").assert_outcomes(passed=1)
    (folder,) = (pytester.path / "kept").iterdir()
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    refused = pytester.runpytest("--kscen-archive=kept", "--storage-classes=nope")
    refused.assert_outcomes(failed=1)
    refused.stdout.fnmatch_lines(["*nope*"])
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_run_is_refused_before_it_starts_where_another_is_active(pytester):
    pytester.makepyfile(
        test_a="""
        import pytest

        def test_it(scenario_runner):
            with pytest.raises(ValueError, match="^another run still writes to "), scenario_runner:
                pass
            assert scenario_runner.runs == []
    """
    )
    folder = pytester.path / "kept" / "test_a.py-test_it"
    folder.mkdir(parents=True)
    runner = VirtualRunner()
    with contextlib.closing(Journal(runner.clock, folder / "journal.jsonl")):
        pytester.runpytest("--kscen-archive=kept").assert_outcomes(passed=1)
    runner.close()


def test_run_length_defaults_to_the_settings(pytester):
    pytester.makepyfile("""
        import pytest

        @pytest.mark.volume_churn(max_volumes=1)
        def test_it(scenario_runner):
            before = scenario_runner.cluster.now
            scenario_runner.run()
            assert 240 <= scenario_runner.cluster.now - before < 400
    """)
    pytester.runpytest("--kscen-duration=4m").assert_outcomes(passed=1)


def test_unchecked_invalid_outcome_fails_the_test(pytester):
    pytester.makepyfile("""
        import pytest

        @pytest.mark.chaos("pod-destroy")
        def test_it(scenario_runner):
            scenario_runner.run("5s")

        @pytest.mark.chaos("pod-destroy")
        def test_that_looks(scenario_runner):
            assert scenario_runner.run("5s").verdict == "unknown"

        @pytest.mark.chaos("pod-destroy")
        def test_that_has_failed_anyhow(scenario_runner):
            raise ValueError(scenario_runner.run("5s").lasted)
    """)
    result = pytester.runpytest("-W", "default::pytest_kscen.run.plan.PlanWarning")
    result.assert_outcomes(passed=2, failed=1, errors=1, warnings=3)
    result.stdout.fnmatch_lines(
        [
            "*the run was not valid, and the test did not read its verdict*",
            "*no incident of pod-destroy in 5s: run longer*",
            "*test_unchecked*.py:5: PlanWarning: pod-destroy: no incident in *",
        ]
    )


def test_unplayed_plan_fails_the_test_unless_something_else_does(pytester):
    pytester.makepyfile("""
        import pytest

        @pytest.mark.volume_churn
        def test_it(scenario_runner):
            pass

        @pytest.mark.chaos("vm-reboot")
        def test_that_skips(scenario_runner):
            pytest.skip("not today")

        @pytest.mark.chaos("vm-reboot")
        def test_that_fails(scenario_runner):
            assert False

        def test_that_declares_nothing(scenario_runner):
            pass
    """)
    result = pytester.runpytest()
    result.assert_outcomes(passed=2, skipped=1, failed=1, errors=1)
    result.stdout.fnmatch_lines(
        ["the test has not run what its markers declare: call scenario_runner.run(), or enter *"]
    )


def test_unavailable_cluster_is_refused_with_a_message(pytester):
    pytester.makefile(
        ".yaml",
        nowhere="""
        apiVersion: v1
        kind: Config
        clusters: [{name: c, cluster: {server: "https://127.0.0.1:9"}}]
        users: [{name: u, user: {token: t}}]
        contexts: [{name: x, context: {cluster: c, user: u}}]
        current-context: x
    """,
    )
    pytester.makepyfile("def test_it(cluster): pass")
    result = pytester.runpytest("--kubeconfig=nowhere.yaml")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*https://127.0.0.1:9*"])
    result.stdout.no_fnmatch_line("*Traceback*")


def test_fixtures_of_others_may_have_the_same_names(pytester):
    pytester.makepyfile("""
        import pytest

        @pytest.fixture
        def cluster():
            return "theirs"

        @pytest.fixture
        def scenario_runner(cluster):
            return cluster * 2

        def test_it(scenario_runner):
            assert scenario_runner == "ours"

        async def test_async(cluster):
            assert cluster == "ours"
    """)
    result = pytester.runpytest("-W", "ignore")
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(
        ["*assert 'theirstheirs' == 'ours'*", "*async def functions are not natively supported*"]
    )
    result.stdout.no_fnmatch_line("*run it again*")


def test_fixture_may_be_built_on_ours(pytester):
    pytester.makepyfile("""
        import pytest

        @pytest.fixture
        def cluster(cluster):
            return cluster.now, cluster

        async def test_async(cluster):
            began, real = cluster
            await real.runner.clock.sleep(5)
            assert real.now - began == 4
    """)
    result = pytester.runpytest("--kscen-seed=9")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "*run it again*",
            "pytest test_fixture_may_be_built_on_ours.py::test_async --kscen-seed=9",
        ]
    )
