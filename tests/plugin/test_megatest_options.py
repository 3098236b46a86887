"""Flags of the megatest: sources, precedence, filled parameters and refusals."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import re

import pytest

from pytest_kscen.chaos.profiles import PROFILES
from pytest_kscen.clusters.embedded import EmbeddedCluster
from pytest_kscen.megatest.churn import Churn
from pytest_kscen.objects.options import Fills
from pytest_kscen.objects.storage import HEALTH_SOURCES
from pytest_kscen.plugin import markers, planning
from pytest_kscen.plugin.options import CHAOS, CHURN, MEGATEST, OPTIONS
from pytest_kscen.run.plan import Plan

FROM_COMMAND_LINE = "plan_from_command_line"
BLOCK, DEGRADE, REBOOT = (
    PROFILES["network-block"],
    PROFILES["network-degrade"],
    PROFILES["vm-reboot"],
)
NO_NAMESPACE = ": give 63 of a-z, 0-9 and - at most, with no - at either end, as in my-vms"
SEEDS_FLAGS = {
    "--storage-classes": "",
    "--max-volumes": "10",
    "--volume-step-min": "1",
    "--volume-step-max": "3",
    "--step-period-min": "10s",
    "--step-period-max": "30s",
    "--volume-period-min": "1m",
    "--volume-period-max": "5m",
    "--enable-pod-destroyer": "",
    "--enable-volume-resizer": "",
    "--enable-volume-replica-destroyer": "",
    "--enable-volume-replica-creator": "",
    "--parent-kubeconfig": "",
    "--vm-namespace": "",
    "--enable-chaos-network-block": "",
    "--enable-chaos-network-degrade": "",
    "--enable-chaos-vm-reboot": "",
    "--chaos-period-min": "1m",
    "--chaos-period-max": "5m",
    "--chaos-incident-min": "10s",
    "--chaos-incident-max": "1m",
    "--chaos-loss-percent": "0.01",
    "--chaos-partition-group-size": "0",
}


@pytest.fixture
def item(pytester):
    """A collected test with these markers under this command line."""

    numbers = itertools.count()

    def collect(marks, *arguments):
        lines = "\n".join(
            f"@pytest.mark.{mark}" for mark in ([marks] if isinstance(marks, str) else marks)
        )
        path = pytester.makepyfile(
            **{
                f"test_{next(numbers)}": (
                    f"import pytest\n{lines}\ndef test_it(scenario_runner): pass"
                )
            }
        )
        config = pytester.parseconfigure(path, *arguments)
        return pytester.genitems([pytester.getnode(config, path)])[0]

    return collect


@pytest.fixture
def plan(item):
    return lambda marks, *arguments: planning.plan(item(marks, *arguments))


@pytest.fixture
def complaints(item):
    """Return the refusal of the test without its name."""
    return lambda marks, *arguments: [
        line.partition("test_it: ")[2] for line in markers.check([item(marks, *arguments)])
    ]


def test_every_flag_exists_with_its_default():
    ours = {
        option.flag: option.default
        for option in MEGATEST + CHAOS
        if not option.flag.startswith("--kscen-")
    }
    assert ours == SEEDS_FLAGS


def test_health_source_follows_the_storage():
    assert (
        list(HEALTH_SOURCES) == HEALTH_SOURCES.names() == ["conditions", "effectiveLayout", "ready"]
    )


FILLING = [
    option for option in MEGATEST + CHAOS if isinstance(option.effect, Fills) and option.default
]


@pytest.mark.parametrize("option", FILLING, ids=lambda option: option.flag)
def test_defaults_equal_those_of_the_filled_fields(option):
    for name in option.effect.kinds:
        kind = Churn if name == CHURN else PROFILES[name]
        (default,) = [
            field.default
            for field in dataclasses.fields(kind)
            if field.name == option.effect.parameter
        ]
        if default is not None:
            default = default if option.effect.bound is None else default[option.effect.bound]
            assert option.parse(option.default) == default


def test_plan_without_flags_is_churn_alone(plan):
    assert plan(FROM_COMMAND_LINE) == Plan(Churn())
    assert plan("megatest") == Plan()


def test_plan_of_the_command_line(plan):
    line = "--max-volumes 20 --enable-chaos-network-block --chaos-period-max 2m"
    assert plan(FROM_COMMAND_LINE, *line.split()) == Plan(
        Churn(max_volumes=20), (BLOCK(period=(60, 120)),)
    )


def test_every_flag_at_once(plan):
    line = """
        --storage-classes a,b --max-volumes 7 --volume-step-min 2 --volume-step-max 4
        --step-period-min 1s --step-period-max 2s --volume-period-min 3m --volume-period-max 4m
        --enable-pod-destroyer --enable-volume-resizer --enable-volume-replica-destroyer --enable-volume-replica-creator
        --kscen-volume-size 1Gi --kscen-volume-patience 20m --kscen-volume-size-max 2Gi --kscen-volume-health ready
        --enable-chaos-network-block --enable-chaos-network-degrade --enable-chaos-vm-reboot
        --chaos-period-min 6m --chaos-period-max 7m --chaos-incident-min 5s --chaos-incident-max 6s
        --chaos-loss-percent 0.1 --chaos-partition-group-size 2
    """
    churn = Churn(
        ("a", "b"), 7, (2, 4), (1, 2), (180, 240), "1Gi",
        resizer=True, max_size="2Gi", replica_destroyer=True, replica_creator=True, pod_destroyer=True,
        patience=1200.0,
    )  # fmt: skip
    period, incident = (360, 420), (5, 6)
    chaos = (BLOCK(period, incident, 2), DEGRADE(period, incident, 0.1), REBOOT(period))
    assert plan(FROM_COMMAND_LINE, *line.split()) == Plan(churn, chaos, "ready")


def test_switch_affects_no_other_test(plan):
    line = [
        "--enable-chaos-vm-reboot",
        "--enable-pod-destroyer",
        "--max-volumes=4",
        "--chaos-period-max=2m",
    ]
    assert plan("volume_churn", *line) == Plan(Churn(max_volumes=4))
    assert plan("chaos('network-block')", *line) == Plan(chaos=(BLOCK(period=(60, 120)),))


def test_markers_combine_with_the_command_line_plan(plan):
    marks = [
        FROM_COMMAND_LINE,
        "volume_churn(max_volumes=2)",
        "chaos('network-block', group_size=1)",
    ]
    line = [
        "--max-volumes=9",
        "--enable-chaos-network-block",
        "--enable-chaos-vm-reboot",
        "--enable-volume-resizer",
    ]
    assert plan(marks, *line) == Plan(
        Churn(max_volumes=2, resizer=True), (BLOCK(group_size=1), REBOOT())
    )


def test_churn_markers_merge_and_chaos_markers_accumulate(plan):
    near, far = (
        "volume_churn(max_volumes=5)",
        "volume_churn(max_volumes=3, lifetime=('1m', '2m'), storage_classes=['a'])",
    )
    assert plan([far, near]).churn == Churn(("a",), max_volumes=5, lifetime=(60, 120))
    assert plan("volume_churn(patience='1h')").churn == Churn(patience=3600)
    assert len(plan(["chaos('network-block')", "chaos('network-block', group_size=1)"]).chaos) == 2


def test_sources_of_settings_and_their_precedence(plan, pytester, monkeypatch):
    assert plan("volume_churn").churn.max_volumes == 10
    pytester.makeini(
        "[pytest]\nmax_volumes = 11\nenable_volume_resizer = true\nstorage_classes = a, b"
    )
    assert plan(FROM_COMMAND_LINE).churn == Churn(("a", "b"), max_volumes=11, resizer=True)
    monkeypatch.setenv("KSCEN_STORAGE_CLASSES", "c")
    monkeypatch.setenv("KSCEN_MAX_VOLUMES", "12")
    monkeypatch.setenv("KSCEN_ENABLE_VOLUME_RESIZER", "false")
    assert plan(FROM_COMMAND_LINE).churn == Churn(("c",), max_volumes=12)
    line = ["--max-volumes=13", "--enable-volume-resizer", "--storage-classes=d,e"]
    assert plan(FROM_COMMAND_LINE, *line).churn == Churn(("d", "e"), max_volumes=13, resizer=True)
    assert plan("volume_churn(max_volumes=14, storage_classes=['f'])", *line).churn == Churn(
        ("f",), max_volumes=14
    )


def test_toml_may_use_its_own_types(plan, pytester):
    pytester.makepyprojecttoml("""
        [tool.pytest.ini_options]
        storage_classes = ["a", "b"]
        max_volumes = 4
        enable_volume_resizer = true
        enable_chaos_vm_reboot = false
    """)
    assert plan(FROM_COMMAND_LINE) == Plan(Churn(("a", "b"), 4, resizer=True))


def test_bound_left_open_by_a_marker_is_filled(plan):
    line = ["--volume-period-min=2m", "--volume-period-max=3m"]
    assert plan("volume_churn(lifetime=(None, '10m'))", *line).churn.lifetime == (120, 600)
    assert plan("volume_churn(lifetime=(None, '10m'))").churn.lifetime == (60, 600)
    assert plan("volume_churn(lifetime=('4m', None))").churn.lifetime == (240, 300)
    assert plan("chaos('vm-reboot', period=('5s', None))").chaos == (REBOOT(period=(5, 300)),)
    assert plan("chaos('pod-destroy', period=(None, '2m'))", "--chaos-period-min=90s").chaos[
        0
    ].period == (30, 120)


@pytest.mark.parametrize(
    "names", ["chaos-period", "chaos-incident", "step-period", "volume-period", "volume-step"]
)
def test_reversed_range_is_refused_for_every_selection(pytester, monkeypatch, names):
    least, most = ("5", "2") if names == "volume-step" else ("5m", "2m")
    monkeypatch.setenv(f"KSCEN_{names.upper().replace('-', '_')}_MAX", most)
    result = pytester.runpytest(f"--{names}-min={least}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    by = f"KSCEN_{names.upper().replace('-', '_')}_MAX"
    result.stderr.fnmatch_lines(
        [f"*--{names}-min: {least} is above {most} of {by}: give the least and the most"]
    )


@pytest.mark.parametrize(
    ("mark", "line", "complaint"),
    [
        (
            "volume_churn",
            "--volume-step-min=5",
            (
                "@pytest.mark.volume_churn: step: the least, 5 of --volume-step-min, is "
                "above the most, "
                "3 by default (--volume-step-max): give both"
            ),
        ),
        (
            "volume_churn(lifetime=(None, '30s'))",
            "",
            (
                "@pytest.mark.volume_churn: lifetime: the least, 1m by default "
                "(--volume-period-min), is above the most, "
                "30s of the marker: give both"
            ),
        ),
        (
            "chaos('network-block', incident=('2m', None))",
            "--chaos-incident-max=90s",
            (
                "@pytest.mark.chaos('network-block'): incident: the least, 2m of the "
                "marker, is above the most, "
                "90s of --chaos-incident-max: give both"
            ),
        ),
        (
            "plan_from_command_line(3)",
            "",
            "@pytest.mark.plan_from_command_line takes no parameters: remove them",
        ),
        (
            "plan_from_command_line",
            "--enable-volume-resizer --kscen-volume-size=2Gi",
            (
                "@pytest.mark.volume_churn: max_size='1Gi' is less than size='2Gi': the "
                "resizer could not grow anything"
            ),
        ),
        (
            "chaos('network-degrade', loss=5)",
            "",
            (
                "@pytest.mark.chaos('network-degrade'): loss=5: give the share of packets "
                "that get lost, from 0 to 1: 0.05 is 5 %"
            ),
        ),
        (
            "chaos('network-degrade', incident=('1', '2m'))",
            "",
            (
                "@pytest.mark.chaos('network-degrade'): incident: '1' is not a duration: "
                "write for example 90s, 5m or 1h30m"
            ),
        ),
        (
            "volume_churn",
            "--kscen-cluster=kubeconfig",
            (
                "the kubeconfig cluster has storage classes of its own: name those to "
                "test with --storage-classes A,B "
                "(KSCEN_STORAGE_CLASSES, storage_classes in the ini file) or "
                "volume_churn(storage_classes=[...])"
            ),
        ),
        (
            "chaos('network-block')",
            "--kscen-cluster=kind",
            (
                "network-block acts on the virtual machines under the kind cluster's nodes: give "
                "--parent-kubeconfig FILE (KSCEN_PARENT_KUBECONFIG) and --vm-namespace "
                "NAME (KSCEN_VM_NAMESPACE)"
            ),
        ),
        (
            "plan_from_command_line",
            (
                "--kscen-cluster=kubeconfig --storage-classes=a --vm-namespace=v "
                "--enable-chaos-vm-reboot --enable-chaos-network-block"
            ),
            (
                "network-block, vm-reboot act on the virtual machines under the "
                "kubeconfig cluster's nodes: give "
                "--parent-kubeconfig FILE (KSCEN_PARENT_KUBECONFIG)"
            ),
        ),
    ],
)
def test_invalid_plan_is_refused_at_collection(complaints, mark, line, complaint):
    assert complaints(mark, *line.split()) == [complaint]


def test_real_cluster_with_sufficient_options_is_accepted(complaints, pytester):
    pytester.makefile(".yaml", parent="")
    line = ["--kscen-cluster=kubeconfig", "--parent-kubeconfig=parent.yaml", "--vm-namespace=v"]
    marks = ["volume_churn(storage_classes=['a'])", "chaos('vm-reboot')"]
    assert (
        complaints(marks, *line) == complaints([*marks, "volume_churn(max_volumes=2)"], *line) == []
    )
    assert complaints("chaos('pod-destroy')", "--kscen-cluster=kind") == []


@pytest.mark.parametrize(
    ("flag", "text", "complaint"),
    [
        ("--max-volumes", "0", "invalid value '0': give a whole number, 1 or more"),
        ("--max-volumes", "-3", "invalid value '-3': give a whole number, 1 or more"),
        (
            "--volume-step-max",
            "two",
            "invalid value 'two': give a whole number, 1 or more",
        ),
        (
            "--step-period-min",
            "10",
            "'10' is not a duration: write for example 90s, 5m or 1h30m",
        ),
        (
            "--volume-period-max",
            "0s",
            "invalid value '0s': give more than zero, as in 90s or 1h30m",
        ),
        (
            "--chaos-period-min",
            "-1m",
            "invalid value '-1m': give more than zero, as in 90s or 1h30m",
        ),
        (
            "--chaos-loss-percent",
            "5",
            ("invalid value '5': give a number from 0 to 1, as in 0.01 for 1 % (5 % is 0.05)"),
        ),
        (
            "--chaos-loss-percent",
            "nan",
            "invalid value 'nan': give a number from 0 to 1, as in 0.01 for 1 %",
        ),
        (
            "--chaos-loss-percent",
            "1%",
            "invalid value '1%': give a number from 0 to 1, as in 0.01 for 1 %",
        ),
        (
            "--chaos-partition-group-size",
            "-1",
            "invalid value '-1': give a whole number, or 0 for half of the machines",
        ),
        (
            "--storage-classes",
            "a,,b",
            "invalid value 'a,,b': give names separated by commas, as in availability,none",
        ),
        ("--vm-namespace", " ", f"invalid value ' '{NO_NAMESPACE}"),
        ("--vm-namespace", "Foo_Bar", f"invalid value 'Foo_Bar'{NO_NAMESPACE}"),
        ("--vm-namespace", 64 * "v", f"invalid value '{64 * 'v'}'{NO_NAMESPACE}"),
        ("--parent-kubeconfig", "nowhere", "there is no file 'nowhere'"),
        (
            "--kscen-volume-size",
            "0",
            "invalid value '0': give a quantity of more than zero, as in 100Mi or 1Gi",
        ),
        (
            "--kscen-volume-size-max",
            "big",
            "invalid value 'big': give a quantity of more than zero, as in 100Mi or 1Gi",
        ),
        (
            "--kscen-volume-health",
            "good",
            ("invalid value 'good': choose one of conditions, effectiveLayout, ready"),
        ),
    ],
)
def test_invalid_value_is_refused_by_name_from_every_source(
    pytester, monkeypatch, flag, text, complaint
):
    def refusal(*arguments):
        with pytest.raises(pytest.UsageError) as refused:
            pytester.parseconfigure(*arguments)
        return str(refused.value)

    assert refusal(f"{flag}={text}") == f"{flag}: {complaint}"
    variable = f"KSCEN_{flag.removeprefix('--').removeprefix('kscen-').replace('-', '_').upper()}"
    monkeypatch.setenv(variable, text)
    assert refusal() == f"{variable}: {complaint}"
    monkeypatch.delenv(variable)
    if text.strip():
        key = flag.removeprefix("--").replace("-", "_")
        assert refusal("-o", f"{key}={text}") == f"-o {key}: {complaint}"
        ini = pytester.makeini(f"[pytest]\n{key} = {text}")
        assert refusal() == f"{key} in {ini}: {complaint}"
        assert refusal("-o", f"{key}={text}") == f"-o {key}: {complaint}"


def test_switch_is_true_or_false(pytester, monkeypatch):
    monkeypatch.setenv("KSCEN_ENABLE_POD_DESTROYER", "perhaps")
    reported = (
        "KSCEN_ENABLE_POD_DESTROYER: 'perhaps' is neither true nor false: give one of the two"
    )
    with pytest.raises(pytest.UsageError, match=f"^{reported}$"):
        pytester.parseconfigure()


@pytest.mark.parametrize(
    ("text", "chaos"),
    [("true", (REBOOT(),)), ("True", (REBOOT(),)), ("1", (REBOOT(),)), ("FALSE", ()), ("", ())],
)
def test_switch_values(plan, monkeypatch, text, chaos):
    monkeypatch.setenv("KSCEN_ENABLE_CHAOS_VM_REBOOT", text)
    assert plan(FROM_COMMAND_LINE).chaos == chaos


def test_parent_is_refused_for_a_cluster_with_its_own(pytester):
    pytester.makefile(".yaml", parent="")
    with pytest.raises(
        pytest.UsageError,
        match=r"^--parent-kubeconfig: the embedded cluster makes its own: leave out one",
    ):
        pytester.parseconfigure("--parent-kubeconfig=parent.yaml")


def test_help_lists_them_in_groups(pytester):
    lines = pytester.runpytest("--help").stdout.str()
    churn, chaos = (
        lines.index("\nmegatest: volume churn"),
        lines.index("\nmegatest chaos: faults during the volume churn"),
    )
    for option in MEGATEST:
        assert churn < lines.index(f"  {option.flag}") < chaos
    assert all(lines.index(f"  {option.flag}") > chaos for option in CHAOS)
    help_text = " ".join(lines.split())
    assert "0.01 is 1 % (default: 0.01)" in help_text
    assert (
        "time limit for a new volume to become ready, and for the replacement of a deleted disk "
        "(default: 10m)" in help_text
    )


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.flag)
def test_help_states_a_default_or_that_a_value_is_required(option):
    without = ("--kubeconfig", "--parent-kubeconfig", "--vm-namespace")
    assert "(default: " in option.described or option.flag in without
    assert not re.match(r"(the|how|what|when|where|no|least|most) ", option.help)


@pytest.mark.parametrize("level", ["debug", "info", "warn", "error"])
def test_pytest_accepts_the_four_log_levels(pytester, level):
    pytester.makepyfile(f"""
        import logging

        def test_it():
            assert logging.getLogger("pytest_kscen").isEnabledFor(logging.{level.upper()})
    """)
    pytester.runpytest(f"--log-level={level}").assert_outcomes(passed=1)


def test_repeat_command_contains_the_flags(pytester, monkeypatch):
    pytester.makepyfile("def test_it(cluster):\n    assert False")
    monkeypatch.setenv("KSCEN_MAX_VOLUMES", "4")
    monkeypatch.setenv("KSCEN_ENABLE_VOLUME_RESIZER", "true")
    monkeypatch.setenv("KSCEN_ENABLE_POD_DESTROYER", "false")
    result = pytester.runpytest(
        "--kscen-seed=1",
        "--chaos-period-max=90s",
        "--storage-classes=a, b",
        "--enable-chaos-vm-reboot",
    )
    again = (
        "pytest test_repeat_command_contains_the_flags.py::test_it --kscen-seed=1 "
        "'--storage-classes=a, b' "
        "--max-volumes=4 --enable-volume-resizer --enable-chaos-vm-reboot --chaos-period-max=90s"
    )
    assert again in result.stdout.lines


def test_repeat_command_omits_what_the_environment_omits(pytester, monkeypatch):
    pytester.makepyfile("def test_it(cluster):\n    assert False")
    pytester.makeini("[pytest]\nenable_chaos_network_block = true")
    monkeypatch.setenv("KSCEN_ENABLE_CHAOS_NETWORK_BLOCK", "false")
    monkeypatch.setenv("KSCEN_ENABLE_CHAOS_VM_REBOOT", "false")
    test = "test_repeat_command_omits_what_the_environment_omits.py::test_it"
    again = f"KSCEN_ENABLE_CHAOS_NETWORK_BLOCK=false pytest {test} --kscen-seed=1"
    assert again in pytester.runpytest("--kscen-seed=1").stdout.lines


def test_workers_refuse_with_the_same_message(pytester):
    pytest.importorskip("xdist")
    pytester.makepyfile(
        f"import pytest\npytestmark = pytest.mark.{FROM_COMMAND_LINE}\ndef test_it(): "
        "pass\ndef test_too(): pass"
    )
    message = pytester.runpytest("-n1", "--kscen-cluster=kubeconfig")
    assert message.ret != 0
    message.stdout.fnmatch_lines(
        ["*::test_it and 1 more: the kubeconfig cluster has storage classes of its own*"]
    )
    assert (
        "--max-volumes: invalid value '0'"
        in pytester.runpytest("-n1", "--max-volumes=0").stderr.str()
    )


def test_workers_plan_according_to_the_command_line(pytester, monkeypatch):
    pytest.importorskip("xdist")
    pytester.makepyfile(f"""
        import pytest
        from pytest_kscen.plugin.planning import plan

        @pytest.mark.{FROM_COMMAND_LINE}
        def test_it(request):
            assert plan(request.node).churn.max_volumes == 20
            assert plan(request.node).churn.resizer
            assert plan(request.node).chaos[0].period == (60, 120)
    """)
    monkeypatch.setenv("KSCEN_ENABLE_VOLUME_RESIZER", "true")
    line = [
        "-n1",
        "--max-volumes",
        "20",
        "--enable-chaos-network-block",
        "--chaos-period-max",
        "2m",
    ]
    pytester.runpytest(*line).assert_outcomes(passed=1)


def test_impossible_run_is_refused_without_a_traceback(pytester):
    pytester.makepyfile("""
        import pytest

        @pytest.mark.volume_churn(storage_classes=["none", "nothing"])
        @pytest.mark.chaos("network-block", group_size=6)
        def test_it(scenario_runner):
            scenario_runner.run("5m")
    """)
    result = pytester.runpytest()
    result.assert_outcomes(failed=1)
    classes = (
        "there is no storage class nothing; existing ones: availability, "
        "consistency-and-availability, none: "
    )
    group = "network-block: a group of 6 leaves no machine on the other side: there are 6 (node-1, "
    result.stdout.fnmatch_lines([f"{classes}*", f"{group}*"])
    result.stdout.no_fnmatch_line("*def test_it*")
    result.stdout.no_fnmatch_line("*preflight.py*")


def test_a_real_cluster_without_the_storage_is_refused(pytester):
    pytester.makepyfile(f"""
        import pytest

        @pytest.mark.{FROM_COMMAND_LINE}
        def test_it(scenario_runner):
            scenario_runner.run("10m")
    """)
    with contextlib.closing(EmbeddedCluster(nodes=1)) as cluster:
        line = [f"--kubeconfig={cluster.kubeconfig}", "--storage-classes=mine"]
        result = pytester.runpytest(*line)
        of_parent = pytester.runpytest(
            *line,
            "--enable-chaos-vm-reboot",
            f"--parent-kubeconfig={cluster.kubeconfig}",
            "--vm-namespace=vms",
        )
    result.assert_outcomes(failed=1)
    missing = (
        "the tested cluster has no replicatedvolumes.storage.deckhouse.io: install "
        "sds-replicated-volume there*"
    )
    result.stdout.fnmatch_lines([missing, "no node has the storage's label *"])
    of_parent.assert_outcomes(failed=1)
    of_parent.stdout.fnmatch_lines(["*does not serve virtualmachines.virtualization.deckhouse.io*"])
    of_parent.stdout.no_fnmatch_line("*During handling*")


def test_plan_is_built_once_and_again_when_a_marker_is_added(item):
    marked = item("volume_churn(max_volumes=3)")
    first = planning.plan(marked)
    assert planning.plan(marked) is first
    marked.add_marker(pytest.mark.chaos("network-block"))
    assert [profile.name for profile in planning.plan(marked).chaos] == ["network-block"]
