"""The example package of docs/extending.md, installed beside pytest-kscen and used by tests."""

from __future__ import annotations

import pathlib
import re
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from types import SimpleNamespace

import pytest

import pytest_kscen
from pytest_kscen import extensions
from pytest_kscen.chaos import Profile
from pytest_kscen.chaos.profiles import PROFILES
from pytest_kscen.extensions import ExtensionError, Registry
from pytest_kscen.plugin import hookspecs
from pytest_kscen.plugin.contributions import POINTS, registry_of
from pytest_kscen.report.protocol import Report
from pytest_kscen.report.registry import REPORTS, reports_for

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


def test_installed_profile_runs(installed):
    done = pytest_in(installed, "-k", "cordoned")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "node-cordon" in done.stdout


def test_profile_options_are_registered(installed):
    shown = pytest_in(installed, "--help").stdout
    assert "--kscen-volume-health=conditions|effectiveLayout|ready|toy" in shown
    assert "--enable-chaos-node-cordon" in shown
    done = pytest_in(
        installed, "-k", "command_line", "--enable-chaos-node-cordon", "--chaos-period-min=20s"
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_storage_model_and_its_health_source_are_used(installed):
    done = pytest_in(installed, "-k", "toy", "--kscen-volume-health=toy")
    assert done.returncode == 0, done.stdout + done.stderr


def test_installed_report_is_written(installed):
    pytest_in(installed, "-k", "cordoned")
    (line,) = (installed[0] / "runs.txt").read_text().splitlines()
    assert line.startswith("test_examples.py::test_nodes_are_cordoned: valid after 2m")


def test_installed_backend_is_used(installed):
    done = pytest_in(installed, "-k", "cordoned", "--kscen-cluster=small")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "small cluster" in done.stdout


def test_probe_and_waiter_work_without_pytest(installed):
    (installed[0] / "show.py").write_text(
        "from pytest_kscen.workflow.probes.probe import PROBE_FORMS, Probe\n"
        "from pytest_kscen.scenario.builtin_waiters import waiters_where_served\n"
        "body = {'name': 'p', 'when': 'Start', 'clock': {'before': '2030'}}\n"
        "print(Probe.of(body).form, [each.name for each in waiters_where_served()])\n"
    )
    done = installed[1]("show")
    assert "ClockProbe(before='2030')" in done.stdout, done.stderr
    assert "toy-controller" in done.stdout


def file_of_page(name):
    """Return the block of this title in docs/extending.md."""
    (text,) = re.findall(rf"^```\w+ title={name}\n(.*?)^```$", PAGE.read_text(), FLAGS)
    return text


FLAGS = re.MULTILINE | re.DOTALL


def test_probe_of_a_package_is_checked_in_a_workflow(installed):
    """In a Workflow's file, in a Workflow and in a Schedule: the API server keeps its field."""
    tests, _ = installed
    (tests / "clock.workflow.yaml").write_text(file_of_page("clock.workflow.yaml"))
    (tests / "test_examples.py").write_text(
        "import pathlib, yaml\n"
        "document = yaml.safe_load(pathlib.Path(__file__).with_name('clock.workflow.yaml').read_text())\n"
        "def test_it(scenario_runner):\n"
        "    workflow = {**document, 'metadata': {'name': 'late', 'namespace': 'default'}}\n"
        "    workflow['spec']['templates'][0]['probes'][0]['clock']['before'] = '1970-01-01T00:00:00Z'\n"
        "    with scenario_runner as run:\n"
        "        workflow = run.workflow(workflow)\n"
        "        run.until(workflow.finished, timeout='5m')\n"
        "    assert workflow.phase == 'Failed'\n"
        "    assert 'it is 20' in workflow.node('wait').message\n"
        "def test_a_schedule(scenario_runner):\n"
        "    spec = {'schedule': '* * * * *', 'type': 'Workflow', 'concurrencyPolicy': 'Forbid',\n"
        "            'historyLimit': 2, 'workflow': document['spec']}\n"
        "    schedule = {'apiVersion': document['apiVersion'], 'kind': 'Schedule',\n"
        "                'metadata': {'name': 's', 'namespace': 'default'}, 'spec': spec}\n"
        "    with scenario_runner as run:\n"
        "        made = run.schedule(schedule)\n"
        "        run.advance('70s')\n"
        "        assert 'it is 20' in made.workflows[0].node('wait').message\n"
        "        assert made.workflows[0].phase == 'Failed'\n"
    )
    done = pytest_in(installed)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 passed" in done.stdout


def test_waiter_of_a_package_takes_part_in_a_scenario(installed):
    tests, _ = installed
    (tests / "toy.scenario.yaml").write_text(file_of_page("toy.scenario.yaml"))
    done = pytest_in(installed, "toy.scenario.yaml")
    assert done.returncode == 1, done.stdout + done.stderr
    assert (
        "the controller 'toy-controller' cannot take part: this cluster does not serve "
        "toyvolumes.toy.example: create the CustomResourceDefinition before the scenario"
    ) in done.stdout
    (tests / "conftest.py").write_text(file_of_page("conftest.py"))
    done = pytest_in(installed, "toy.scenario.yaml")
    assert done.returncode == 0, done.stdout + done.stderr


PARAMETERS = (
    "import dataclasses, pytest\n"
    "from kscen_examples.node_cordon import NodeCordon\n"
    "from pytest_kscen.chaos import CountRange, Duration, DurationRange\n"
    "@dataclasses.dataclass(frozen=True)\n"
    "class Other(NodeCordon):\n"
    "    name = 'other-cordon'\n"
    "    options = ()\n"
    "    {}\n"
    "def pytest_kscen_profiles():\n"
    "    return [Other]\n"
)


def test_public_annotations_decide_how_parameters_are_filled(installed):
    tests, _ = installed
    fields = (
        "pause: Duration = 1.0; some: CountRange | None = None; calm: DurationRange | None = None"
    )
    (tests / "conftest.py").write_text(PARAMETERS.format(fields))
    (tests / "test_examples.py").write_text(
        "import pytest\n"
        "@pytest.mark.chaos('other-cordon', pause='2m', some=(1, 2), calm=('30s', '1m'))\n"
        "def test_it(scenario_runner):\n"
        "    (chaos,) = scenario_runner.plan.chaos\n"
        "    assert (chaos.pause, chaos.some, chaos.calm) == (120.0, (1, 2), (30.0, 60.0))\n"
        "    assert scenario_runner.run('5m').verdict != 'invalid'\n"
    )
    done = pytest_in(installed)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("field", "message"),
    [
        (
            "period: tuple = (60.0, 300.0)",
            (
                "is no chaos profile: its field 'period' has the annotation tuple, which no marker "
                "can fill: write DurationRange, CountRange or Duration of pytest_kscen.chaos"
            ),
        ),
        ("period: 'Gone' = 1", "its field 'period', Gone, cannot be evaluated: name 'Gone' is not"),
    ],
)
def test_field_that_cannot_be_filled_is_refused(installed, field, message):
    (installed[0] / "conftest.py").write_text(PARAMETERS.format(field))
    done = pytest_in(installed)
    assert done.returncode == 4, done.stdout + done.stderr
    assert message in done.stderr


def test_unknown_hook_is_a_usage_error(installed):
    (installed[0] / "conftest.py").write_text("def pytest_kscen_profile(): return []\n")
    done = pytest_in(installed)
    assert done.returncode == 4, done.stdout + done.stderr
    assert (
        "conftest.py defines the hook 'pytest_kscen_profile', which does not exist "
        "(did you mean 'pytest_kscen_profiles'?); the hooks are pytest_kscen_profiles, "
    ) in done.stderr


def test_hook_with_an_object_of_no_package(installed):
    (installed[0] / "conftest.py").write_text("def pytest_kscen_waiters(): return ['it']\n")
    done = pytest_in(installed)
    assert done.returncode == 4, done.stdout + done.stderr
    assert "'it' is no waiter: it does not define `name`" in done.stderr


def test_exception_in_a_report_fails_the_test(installed):
    (installed[0] / "conftest.py").write_text(
        "from pytest_kscen.report import Report\n"
        "class Broken(Report):\n"
        "    name = 'broken'\n"
        "    def finish(self, run): raise OSError('no space')\n"
        "def pytest_kscen_reports(config): return [Broken]\n"
    )
    done = pytest_in(installed, "-k", "cordoned")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "OSError: no space" in done.stdout


def test_hooks_of_a_conftest_are_called(installed):
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


def test_duplicate_names_are_refused(installed):
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
        "package 'kscen_examples' and conftest.Other of the package 'conftest': rename "
        "conftest.Other, or uninstall 'kscen-examples'"
    ) in done.stderr


def registry():
    return Registry("things", "thing", facts={"size": "size = 1"}, built_in=())


NAMES = "[pytest_kscen.{}]\n{} = kscen_examples.{}\n"


@pytest.mark.parametrize(
    ("entry_point", "message"),
    [
        (
            NAMES.format("reports", "rows", "lines_report:LinesReport"),
            (
                "kscen_examples.lines_report.LinesReport of the package 'kscen-examples' has the name "
                "'lines', and its entry point in pytest_kscen.reports has 'rows': give both the same"
            ),
        ),
        (
            NAMES.format("reports", "gone", "gone:Gone"),
            (
                "the report 'gone' of the package 'kscen-examples' cannot be imported from "
                "kscen_examples.gone:Gone: ModuleNotFoundError"
            ),
        ),
        (
            NAMES.format("reports", "clock", "clock_probe:ClockProbe"),
            "is no report: it does not define `name`",
        ),
        (
            NAMES.format("health_sources", "ready", "toy_storage:TOY_HEALTH"),
            (
                "there is a built-in health source 'ready', and kscen_examples.toy_storage:TOY_HEALTH "
                "of the package 'kscen-examples' has its name: rename this one"
            ),
        ),
        (
            NAMES.format("waiters", "other", "toy_waiter:TOY_WAITER"),
            "has the name 'toy-controller', and its entry point in pytest_kscen.waiters has 'other'",
        ),
        (
            NAMES.format("cluster_backends", "lines", "lines_report:LinesReport"),
            "is no cluster backend: it does not define `recreated`",
        ),
    ],
)
def test_broken_entry_point_is_a_usage_error(installed, entry_point, message):
    (path,) = installed[0].parent.glob("site/*.dist-info/entry_points.txt")
    path.write_text(entry_point)
    (installed[0] / "test_examples.py").write_text("def test_it(scenario_runner): pass\n")
    options = ["--kscen-cluster=lines"] if "backend" in entry_point else []
    done = pytest_in(installed, *options)
    assert done.returncode == 4, done.stdout + done.stderr
    assert message in done.stderr


def test_broken_probe_in_a_workflow_file_is_an_error(installed):
    tests, _ = installed
    (path,) = tests.parent.glob("site/*.dist-info/entry_points.txt")
    path.write_text(NAMES.format("probes", "clok", "clock_probe:ClockProbe"))
    (tests / "a.workflow.yaml").write_text(
        "apiVersion: chaos-mesh.org/v1alpha1\nkind: Workflow\nmetadata: {name: a}\nspec:\n"
        "  entry: main\n  templates:\n  - name: main\n    templateType: Suspend\n"
        "    deadline: 10s\n    probes: [{name: p, when: Start, clok: {before: '2030'}}]\n"
    )
    done = pytest_in(installed, "a.workflow.yaml")
    assert done.returncode == 2, done.stdout + done.stderr
    assert "has the name 'clock', and its entry point in pytest_kscen.probes has" in done.stdout
    assert "Traceback" not in done.stdout
    assert "in _load" not in done.stdout


REPORT = (
    "from pytest_kscen.report import Report\n"
    "class R(Report):\n"
    "    name = 'r'\n"
    "    def finish(self, run): print('finished', run.test.id)\n"
    "class Bare:\n"
    "    name = 'bare'\n"
    "def pytest_kscen_reports(config):\n"
)


def run_with_report(installed, line):
    (installed[0] / "conftest.py").write_text(REPORT + line)
    (installed[0] / "test_examples.py").write_text(
        "import pytest\n"
        "@pytest.mark.filterwarnings('ignore:nothing is declared')\n"
        "def test_it(scenario_runner): scenario_runner.run('1m')\n"
    )
    return pytest_in(installed, "-s")


@pytest.mark.parametrize("report", ["R", "R()"])
def test_report_hook_accepts_a_class_or_an_object(installed, report):
    done = run_with_report(installed, f"    return [{report}]\n")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "finished test_examples.py::test_it" in done.stdout


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (
            "R",
            (
                "conftest.py' returned conftest.R of the package 'conftest', and not a list: return "
                "a list of what it adds, as in `return [First, Second]`"
            ),
        ),
        ("{}", "conftest.py' returned {}, and not a list: "),
        ("[Bare]", "conftest.Bare of the package 'conftest' is no report: it does not define"),
    ],
)
def test_report_hook_with_an_invalid_report_is_a_usage_error(installed, returned, message):
    done = run_with_report(installed, f"    return {returned}\n")
    assert done.returncode == 4, done.stdout + done.stderr
    assert message in done.stderr


def test_a_report_decides_which_sessions_it_is_for(installed):
    (installed[0] / "conftest.py").write_text(
        "from pytest_kscen.report import Report\n"
        "class ForSeed(Report):\n"
        "    name = 'for-seed'\n"
        "    @classmethod\n"
        "    def for_session(cls, session):\n"
        "        return cls() if session.config.getoption('kscen_seed') else None\n"
        "    def finish(self, run): print('finished', run.test.seed)\n"
        "def pytest_kscen_reports(config): return [ForSeed]\n"
    )
    (installed[0] / "test_examples.py").write_text(
        "import pytest\n"
        "@pytest.mark.filterwarnings('ignore:nothing is declared')\n"
        "def test_it(scenario_runner): scenario_runner.run('1m')\n"
    )
    for options, printed in ((), False), (("--kscen-seed=7",), True):
        done = pytest_in(installed, "-s", *options)
        assert done.returncode == 0, done.stdout + done.stderr
        assert ("finished 7" in done.stdout) == printed


@pytest.mark.parametrize("returned", ["R", "[Bare]"])
def test_an_extension_is_refused_when_a_test_requests_a_cluster_itself(installed, returned):
    (installed[0] / "conftest.py").write_text(f"{REPORT}    return {returned}\n")
    (installed[0] / "test_examples.py").write_text(
        "def test_it(request): request.getfixturevalue('cluster')\n"
        "def test_after(): raise AssertionError('the session has ended')\n"
    )
    done = pytest_in(installed)
    assert done.returncode == 4, done.stdout + done.stderr
    assert "conftest" in done.stdout
    assert "the session has ended" not in done.stdout


def test_volume_churn_needs_replicated_volumes(installed):
    done = pytest_in(installed, "-k", "volume_churn", "--kscen-volume-health=toy")
    assert done.returncode == 1
    assert done.stdout.count(
        "volume_churn needs ReplicatedVolumes; the storage model 'toy' has none: drop volume_churn "
        "or --kscen-volume-health=toy"
    )
    assert "install sds-replicated-volume" not in done.stdout


def test_each_extension_point_has_a_registry_a_hook_and_a_group():
    hooks = {name.removeprefix("pytest_kscen_") for name in vars(hookspecs) if "_kscen_" in name}
    assert hooks == set(POINTS)
    assert all(registry_of(point).group == f"pytest_kscen.{point}" for point in POINTS)
    groups = tomllib.loads((PACKAGE / "pyproject.toml").read_text())["project"]["entry-points"]
    assert set(groups) == {f"pytest_kscen.{point}" for point in POINTS}


class BuiltIn:
    name, size = "built-in", 1


def with_entry_points(monkeypatch, *names):
    """Return a registry whose installed extensions are this module's class Named, by these names."""
    points = tuple(EntryPoint(name, f"{__name__}:Named", "pytest_kscen.things") for name in names)
    monkeypatch.setattr(extensions, "_entry_points", lambda _: points)
    return Registry("things", "thing", facts={"size": "size = 1"}, built_in=(BuiltIn,))


class Named:
    name, size = "named", 1


def test_two_entry_points_with_one_name_are_refused(monkeypatch):
    things = with_entry_points(monkeypatch, "named", "named")
    assert things.names() == ["built-in", "named"]
    for use in (things.check_names, lambda: things["named"], lambda: list(things)):
        with pytest.raises(ExtensionError, match="there are two things 'named'"):
            use()


def test_entry_point_with_the_name_of_a_built_in_is_refused(monkeypatch):
    things = with_entry_points(monkeypatch, "built-in")
    assert things["built-in"] is BuiltIn
    with pytest.raises(ExtensionError, match="there is a built-in thing 'built-in'"):
        things.check_names()


@pytest.mark.parametrize("name", ["named", "built-in"])
def test_hook_with_a_name_in_use_is_refused(monkeypatch, name):
    things = with_entry_points(monkeypatch, "named")
    other = type("Other", (), {"name": name, "size": 1})
    with pytest.raises(ExtensionError, match=f"there are two things '{name}'"):
        things.add(other)


def test_hook_may_return_what_is_installed(monkeypatch):
    things = with_entry_points(monkeypatch, "named")
    assert not things.add(Named)
    assert list(things) == ["built-in", "named"]


def profile(name, *, frozen=True, **facts):
    members = {"name": name, "targets": ("nodes",), "creates": (), "soonest": 0.0, "run": None}
    return dataclass(frozen=frozen)(type("Made", (Profile,), {**members, **facts}))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: profile("x", aliases=("network-block",)), "'network-block' is a name or an alias"),
        (lambda: profile("degrade"), "'degrade' is a name or an alias of 'network-degrade'"),
        (lambda: profile("x", targets=("node",)), "give a tuple of 'machines', 'nodes', 'links'"),
        (lambda: profile("x", frozen=False), r"write `@dataclass\(frozen=True\)` above its class"),
    ],
)
def test_invalid_profile_is_refused(wrong, message):
    with pytest.raises(
        ExtensionError, match=f"Made of the package .* is no chaos profile: .*{message}"
    ):
        PROFILES.add(wrong())


def test_extension_lacking_a_required_attribute_is_refused():
    class Bare:
        name = "bare"

    with pytest.raises(
        ExtensionError,
        match=r"Bare of the package 'x' is no thing: it does not define `size`: add `size = 1`",
    ):
        registry().add(Bare, package="x")


@pytest.mark.parametrize("name", [None, "", 7, ["x"]])
def test_name_that_is_no_text_is_refused(name):
    extension = type("Thing", (), {"name": name, "size": 1})
    message = f'is no thing: its `name` is {name!r}: give it a name, as in `name = "my-name"`'
    with pytest.raises(ExtensionError, match=re.escape(message)):
        registry().add(extension)


def test_reports_of_hooks_leave_the_registry_with_the_session():
    class Lines(Report):
        name = "lines"

    cleanups = []
    config = SimpleNamespace(
        hook=SimpleNamespace(pytest_kscen_reports=lambda config: [[Lines]]),
        add_cleanup=cleanups.append,
        getoption=lambda _, default=None: default,
    )
    config.pluginmanager = None
    assert any(isinstance(report, Lines) for report in reports_for(config))
    assert REPORTS["lines"] is Lines
    for cleanup in cleanups:
        cleanup()
    assert "lines" not in REPORTS


def test_abstract_method_is_a_required_attribute():
    class Idle(Profile):
        name = "idle"
        targets = creates = ()
        soonest = 0.0

    with pytest.raises(ExtensionError, match="is no chaos profile: it does not define `run`"):
        PROFILES.add(Idle)


def test_extension_is_added_once():
    class Thing:
        name, size = "thing", 1

    things = registry()
    things.add(Thing)
    things.add(Thing)
    assert (list(things), things.names(), len(things)) == (["thing"], ["thing"], 1)
    things.discard(Thing)
    assert "thing" not in things


def blocks():
    """Return the blocks of files of the package, by name; conftest.py is a user's."""
    found = re.findall(r"^```(?:python|toml) title=(\S+)\n(.*?)^```$", PAGE.read_text(), FLAGS)
    return [(name, text) for name, text in found if name != "conftest.py"]


def test_page_quotes_the_package():
    assert {name for name, _ in blocks()} == {
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*")
        if path.suffix in {".py", ".toml"} and path.name != "__init__.py"
    }
    for name, text in blocks():
        assert text == (PACKAGE / name).read_text(), f"docs/extending.md: {name} is not its file"


def test_page_imports_public_names_only():
    imported = re.findall(r"^from (pytest_kscen[\w.]*) import", PAGE.read_text(), re.MULTILINE)
    assert set(imported) <= {
        "pytest_kscen.chaos",
        "pytest_kscen.clusters",
        "pytest_kscen.report",
        "pytest_kscen.scenario",
        "pytest_kscen.storage",
        "pytest_kscen.workflow.probes",
    }
