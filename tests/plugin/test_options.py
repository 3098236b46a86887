"""Command line of the plugin: accepted and refused options, and their messages."""

from __future__ import annotations

import subprocess
import sys

import pytest

NOTHING = "def test_nothing(): pass"


@pytest.fixture
def plain(pytester):
    """Separate project, so that warnings of other plugins do not count."""
    pytester.makepyfile(NOTHING)
    return pytester


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (
            ["--kscen-cluster=minikube"],
            "--kscen-cluster: invalid value 'minikube': choose one of embedded, ",
        ),
        (
            ["--kscen-seed=x"],
            "--kscen-seed: invalid value 'x': give a whole number, or 'random' to have one drawn",
        ),
        (
            ["--kscen-duration=90"],
            "--kscen-duration: '90' is not a duration: write for example 90s",
        ),
        (
            ["--kscen-duration=0s"],
            "--kscen-duration: invalid value '0s': give more than zero",
        ),
        (["--kubeconfig=nowhere"], "--kubeconfig: there is no file 'nowhere'"),
        (
            ["--kscen-archive=test_archive.txt"],
            "--kscen-archive: 'test_archive.txt' is not a folder",
        ),
        (
            ["--kscen-archive="],
            "--kscen-archive: invalid value '': name a folder in which runs can be kept",
        ),
        (
            ["--kscen-archive= "],
            "--kscen-archive: invalid value ' ': name a folder in which runs can be kept",
        ),
        (
            ["--kscen-context="],
            (
                "--kscen-context: invalid value '': name a context, or leave it out for the "
                "current one"
            ),
        ),
        (["--kscen-seed="], "--kscen-seed: invalid value ''"),
        (["--kscen-context=c"], "--kscen-context: the embedded cluster has no contexts"),
        (
            ["--kubeconfig=test_archive.txt", "--kscen-cluster=embedded"],
            "--kubeconfig: the embedded cluster makes its own",
        ),
    ],
)
def test_invalid_option_is_a_usage_error(plain, arguments, complaint):
    plain.makefile(".txt", test_archive="")
    result = plain.runpytest(*arguments)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*{complaint.replace('[', '[[]')}*"])


def test_environment_and_ini_file_are_sources_of_options(plain, monkeypatch):
    plain.makeini("[pytest]\nkscen_seed = 7")
    plain.runpytest().stdout.fnmatch_lines(["kscen: embedded cluster, seed 7"])
    monkeypatch.setenv("KSCEN_SEED", "8")
    plain.runpytest().stdout.fnmatch_lines(["kscen: embedded cluster, seed 8"])
    plain.runpytest("--kscen-seed=9").stdout.fnmatch_lines(["kscen: embedded cluster, seed 9"])
    monkeypatch.setenv("KSCEN_SEED", "nine")
    plain.runpytest().stderr.fnmatch_lines(["*KSCEN_SEED: invalid value 'nine'*"])


def test_random_seed_is_drawn_and_printed(plain):
    first, second = (plain.runpytest("--kscen-seed=random").stdout.str() for _ in range(2))
    seeds = [text.split("seed ")[1].split()[0] for text in (first, second)]
    assert all(seed.isdecimal() for seed in seeds)
    assert seeds[0] != seeds[1]


@pytest.mark.parametrize("arguments", [[], ["-p", "no:pytest-kind"]])
def test_kubeconfig_flag_works_with_and_without_pytest_kind(plain, arguments):
    result = plain.runpytest("--kubeconfig=nowhere", *arguments)
    result.stderr.fnmatch_lines(["*--kubeconfig: there is no file 'nowhere'*"])


@pytest.mark.parametrize(
    ("marker", "complaint"),
    [
        (
            "chaos('pod-destory')",
            "there is no chaos profile 'pod-destory' (did you mean 'pod-destroy'?)",
        ),
        (
            "chaos('pod-destroy', lable='a')",
            "has no parameter 'lable' (did you mean 'label'?); its parameters are",
        ),
        ("chaos()", "chaos() takes the profile's name first"),
        ("chaos(5)", "chaos(5) takes the profile's name first"),
        (
            "chaos('vm-reboot', 'pod-destroy')",
            "chaos('vm-reboot', 'pod-destroy') takes the profile's name first",
        ),
        ("chaos('pod-destroy', label=3)", "label=3: write it as in app=agent"),
        ("chaos('pod-destroy', label='a==b==c')", "label='a==b==c': found '==', expected"),
        ("chaos('pod-destroy', namespace=3)", "namespace=3: give a name"),
        (
            "volume_churn(step=(1, 1.5))",
            (
                "step=(1, 1.5): give the least and the most, in this order, each more than "
                "zero, in whole"
            ),
        ),
        (
            "chaos('pod-destroy', period=('5m', '1m'))",
            "period=('5m', '1m'): give the least and the most, in this order",
        ),
        (
            "volume_churn(max_volume=3)",
            "has no parameter 'max_volume' (did you mean 'max_volumes'?); its parameters are",
        ),
        ("volume_churn(3)", "takes its parameters by name"),
        ("volume_churn(patience='60')", "patience: '60' is not a duration"),
        ("volume_churn(patience='0s')", "patience=0.0: give a time, more than zero"),
        ("volume_churn(lifetime=('60', '5m'))", "lifetime: '60' is not a duration"),
        ("volume_churn(max_volumes='ten')", "max_volumes='ten': give a whole number, 1 or more"),
        (
            "volume_churn(storage_classes='availability')",
            "storage_classes='availability': give a list of names",
        ),
        ("volume_churn(size='huge')", "size='huge' is not a quantity"),
        (
            "volume_churn(step=(0, 0))",
            "step=(0, 0): give the least and the most, in this order, each more than zero",
        ),
        ("chaos('pod-destroy', pods=('a', 'b'))", "pods=('a', 'b'): give the least and the most"),
        ("chaos('pod-destroy', pods=2)", "pods=2: give two values, the least and the most"),
        (
            "chaos('pod-destroy', period='30s')",
            "period='30s': give two values, the least and the most",
        ),
        (
            "chaos('pod-destroy', period=(0, 0))",
            "period=(0, 0): give the least and the most, in this order, each more than zero",
        ),
        ("cluster(scope='class')", "scope='class': choose one of function, module, session"),
        ("cluster(backend='minikube')", "backend='minikube': choose one of"),
        ("cluster(nodes='three')", "nodes='three': give a whole number"),
    ],
)
def test_invalid_marker_is_refused_at_collection(pytester, marker, complaint):
    pytester.makepyfile(f"import pytest\n@pytest.mark.{marker}\n{NOTHING}")
    result = pytester.runpytest()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert complaint in result.stderr.str()
    assert "::test_nothing: " in result.stderr.str()


@pytest.mark.parametrize(
    "marker", ["megatest(1)", "megatest(volumes=3)", "scenario('a.yaml')", "controlplane('1.34')"]
)
def test_marker_without_parameters_is_refused_arguments_unless_foreign(pytester, marker):
    pytester.makepyfile(
        test_ours=f"import pytest\n@pytest.mark.{marker}\ndef test_it(scenario_runner): pass",
        test_theirs=f"import pytest\n@pytest.mark.{marker}\ndef test_it(): pass",
    )
    result = pytester.runpytest("test_ours.py")
    name = marker.partition("(")[0]
    assert (
        f"test_ours.py::test_it: @pytest.mark.{name} takes no parameters: remove them"
        in result.stderr.str()
    )
    pytester.runpytest("test_theirs.py").assert_outcomes(passed=1)


@pytest.mark.parametrize("marker", ["volume_churn", "chaos('vm-reboot')", "plan_from_command_line"])
def test_unplayed_plan_is_refused_at_collection(pytester, marker):
    pytester.makepyfile(f"""
        import pytest

        @pytest.fixture
        def runs(scenario_runner):
            return scenario_runner

        @pytest.mark.{marker}
        class TestAll:
            def test_it(self, cluster): pass
            def test_that_may(self, request): pass
            def test_that_does(self, runs): pass
    """)
    result = pytester.runpytest()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    name = marker.partition("(")[0]
    result.stderr.fnmatch_lines(
        [(f"*::TestAll::test_it: @pytest.mark.{name}: the plan is never run: request the fixture*")]
    )


HEAVY = (
    "kubernetes",
    "aiohttp",
    "pytest_kscen.models",
    "pytest_kscen.embedded",
    "pytest_kscen.run",
    "pytest_kscen.kube",
)


def test_project_not_using_the_plugin_imports_nothing_heavy(plain):
    plain.makeconftest(f"""
        import sys
        def pytest_unconfigure():
            print("LOADED", [name for name in {HEAVY!r} if name in sys.modules])
    """)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q"],
        capture_output=True,
        text=True,
        check=False,
        cwd=plain.path,
    )
    assert "LOADED []" in done.stdout, done.stdout + done.stderr
