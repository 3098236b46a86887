"""Extensions of a session, from installed packages and from hooks of plugins.

`hooks` calls it while pytest starts. What hooks add is taken back when the session ends. Registries
belong to the process: sessions that overlap in it share extensions, and the first that ends takes
back those of all. Sessions one after the other share none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_kscen.chaos.profiles import PROFILES
from pytest_kscen.clusters import BACKENDS
from pytest_kscen.extensions import ExtensionError, Registry, is_installed, returned_by_hook
from pytest_kscen.objects.arguments import nearest
from pytest_kscen.objects.storage import HEALTH_SOURCES
from pytest_kscen.plugin import options

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping


READ_BY_OPTIONS: Mapping[str, Registry[Any]] = {
    "profiles": PROFILES,
    "health_sources": HEALTH_SOURCES,
    "cluster_backends": BACKENDS,
}
PREFIX = "pytest_kscen_"
POINTS = (*READ_BY_OPTIONS, "storage_models", "reports", "probes", "waiters")
REPORTS_POINT = "reports"
"""Hooks that return reports are called with the configuration, before the first test."""

_added: list[tuple[Registry[Any], object]] = []
_errors: list[ExtensionError] = []
"""Errors of this session, raised by `check_extensions`: pytest shows them as usage errors only
from when it is configured.
"""


def registry_of(point: str) -> Registry[Any]:
    """Return the registry of an extension point; what options do not read is imported now."""
    if point == "storage_models":
        from pytest_kscen.models.storage.model import STORAGE_MODELS

        return STORAGE_MODELS
    if point == "reports":
        from pytest_kscen.report.registry import REPORTS

        return REPORTS
    if point == "probes":
        from pytest_kscen.workflow.probes.probe import PROBE_FORMS

        return PROBE_FORMS
    if point == "waiters":
        from pytest_kscen.scenario.builtin_waiters import WAITER_REGISTRY

        return WAITER_REGISTRY
    return READ_BY_OPTIONS[point]


def collect_extensions(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    """Register the options of installed profiles; collect from each plugin that is registered."""

    def adder(point: str) -> Callable[[Any], None]:
        def add(extensions: Any) -> None:
            registry = registry_of(point)
            returned = returned_by_hook(point, extensions, pluginmanager)
            # one after the other: if one is refused, those before it are in the list
            _added.extend((registry, each) for each in returned if registry.add(each))
            if point == "profiles":
                options.update_profile_options(parser)

        return lambda extensions: _try(lambda: add(extensions))

    _try(lambda: options.update_profile_options(parser))
    for point in POINTS:
        if point == REPORTS_POINT:
            continue
        caller = getattr(pluginmanager.hook, f"pytest_kscen_{point}")
        caller.call_historic(result_callback=adder(point))


def _try(step: Callable[[], None]) -> None:
    try:
        step()
    except ExtensionError as error:
        _errors.append(error)


def check_extensions(config: pytest.Config) -> None:
    """Raise a UsageError for extensions that cannot be used; forget them when the session ends.

    Names of all installed extensions are compared; a point without any is not even imported.
    """
    config.add_cleanup(_forget)
    _errors.extend(_unknown_hooks(config.pluginmanager))
    for point in filter(is_installed, POINTS):
        _try(registry_of(point).check_names)
    if _errors:
        errors = "\n".join(dict.fromkeys(map(str, _errors)))
        _forget()
        raise pytest.UsageError(errors)


def _unknown_hooks(pluginmanager: pytest.PytestPluginManager) -> Iterator[ExtensionError]:
    """Yield an error for each hook of a plugin that is named like ours and is none of them.

    pytest would end with an internal error at collection.
    """
    known = [f"{PREFIX}{point}" for point in POINTS]
    for name, caller in vars(pluginmanager.hook).items():
        if not name.startswith(PREFIX) or caller.has_spec():
            continue
        for implementation in caller.get_hookimpls():
            if not implementation.optionalhook:
                yield ExtensionError(
                    f"{implementation.plugin_name} defines the hook {name!r}, which does not exist"
                    f"{nearest(name, known)}; the hooks are {', '.join(known)}"
                )


def load_extensions() -> list[str]:
    """Import all installed extensions; return a line for each point that has one of no use.

    Called before the first test of a cluster: a broken one is refused before anything is done.
    """
    errors = []
    for point in filter(is_installed, POINTS):
        try:
            list(registry_of(point))
        except ExtensionError as error:
            errors.append(str(error))
    return errors


def _forget() -> None:
    for registry, extension in _added:
        registry.discard(extension)
    _added.clear()
    _errors.clear()
    options.reset()
