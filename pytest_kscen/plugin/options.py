"""Options of a test session: one table, each row a flag, an environment variable and an ini key;
registered, read once and checked early.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kscen.plugin import option_values
from pytest_kscen.plugin.option_values import LEAST, MOST, Fills, Given, Option, SwitchesOn, read

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Mapping


# The settings that every run has: where clusters come from, the seed, the length, what is kept.


BACKENDS = ("embedded", "controlplane", "kind", "kubeconfig")
RANDOM = "random"


def _backend(text: str) -> str:
    if text not in BACKENDS:
        raise ValueError(f"{text!r} is no kind of cluster: choose one of {', '.join(BACKENDS)}")
    return text


def _seed(text: str) -> str:
    if text != RANDOM and not text.isdecimal():
        raise ValueError(
            f"{text!r} is no seed: give a whole number, or 'random' to have one drawn and printed"
        )
    return text


KUBECONFIG = Option(
    "--kubeconfig",
    option_values.existing_file,
    "FILE",
    "the kubeconfig of a real cluster to test on",
)
DURATION = Option(
    "--kscen-duration",
    option_values.duration,
    "TIME",
    "how long a run lasts in cluster time, as in 90s or 1h30m, where the test leaves it open "
    "(default: an hour on embedded, until Ctrl-C elsewhere)",
)

GENERAL = (
    Option(
        "--kscen-cluster",
        _backend,
        "|".join(BACKENDS),
        "where clusters come from (default: embedded, or kubeconfig with --kubeconfig)",
    ),
    KUBECONFIG,
    Option(
        "--kscen-context",
        option_values.context,
        "NAME",
        "the kubeconfig's context (default: its current one)",
    ),
    Option(
        "--kscen-seed",
        _seed,
        "N|random",
        "the seed of every test (default: each test's own, from its id)",
    ),
    DURATION,
    Option(
        "--kscen-archive",
        option_values.folder,
        "DIR",
        "keep each run there: a folder with its journal, its outcome, its seed and its options",
    ),
)


# The settings of scenarios (KEP-140): whose cluster may be emptied for one, when results are
# written, how long one waits.


RESULTS = ("AtMovingNextStep", "OnPause", "OnDone")


def _results(text: str) -> str:
    if text not in RESULTS:
        raise ValueError(
            f"{text!r} is no time to write results: choose one of {', '.join(RESULTS)}"
        )
    return text


DISPOSABLE = Option(
    "--kscen-disposable",
    option_values.switch,
    "",
    "the cluster of --kubeconfig may be emptied: a scenario begins with deleting all that is there",
)
SCENARIO_RESULTS = Option(
    "--kscen-scenario-results",
    _results,
    "|".join(RESULTS),
    (
        "when a scenario's results are written into its status (default: "
        "UPDATE_SCENARIO_RESULTS_STRATEGY, else AtMovingNextStep)"
    ),
)
SCENARIO_PATIENCE = Option(
    "--kscen-scenario-patience",
    option_values.duration,
    "TIME",
    "how long controllers may take in cluster time before the scenario has failed",
    "10m",
)

SCENARIOS = (DISPOSABLE, SCENARIO_RESULTS, SCENARIO_PATIENCE)


# The megatest program's own flags, under their own names and with their defaults, and what each
# of them fills.


CHURN = "volume_churn"
BLOCK, DEGRADE, REBOOT = "network-block", "network-degrade", "vm-reboot"
DRAWN, LASTING = (BLOCK, DEGRADE, REBOOT), (BLOCK, DEGRADE)
HEALTH = ("conditions", "effectiveLayout", "ready")


def _health(text: str) -> str:
    if text not in HEALTH:
        raise ValueError(
            f"{text!r} is no source of a volume's health: choose one of {', '.join(HEALTH)}"
        )
    return text


def _churn(parameter: str, bound: int | None = None) -> Fills:
    return Fills((CHURN,), parameter, bound)


def _number(flag: str, what: str, default: str, fills: Fills) -> Option:
    return Option(flag, option_values.count, "N", what, default, fills)


def _time(flag: str, what: str, default: str, fills: Fills) -> Option:
    return Option(flag, option_values.duration, "TIME", what, default, fills)


def _size(flag: str, what: str, default: str, fills: Fills) -> Option:
    return Option(flag, option_values.quantity, "SIZE", what, default, fills)


def _switch(flag: str, what: str, switches_on: SwitchesOn) -> Option:
    return Option(flag, option_values.switch, "", what, effect=switches_on)


STORAGE_CLASSES = Option(
    "--storage-classes",
    option_values.names,
    "A,B",
    "the storage classes that volumes are made of, with commas; obligatory on a real cluster",
    effect=_churn("storage_classes"),
)
PARENT_KUBECONFIG = Option(
    "--parent-kubeconfig",
    option_values.existing_file,
    "FILE",
    (
        "the kubeconfig of the cluster whose virtual machines are the tested one's nodes; "
        "chaos on a real cluster needs it"
    ),
)
VM_NAMESPACE = Option(
    "--vm-namespace",
    option_values.namespace,
    "NAME",
    "the namespace of those virtual machines; chaos on a real cluster needs it",
)
VOLUME_HEALTH = Option(
    "--kscen-volume-health",
    _health,
    "|".join(HEALTH),
    "what the storage publishes of a volume's health",
    "conditions",
)

MEGATEST = (
    STORAGE_CLASSES,
    _number("--max-volumes", "how many volumes at once at most", "10", _churn("max_volumes")),
    _number(
        "--volume-step-min", "how many volumes a step makes at least", "1", _churn("step", LEAST)
    ),
    _number(
        "--volume-step-max", "how many volumes a step makes at most", "3", _churn("step", MOST)
    ),
    _time("--step-period-min", "least time between two steps", "10s", _churn("step_period", LEAST)),
    _time("--step-period-max", "most time between two steps", "30s", _churn("step_period", MOST)),
    _time("--volume-period-min", "least time that a volume lives", "1m", _churn("lifetime", LEAST)),
    _time("--volume-period-max", "most time that a volume lives", "5m", _churn("lifetime", MOST)),
    _switch(
        "--enable-pod-destroyer",
        "destroy the storage's own pods",
        SwitchesOn(parameter="pod_destroyer"),
    ),
    _switch("--enable-volume-resizer", "let volumes grow", SwitchesOn(parameter="resizer")),
    _switch(
        "--enable-volume-replica-destroyer",
        "delete volumes' replicas",
        SwitchesOn(parameter="replica_destroyer"),
    ),
    _switch(
        "--enable-volume-replica-creator",
        "add Access and TieBreaker replicas",
        SwitchesOn(parameter="replica_creator"),
    ),
    VOLUME_HEALTH,
    _time(
        "--kscen-volume-patience",
        "most time within which a new volume has to become ready",
        "10m",
        _churn("patience"),
    ),
    _size("--kscen-volume-size", "the size of a new volume", "100Mi", _churn("size")),
    _size(
        "--kscen-volume-size-max",
        "no volume grows above it",
        "1Gi",
        Fills((CHURN,), "max_size", actor="resizer"),
    ),
)

CHAOS = (
    PARENT_KUBECONFIG,
    VM_NAMESPACE,
    _switch(
        "--enable-chaos-network-block",
        "cut machines off: all traffic, one volume's DRBD, split brain",
        SwitchesOn(BLOCK),
    ),
    _switch(
        "--enable-chaos-network-degrade",
        "lose packets between two machines, or load their link",
        SwitchesOn(DEGRADE),
    ),
    _switch("--enable-chaos-vm-reboot", "restart machines, hard", SwitchesOn(REBOOT)),
    _time(
        "--chaos-period-min",
        "least time between two incidents",
        "1m",
        Fills(DRAWN, "period", LEAST),
    ),
    _time(
        "--chaos-period-max", "most time between two incidents", "5m", Fills(DRAWN, "period", MOST)
    ),
    _time(
        "--chaos-incident-min",
        "least time that an incident lasts",
        "10s",
        Fills(LASTING, "incident", LEAST),
    ),
    _time(
        "--chaos-incident-max",
        "most time that an incident lasts",
        "1m",
        Fills(LASTING, "incident", MOST),
    ),
    Option(
        "--chaos-loss-percent",
        option_values.share,
        "SHARE",
        "the share of packets that is lost, from 0.0 to 1.0: 0.01 is 1 %%",
        "0.01",
        Fills((DEGRADE,), "loss"),
    ),
    Option(
        "--chaos-partition-group-size",
        option_values.group_size,
        "N",
        "how many machines split brain puts on one side; 0 is half of them",
        "0",
        Fills((BLOCK,), "group_size"),
    ),
)


# All settings of a session: registered with pytest, read when it is configured, judged as far
# as no test is known.


GROUPS = (
    ("kscen", "Kubernetes scenarios (pytest-kscen)", GENERAL),
    ("kscen scenarios", "scenarios of KEP-140 (pytest-kscen)", SCENARIOS),
    ("megatest", "megatest: volumes that come and go (pytest-kscen)", MEGATEST),
    ("megatest chaos", "megatest chaos: faults meanwhile (pytest-kscen)", CHAOS),
)
OPTIONS = tuple(option for _, _, options in GROUPS for option in options)


@dataclass(frozen=True, slots=True)
class Settings:
    """The values that hold, checked."""

    kscen_cluster: str
    kubeconfig: pathlib.Path | None = None
    kscen_context: str | None = None
    kscen_seed: str | None = None
    kscen_duration: float | None = None
    kscen_archive: pathlib.Path | None = None
    given: Mapping[str, Given] = field(default_factory=dict)
    """Everything that was given, by flag."""

    def of(self, option: Option) -> Any:
        """What was given for it, or None."""
        given = self.given.get(option.flag)
        return None if given is None else given.value

    @property
    def parent_kubeconfig(self) -> pathlib.Path | None:
        return self.of(PARENT_KUBECONFIG)  # type: ignore[no-any-return]  # existing_file read it

    @property
    def vm_namespace(self) -> str:
        return self.of(VM_NAMESPACE) or ""

    @property
    def volume_health(self) -> str:
        return self.of(VOLUME_HEALTH) or VOLUME_HEALTH.default

    @property
    def disposable(self) -> bool:
        return bool(self.of(DISPOSABLE))

    @property
    def scenario_results(self) -> str:
        return self.of(SCENARIO_RESULTS) or ""

    @property
    def scenario_patience(self) -> float:
        # duration reads it
        return self.of(SCENARIO_PATIENCE) or SCENARIO_PATIENCE.parse(SCENARIO_PATIENCE.default)  # type: ignore[no-any-return]

    @property
    def storage_classes(self) -> tuple[str, ...] | None:
        return self.of(STORAGE_CLASSES)  # type: ignore[no-any-return]  # names read it


SETTINGS = pytest.StashKey[Settings]()


def register(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    for title, description, options in GROUPS:
        group = parser.getgroup(title, description)
        for option in options:
            said = f"{option.described}; as {option.flag}".replace("%%", "%")
            parser.addini(option.name, said, type=option.in_file, default=None)
            if option is not KUBECONFIG or not _pytest_kind_registers(pluginmanager):
                how: dict[str, Any] = (
                    {"action": "store_true"} if option.is_switch else {"metavar": option.metavar}
                )
                group.addoption(
                    option.flag, dest=option.name, default=None, help=option.described, **how
                )


def _pytest_kind_registers(pluginmanager: pytest.PytestPluginManager) -> bool:
    """pytest-kind has a flag --kubeconfig too, and pytest refuses a second one: with pytest-kind
    at work we read its.
    """
    if os.environ.get("PYTEST_DISABLE_PLUGIN_AUTOLOAD"):
        return pluginmanager.has_plugin("pytest_kind.plugin")
    from importlib.util import find_spec

    return not pluginmanager.is_blocked("pytest-kind") and find_spec("pytest_kind") is not None


def settle(config: pytest.Config) -> Settings:
    """Read every setting, or raise a UsageError that names the one that makes no sense."""
    given = read(config, OPTIONS)
    _check_ranges(given)
    values = {option.name: given[option.flag].value for option in GENERAL if option.flag in given}
    implied = "kubeconfig" if "kubeconfig" in values else "embedded"
    settings = Settings(**{"kscen_cluster": implied, **values, "given": given})
    if settings.kscen_context and settings.kscen_cluster != "kubeconfig":
        raise pytest.UsageError(
            f"--kscen-context: the {settings.kscen_cluster} cluster has no contexts: give "
            "--kubeconfig too, or leave it out"
        )
    if settings.kscen_cluster in {"embedded", "controlplane"}:
        for option in (KUBECONFIG, PARENT_KUBECONFIG):
            if option.flag in given:
                raise pytest.UsageError(
                    f"{option.flag}: the {settings.kscen_cluster} cluster makes its own: "
                    "leave out one of the two"
                )
    return settings


def _check_ranges(given: Mapping[str, Given]) -> None:
    """Two that were given for one range, the least above the most, are wrong whichever test they
    are for.
    """
    ends = {
        (option.effect.kinds, option.effect.parameter, option.effect.bound): option
        for option in OPTIONS
        if isinstance(option.effect, Fills)
    }
    for (kinds, parameter, bound), option in ends.items():
        least = given.get(option.flag)
        most = given.get(ends[kinds, parameter, MOST].flag) if bound == LEAST else None
        if least and most and least.value > most.value:
            raise pytest.UsageError(
                f"{least.source}: {least.text} is above {most.text} of {most.source}: "
                "give the least and the most"
            )


SEED_FOR_WORKERS = "kscen_seed"


def with_seed_drawn(settings: Settings, workerinput: dict[str, Any]) -> Settings:
    """'random' becomes a number: drawn once for the whole session, workers of pytest-xdist
    included.
    """
    if settings.kscen_seed != RANDOM:
        return settings
    from pytest_kscen.chance import draw_seed

    return replace(settings, kscen_seed=workerinput.get(SEED_FOR_WORKERS) or draw_seed())
