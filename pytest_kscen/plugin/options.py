"""Options of a test session: registered with pytest, read once and checked before the tests.

Each option is a flag, an environment variable and an ini key.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kscen.chaos.profiles import BUILT_IN, PROFILES
from pytest_kscen.clusters import BACKENDS
from pytest_kscen.extensions import ExtensionError
from pytest_kscen.objects import options as parsers
from pytest_kscen.objects.options import LEAST, MOST, Fills, Option, SwitchesOn
from pytest_kscen.objects.storage import DEFAULT_HEALTH, HEALTH_SOURCES
from pytest_kscen.plugin.option_values import Given, read

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Callable, Iterable, Mapping

    from pytest_kscen.chaos.profile import ChaosOption, Profile


RANDOM = "random"


def _one_of(names: Callable[[], Iterable[str]]) -> Callable[[str], str]:
    """Return the parser of an option with one of these names, looked up when it is read."""

    def parse(text: str) -> str:
        known = list(names())
        if text not in known:
            raise ValueError(f"invalid value {text!r}: choose one of {', '.join(known)}")
        return text

    return parse


def _seed(text: str) -> str:
    if text != RANDOM and not text.isdecimal():
        raise ValueError(
            f"invalid value {text!r}: give a whole number, or 'random' to have one drawn and "
            "printed"
        )
    return text


KUBECONFIG = Option(
    "--kubeconfig",
    parsers.existing_file,
    "FILE",
    "kubeconfig of the real cluster to test",
)
DURATION = Option(
    "--kscen-duration",
    parsers.duration,
    "TIME",
    "duration of a run in cluster time, as in 90s or 1h30m, if the test gives none "
    "(default: 1h on embedded, until Ctrl-C elsewhere)",
)

GENERAL = (
    Option(
        "--kscen-cluster",
        _one_of(BACKENDS.names),
        "|".join(BACKENDS.names()),
        "backend of the tests' clusters (default: embedded, or kubeconfig with --kubeconfig)",
    ),
    KUBECONFIG,
    Option(
        "--kscen-context",
        parsers.context,
        "NAME",
        "context of the kubeconfig (default: its current context)",
    ),
    Option(
        "--kscen-seed",
        _seed,
        "N|random",
        (
            "seed of all tests, a whole number; random draws one "
            "(default: a number from each test's id)"
        ),
    ),
    DURATION,
    Option(
        "--kscen-archive",
        parsers.folder,
        "DIR",
        (
            "keep a folder of each run in DIR: journal, outcome, stories, seed and options "
            "(default: none)"
        ),
    ),
)


RESULTS = ("AtMovingNextStep", "OnPause", "OnDone")
DISPOSABLE = Option(
    "--kscen-disposable",
    parsers.switch,
    "",
    "allow scenarios to delete all objects of the cluster of --kubeconfig before they begin "
    "(default: off)",
)
SCENARIO_RESULTS = Option(
    "--kscen-scenario-results",
    _one_of(lambda: RESULTS),
    "|".join(RESULTS),
    (
        "time of writing a scenario's results into its status (default: the variable "
        "UPDATE_SCENARIO_RESULTS_STRATEGY, else AtMovingNextStep)"
    ),
)
SCENARIO_PATIENCE = Option(
    "--kscen-scenario-patience",
    parsers.duration,
    "TIME",
    (
        "time limit of a scenario's controllers in cluster time, as in 90s or 1h30m; "
        "exceeding it fails the scenario"
    ),
    "10m",
)

SCENARIOS = (DISPOSABLE, SCENARIO_RESULTS, SCENARIO_PATIENCE)


CHURN = "volume_churn"


def _churn(parameter: str, bound: int | None = None) -> Fills:
    return Fills((CHURN,), parameter, bound)


def _number(flag: str, what: str, default: str, fills: Fills) -> Option:
    return Option(flag, parsers.count, "N", what, default, fills)


def _time(flag: str, what: str, default: str, fills: Fills) -> Option:
    return Option(flag, parsers.duration, "TIME", what, default, fills)


def _size(flag: str, what: str, default: str, fills: Fills) -> Option:
    return Option(flag, parsers.quantity, "SIZE", what, default, fills)


def _switch(flag: str, what: str, switches_on: SwitchesOn) -> Option:
    return Option(flag, parsers.switch, "", what, effect=switches_on)


STORAGE_CLASSES = Option(
    "--storage-classes",
    parsers.names,
    "A,B",
    (
        "storage classes of the volumes, separated by commas; required on a real cluster "
        "(default: two of the simulated storage)"
    ),
    effect=_churn("storage_classes"),
)
PARENT_KUBECONFIG = Option(
    "--parent-kubeconfig",
    parsers.existing_file,
    "FILE",
    (
        "kubeconfig of the parent cluster, whose virtual machines are the tested cluster's nodes; "
        "required for chaos on a real cluster"
    ),
)
VM_NAMESPACE = Option(
    "--vm-namespace",
    parsers.namespace,
    "NAME",
    "namespace of the virtual machines in the parent cluster; required for chaos on a real cluster",
)
VOLUME_HEALTH = Option(
    "--kscen-volume-health",
    _one_of(HEALTH_SOURCES.names),
    "|".join(HEALTH_SOURCES.names()),
    "health source of volumes",
    DEFAULT_HEALTH.name,
)

MEGATEST = (
    STORAGE_CLASSES,
    _number(
        "--max-volumes",
        "maximum number of volumes at once; the last step may exceed it",
        "10",
        _churn("max_volumes"),
    ),
    _number("--volume-step-min", "minimum number of volumes per step", "1", _churn("step", LEAST)),
    _number("--volume-step-max", "maximum number of volumes per step", "3", _churn("step", MOST)),
    _time(
        "--step-period-min", "minimum time between two steps", "10s", _churn("step_period", LEAST)
    ),
    _time(
        "--step-period-max", "maximum time between two steps", "30s", _churn("step_period", MOST)
    ),
    _time(
        "--volume-period-min",
        "minimum lifetime of a volume, from ready to its deletion",
        "1m",
        _churn("lifetime", LEAST),
    ),
    _time(
        "--volume-period-max",
        "maximum lifetime of a volume, from ready to its deletion",
        "5m",
        _churn("lifetime", MOST),
    ),
    _switch(
        "--enable-pod-destroyer",
        "delete pods of the storage's agents and controllers (default: off)",
        SwitchesOn(parameter="pod_destroyer"),
    ),
    _switch(
        "--enable-volume-resizer", "grow volumes (default: off)", SwitchesOn(parameter="resizer")
    ),
    _switch(
        "--enable-volume-replica-destroyer",
        "delete replicas of volumes (default: off)",
        SwitchesOn(parameter="replica_destroyer"),
    ),
    _switch(
        "--enable-volume-replica-creator",
        "add Access and TieBreaker replicas to volumes (default: off)",
        SwitchesOn(parameter="replica_creator"),
    ),
    VOLUME_HEALTH,
    _time(
        "--kscen-volume-patience",
        "time limit for a new volume to become ready, and for the replacement of a deleted disk",
        "10m",
        _churn("patience"),
    ),
    _size("--kscen-volume-size", "size of a new volume, 1Mi or more", "100Mi", _churn("size")),
    _size(
        "--kscen-volume-size-max",
        "maximum size of a growing volume",
        "1Gi",
        Fills((CHURN,), "max_size", actor="resizer"),
    ),
)


def profile_options(profiles: Iterable[type[Profile]]) -> list[Option]:
    """Return the options that these profiles declare: switches first, then the most shared ones.

    An option that several profiles declare fills a parameter of each. ExtensionError is raised if
    their declarations differ.
    """
    declared: dict[str, tuple[ChaosOption, list[type[Profile]]]] = {}
    for profile in profiles:
        for option in profile.options:
            known, profiles_with = declared.setdefault(option.flag, (option, []))
            if known != option or (profiles_with and not option.parameter):
                raise ExtensionError(
                    f"the profiles {profiles_with[0].name!r} ({profiles_with[0].__module__}) and "
                    f"{profile.name!r} ({profile.__module__}) declare {option.flag} differently: "
                    "rename one of the two flags"
                )
            profiles_with.append(profile)
    found = [
        Option(
            *(option.flag, option.parse, option.metavar, option.help, option.default),
            Fills(tuple(each.name for each in having), option.parameter, option.bound)
            if option.parameter
            else SwitchesOn(having[0].name),
        )
        for option, having in declared.values()
    ]
    return sorted(
        found,
        key=lambda option: -len(option.effect.kinds) if isinstance(option.effect, Fills) else -99,
    )


CHAOS = (PARENT_KUBECONFIG, VM_NAMESPACE, *profile_options(BUILT_IN))


GROUPS = (
    ("kscen", "Kubernetes scenarios (pytest-kscen)", GENERAL),
    ("kscen scenarios", "Scenarios of KEP-140 (pytest-kscen)", SCENARIOS),
    ("megatest", "megatest: volume churn (pytest-kscen)", MEGATEST),
    ("megatest chaos", "megatest chaos: faults during the volume churn (pytest-kscen)", CHAOS),
)
OPTIONS = [option for _, _, options in GROUPS for option in options]
"""Options of the session.

Options of other packages' profiles are added by `update_profile_options`.
"""


@dataclass(frozen=True, slots=True)
class Settings:
    """Checked values of the session's options."""

    kscen_cluster: str
    kubeconfig: pathlib.Path | None = None
    kscen_context: str | None = None
    kscen_seed: str | None = None
    kscen_duration: float | None = None
    kscen_archive: pathlib.Path | None = None
    given: Mapping[str, Given] = field(default_factory=dict)
    """Values from the command line, the environment and the ini file, by flag."""

    def of(self, option: Option) -> Any:
        """Return the value given for an option; None without one."""
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
        default: float = SCENARIO_PATIENCE.parse(SCENARIO_PATIENCE.default)
        return self.of(SCENARIO_PATIENCE) or default

    @property
    def storage_classes(self) -> tuple[str, ...] | None:
        return self.of(STORAGE_CLASSES)  # type: ignore[no-any-return]  # names read it


SETTINGS = pytest.StashKey[Settings]()


def reset() -> None:
    """Forget the options of profiles that other packages and plugins have added."""
    OPTIONS[:] = [option for _, _, options in GROUPS for option in options]


def register(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    """Register all options with pytest: called once, before the command line is parsed."""
    for title, description, options in GROUPS:
        for option in options:
            has_flag = option is not KUBECONFIG or not _pytest_kind_registers(pluginmanager)
            _add(parser.getgroup(title, description), parser, option, has_flag=has_flag)


def update_profile_options(parser: pytest.Parser) -> None:
    """Register the options of profiles that have been added to the registry since the last call.

    An option that was registered before and is declared by another profile now fills both.
    """
    title, description, _ = GROUPS[-1]
    known = {option.flag: number for number, option in enumerate(OPTIONS)}
    for option in profile_options(PROFILES.values()):
        if option.flag not in known:
            OPTIONS.append(option)
            _add(parser.getgroup(title, description), parser, option)
        elif isinstance(OPTIONS[known[option.flag]].effect, Fills | SwitchesOn):
            OPTIONS[known[option.flag]] = option
        else:
            raise ExtensionError(
                f"{option.flag} is an option of pytest-kscen, and a profile declares it: rename "
                "the profile's flag"
            )


def _add(
    group: pytest.OptionGroup, parser: pytest.Parser, option: Option, *, has_flag: bool = True
) -> None:
    shown = f"{option.described}; as {option.flag}".replace("%%", "%")
    parser.addini(option.name, shown, type=option.in_file, default=None)
    if has_flag:
        how: dict[str, Any] = (
            {"action": "store_true"} if option.is_switch else {"metavar": option.metavar}
        )
        group.addoption(option.flag, dest=option.name, default=None, help=option.described, **how)


def _pytest_kind_registers(pluginmanager: pytest.PytestPluginManager) -> bool:
    """pytest-kind has a flag --kubeconfig too, and pytest refuses a second one: with pytest-kind
    at work we read its.
    """
    if os.environ.get("PYTEST_DISABLE_PLUGIN_AUTOLOAD"):
        return pluginmanager.has_plugin("pytest_kind.plugin")
    from importlib.util import find_spec

    return not pluginmanager.is_blocked("pytest-kind") and find_spec("pytest_kind") is not None


def settle(config: pytest.Config) -> Settings:
    """Read all settings, or raise a UsageError that names the invalid one."""
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
    if BACKENDS[settings.kscen_cluster].recreated:
        for option in (KUBECONFIG, PARENT_KUBECONFIG):
            if option.flag in given:
                raise pytest.UsageError(
                    f"{option.flag}: the {settings.kscen_cluster} cluster makes its own: "
                    "leave out one of the two"
                )
    return settings


def _check_ranges(given: Mapping[str, Given]) -> None:
    """Raise a UsageError if the least of a range is above its most."""
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
    """Replace the seed 'random' by a number, drawn once for the session and the workers of
    pytest-xdist.
    """
    if settings.kscen_seed != RANDOM:
        return settings
    from pytest_kscen.chance import draw_seed

    return replace(settings, kscen_seed=workerinput.get(SEED_FOR_WORKERS) or draw_seed())
