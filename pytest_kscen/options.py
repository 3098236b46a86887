"""The settings of a test run, each as a flag, an environment variable and an ini key; read once, refused early.

What a marker or an argument says wins, then the flag, the environment, the ini file and the default.
"""

from __future__ import annotations

import os
import pathlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

BACKENDS = ("embedded", "controlplane", "kind", "kubeconfig")
RANDOM = "random"


def _backend(text: str) -> str:
    if text not in BACKENDS:
        raise ValueError(f"{text!r} is no kind of cluster: choose one of {', '.join(BACKENDS)}")
    return text


def _seed(text: str) -> str:
    if text != RANDOM and not text.isdecimal():
        raise ValueError(f"{text!r} is no seed: give a whole number, or 'random' to have one drawn and printed")
    return text


def _duration(text: str) -> float:
    from pytest_kscen.objects.durations import seconds_of

    seconds = seconds_of(text)
    if seconds <= 0:
        raise ValueError(f"{text!r} is no length of time to run for: give more than zero")
    return seconds


def _existing_file(text: str) -> pathlib.Path:
    path = pathlib.Path(text).expanduser()
    if not path.is_file():
        raise ValueError(f"there is no file {text!r}")
    return path


def _folder(text: str) -> pathlib.Path:
    path = pathlib.Path(text).expanduser()
    if path.exists() and not path.is_dir():
        raise ValueError(f"{text!r} is not a folder")
    return path


@dataclass(frozen=True, slots=True)
class Option:
    """One setting."""

    flag: str
    parse: Callable[[str], Any]
    metavar: str
    help: str

    @property
    def name(self) -> str:
        """Its ini key, its name in pytest's namespace and in Settings."""
        return self.flag.lstrip("-").replace("-", "_")

    @property
    def variable(self) -> str:
        name = self.name.upper()
        return name if name.startswith("KSCEN_") else f"KSCEN_{name}"


KUBECONFIG = Option("--kubeconfig", _existing_file, "FILE", "the kubeconfig of a real cluster to test on")

OPTIONS = (
    Option(
        "--kscen-cluster",
        _backend,
        "|".join(BACKENDS),
        "where clusters come from (default: embedded, or kubeconfig with --kubeconfig)",
    ),
    KUBECONFIG,
    Option("--kscen-context", str, "NAME", "the kubeconfig's context (default: its current one)"),
    Option("--kscen-seed", _seed, "N|random", "the seed of every test (default: each test's own, from its id)"),
    Option(
        "--kscen-duration",
        _duration,
        "TIME",
        "how long a run lasts in cluster time, as in 90s or 1h30m, where the test leaves it open",
    ),
    Option(
        "--kscen-archive", _folder, "DIR", "keep each run there: a folder with its journal, its outcome, its seed and its options"
    ),
)


@dataclass(frozen=True, slots=True)
class Settings:
    """The values that hold, checked."""

    kscen_cluster: str
    kubeconfig: pathlib.Path | None = None
    kscen_context: str | None = None
    kscen_seed: str | None = None
    kscen_duration: float | None = None
    kscen_archive: pathlib.Path | None = None


SETTINGS = pytest.StashKey[Settings]()


def register(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    group = parser.getgroup("kscen", "Kubernetes scenarios (pytest-kscen)")
    for option in OPTIONS:
        parser.addini(option.name, f"{option.help}; as {option.flag}", default=None)
        if option is not KUBECONFIG or not _pytest_kind_registers(pluginmanager):
            group.addoption(option.flag, dest=option.name, metavar=option.metavar, default=None, help=option.help)


def _pytest_kind_registers(pluginmanager: pytest.PytestPluginManager) -> bool:
    """pytest-kind has a flag --kubeconfig too, and pytest refuses a second one: with pytest-kind at work we read its."""
    if os.environ.get("PYTEST_DISABLE_PLUGIN_AUTOLOAD"):
        return pluginmanager.has_plugin("pytest_kind.plugin")
    from importlib.util import find_spec

    return not pluginmanager.is_blocked("pytest-kind") and find_spec("pytest_kind") is not None


def settle(config: pytest.Config) -> Settings:
    """Read every setting, or raise a UsageError that names the one that makes no sense."""
    values = {option.name: _value(config, option) for option in OPTIONS}
    implied = "kubeconfig" if values["kubeconfig"] else "embedded"
    settings = Settings(**{**values, "kscen_cluster": values["kscen_cluster"] or implied})
    if settings.kscen_context and settings.kscen_cluster != "kubeconfig":
        raise pytest.UsageError(
            f"--kscen-context: the {settings.kscen_cluster} cluster has no contexts: give --kubeconfig too, or leave it out"
        )
    if settings.kubeconfig and settings.kscen_cluster in {"embedded", "controlplane"}:
        raise pytest.UsageError(f"--kubeconfig: the {settings.kscen_cluster} cluster makes its own: leave out one of the two")
    return settings


def _value(config: pytest.Config, option: Option) -> Any:
    sources = (
        (option.flag, config.getoption(option.name, None)),
        (option.variable, os.environ.get(option.variable)),
        (f"{option.name} in {config.inipath}", config.getini(option.name)),
    )
    for source, text in sources:
        if text is not None and (text != "" or source == option.flag):
            try:
                return option.parse(str(text))
            except ValueError as error:
                raise pytest.UsageError(f"{source}: {error}") from error
    return None


SEED_FOR_WORKERS = "kscen_seed"


def with_seed_drawn(settings: Settings, workerinput: dict[str, Any]) -> Settings:
    """'random' becomes a number: drawn once for the whole session, workers of pytest-xdist included."""
    if settings.kscen_seed != RANDOM:
        return settings
    from pytest_kscen.chance import draw_seed

    return replace(settings, kscen_seed=workerinput.get(SEED_FOR_WORKERS) or draw_seed())
