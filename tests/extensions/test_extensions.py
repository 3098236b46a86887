"""The example package of docs/extending.md, installed beside pytest-kscen and used by tests."""

from __future__ import annotations

import pathlib
import re
import shutil
import subprocess
import sys
import tomllib

import pytest

import pytest_kscen
from pytest_kscen.extensions import ExtensionError, Registry

HERE = pathlib.Path(__file__).parent
PACKAGE = HERE / "package"
SOURCES = pathlib.Path(pytest_kscen.__file__).parents[1]
PAGE = SOURCES / "docs" / "extending.md"


@pytest.fixture
def installed(tmp_path):
    """A folder to test in, and a function that runs Python there with the package installed."""
    site, tests = tmp_path / "site", tmp_path / "tests"
    shutil.copytree(PACKAGE / "kscen_examples", site / "kscen_examples")
    project = tomllib.loads((PACKAGE / "pyproject.toml").read_text())["project"]
    metadata = site / "kscen_examples-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    groups = (
        "\n".join([f"[{group}]", *(f"{name} = {value}" for name, value in points.items()), ""])
        for group, points in project["entry-points"].items()
    )
    (metadata / "entry_points.txt").write_text("\n".join(groups))
    tests.mkdir()
    (tests / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
    shutil.copy(HERE / "example_tests.py", tests / "test_examples.py")

    def run(*arguments):
        path = ":".join(map(str, (site, SOURCES)))
        return subprocess.run(
            [sys.executable, "-m", *arguments],
            cwd=tests,
            env={"PYTHONPATH": path, "PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
            check=False,
        )

    return tests, run


def pytest_in(installed, *arguments):
    return installed[1]("pytest", "-p", "no:cacheprovider", *arguments)


def test_the_profile(installed):
    done = pytest_in(installed, "-k", "cordoned")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "node-cordon" in done.stdout


def test_a_profiles_options(installed):
    shown = pytest_in(installed, "--help").stdout
    assert "--enable-chaos-node-cordon" in shown
    done = pytest_in(
        installed, "-k", "command_line", "--enable-chaos-node-cordon", "--chaos-period-min=20s"
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_storage_model_and_its_health_source(installed):
    done = pytest_in(installed, "-k", "toy", "--kscen-volume-health=toy")
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_report(installed):
    pytest_in(installed, "-k", "cordoned")
    (line,) = (installed[0] / "runs.txt").read_text().splitlines()
    assert line.startswith("test_examples.py::test_nodes_are_cordoned: valid after 2m")


def test_the_backend(installed):
    done = pytest_in(installed, "-k", "cordoned", "--kscen-cluster=small")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "small cluster" in done.stdout


def test_the_probe_and_the_waiter_without_pytest(installed):
    (installed[0] / "show.py").write_text(
        "from pytest_kscen.workflow.probes.probe import PROBE_FORMS, Probe\n"
        "from pytest_kscen.scenario.builtin_waiters import waiters_where_served\n"
        "body = {'name': 'p', 'when': 'Start', 'clock': {'before': '2030'}}\n"
        "print(Probe.of(body).form, [each.name for each in waiters_where_served()])\n"
    )
    done = installed[1]("show")
    assert "ClockProbe(before='2030')" in done.stdout, done.stderr
    assert "toy-controller" in done.stdout


def test_hooks_of_a_conftest(installed):
    tests, _ = installed
    (tests / "conftest.py").write_text(
        "from kscen_examples.node_cordon import NodeCordon\n"
        "class Other(NodeCordon):\n"
        "    name = 'other-cordon'\n"
        "    options = ()\n"
        "def pytest_kscen_profiles():\n"
        "    return [Other]\n"
    )
    (tests / "test_examples.py").write_text(
        "import pytest\n"
        "@pytest.mark.chaos('other-cordon', period=('5s', '5s'))\n"
        "def test_it(scenario_runner):\n"
        "    assert scenario_runner.plan.chaos[0].name == 'other-cordon'\n"
        "    assert scenario_runner.run('1m').verdict == 'unknown'\n"
    )
    done = pytest_in(installed)
    assert done.returncode == 0, done.stdout + done.stderr


def test_two_of_one_name_are_refused(installed):
    tests, _ = installed
    (tests / "conftest.py").write_text(
        "from kscen_examples.node_cordon import NodeCordon\n"
        "class Other(NodeCordon):\n"
        "    pass\n"
        "def pytest_kscen_profiles():\n"
        "    return [Other]\n"
    )
    done = pytest_in(installed)
    assert done.returncode == 4
    assert (
        "there are two chaos profiles 'node-cordon': kscen_examples.node_cordon.NodeCordon of the "
        "package 'kscen_examples' and conftest.Other of the package 'conftest': rename one of "
        "them, or uninstall one of the packages"
    ) in done.stderr


def registry():
    return Registry("things", "thing", facts={"size": "size = 1"}, built_in=())


def test_an_extension_that_lacks_a_fact_is_refused():
    class Bare:
        name = "bare"

    with pytest.raises(
        ExtensionError,
        match=r"Bare of the package 'x' is no thing: it does not define `size`: add `size = 1`",
    ):
        registry().add(Bare, package="x")


def test_an_abstract_method_is_a_fact():
    from pytest_kscen.chaos import Profile
    from pytest_kscen.chaos.profiles import PROFILES

    class Idle(Profile):
        name = "idle"
        targets = creates = ()
        soonest = 0.0

    with pytest.raises(ExtensionError, match="is no chaos profile: it does not define `run`"):
        PROFILES.add(Idle)


def test_an_extension_is_added_once():
    class Thing:
        name, size = "thing", 1

    things = registry()
    things.add(Thing)
    things.add(Thing)
    assert (list(things), things.names(), len(things)) == (["thing"], ["thing"], 1)
    things.discard(Thing)
    assert "thing" not in things


def blocks():
    return re.findall(
        r"^```(?:python|toml) title=(\S+)\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL
    )


def test_the_page_quotes_the_package():
    assert {name for name, _ in blocks()} == {
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*")
        if path.suffix in {".py", ".toml"} and path.name != "__init__.py"
    }
    for name, text in blocks():
        assert text == (PACKAGE / name).read_text(), f"docs/extending.md: {name} is not its file"


def test_the_page_imports_public_names_only():
    imported = re.findall(r"^from (pytest_kscen[\w.]*) import", PAGE.read_text(), re.MULTILINE)
    assert set(imported) <= {
        "pytest_kscen.chaos",
        "pytest_kscen.clusters",
        "pytest_kscen.report",
        "pytest_kscen.scenario",
        "pytest_kscen.storage",
        "pytest_kscen.workflow.probes",
    }
