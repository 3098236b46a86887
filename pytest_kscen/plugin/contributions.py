"""Extensions of a session: those of installed packages, and those that hooks of plugins return.

`hooks` calls it while pytest starts. What hooks add is taken back when the session ends, so that
sessions in one process do not see each other's extensions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_kscen.extensions import ExtensionError, Registry
from pytest_kscen.plugin import options

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

POINTS = ("profiles", "health_sources", "storage_models", "probes", "waiters", "cluster_backends")

_added: list[tuple[Registry[Any], object]] = []
_errors: list[ExtensionError] = []
"""Errors of this session, raised by `check_extensions`: pytest shows them as usage errors only
from when it is configured.
"""


def registry_of(point: str) -> Registry[Any]:
    """Return the registry of an extension point; the package that has it is imported now."""
    if point == "profiles":
        from pytest_kscen.chaos.profiles import PROFILES

        return PROFILES
    if point == "health_sources":
        from pytest_kscen.objects.storage import HEALTH_SOURCES

        return HEALTH_SOURCES
    if point == "storage_models":
        from pytest_kscen.models.storage.model import STORAGE_MODELS

        return STORAGE_MODELS
    if point == "probes":
        from pytest_kscen.workflow.probes.probe import PROBE_FORMS

        return PROBE_FORMS
    if point == "waiters":
        from pytest_kscen.scenario.builtin_waiters import WAITER_REGISTRY

        return WAITER_REGISTRY
    from pytest_kscen.clusters import BACKENDS

    return BACKENDS


def collect_extensions(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    """Register the options of installed profiles, and collect from plugins as they come."""
    _try(lambda: options.update_profile_options(parser))
    for point in POINTS:
        caller = getattr(pluginmanager.hook, f"pytest_kscen_{point}")
        caller.call_historic(result_callback=_adder(point, parser))


def _adder(point: str, parser: pytest.Parser) -> Callable[[Iterable[Any]], None]:
    def add(extensions: Iterable[Any]) -> None:
        registry = registry_of(point)
        for extension in extensions:
            registry.add(extension)
            _added.append((registry, extension))
        if point == "profiles":
            options.update_profile_options(parser)

    return lambda extensions: _try(lambda: add(extensions))


def _try(step: Callable[[], None]) -> None:
    try:
        step()
    except ExtensionError as error:
        _errors.append(error)


def check_extensions(config: pytest.Config) -> None:
    """Raise a UsageError for extensions that cannot be used; forget them when the session ends."""
    config.add_cleanup(_forget)
    if _errors:
        errors = "\n".join(map(str, _errors))
        _forget()
        raise pytest.UsageError(errors)


def _forget() -> None:
    for registry, extension in _added:
        registry.discard(extension)
    _added.clear()
    _errors.clear()
    options.reset()
