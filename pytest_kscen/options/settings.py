"""All settings of a session: registered with pytest, read when it is configured, judged as far as no test is known."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kscen.options.general import GENERAL, KUBECONFIG, RANDOM
from pytest_kscen.options.megatest import CHAOS, MEGATEST, PARENT_KUBECONFIG, STORAGE_CLASSES, VM_NAMESPACE, VOLUME_HEALTH
from pytest_kscen.options.option import LEAST, MOST, Fills
from pytest_kscen.options.reading import Given, read
from pytest_kscen.options.scenarios import DISPOSABLE, SCENARIO_PATIENCE, SCENARIO_RESULTS, SCENARIOS

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Mapping

    from pytest_kscen.options.option import Option

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
        return self.of(SCENARIO_PATIENCE) or SCENARIO_PATIENCE.parse(SCENARIO_PATIENCE.default)  # type: ignore[no-any-return]  # duration reads it

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
                _add(group, option)


def _add(group: pytest.OptionGroup, option: Option) -> None:
    how: dict[str, Any] = {"action": "store_true"} if option.is_switch else {"metavar": option.metavar}
    group.addoption(option.flag, dest=option.name, default=None, help=option.described, **how)


def _pytest_kind_registers(pluginmanager: pytest.PytestPluginManager) -> bool:
    """pytest-kind has a flag --kubeconfig too, and pytest refuses a second one: with pytest-kind at work we read its."""
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
            f"--kscen-context: the {settings.kscen_cluster} cluster has no contexts: give --kubeconfig too, or leave it out"
        )
    if settings.kscen_cluster in {"embedded", "controlplane"}:
        for option in (KUBECONFIG, PARENT_KUBECONFIG):
            if option.flag in given:
                raise pytest.UsageError(
                    f"{option.flag}: the {settings.kscen_cluster} cluster makes its own: leave out one of the two"
                )
    return settings


def _check_ranges(given: Mapping[str, Given]) -> None:
    """Two that were given for one range, the least above the most, are wrong whichever test they are for."""
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
                f"{least.source}: {least.text} is above {most.text} of {most.source}: give the least and the most"
            )


SEED_FOR_WORKERS = "kscen_seed"


def with_seed_drawn(settings: Settings, workerinput: dict[str, Any]) -> Settings:
    """'random' becomes a number: drawn once for the whole session, workers of pytest-xdist included."""
    if settings.kscen_seed != RANDOM:
        return settings
    from pytest_kscen.chance import draw_seed

    return replace(settings, kscen_seed=workerinput.get(SEED_FOR_WORKERS) or draw_seed())
