"""Hooks for extensions from plugins and conftest.py files; `hooks` registers them.

Each hook is the counterpart of an entry-point group of the same name (`pytest_kscen.profiles` for
`pytest_kscen_profiles`), which works without pytest too. Hooks are called once for each plugin,
when it is registered: before the command line is parsed, for plugins and for a conftest.py at the
root. Returned extensions are valid for the session.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_kscen.chaos.profile import Profile
    from pytest_kscen.clusters import Backend
    from pytest_kscen.models.storage.model import StorageModel
    from pytest_kscen.objects.storage import HealthSource
    from pytest_kscen.scenario.waiting import ControllerWaiter
    from pytest_kscen.workflow.probes.form import ProbeForm


@pytest.hookspec(historic=True)
def pytest_kscen_profiles() -> Iterable[type[Profile]]:  # type: ignore[empty-body]
    """Return chaos profiles: classes. Their options appear in `pytest --help`."""


@pytest.hookspec(historic=True)
def pytest_kscen_health_sources() -> Iterable[HealthSource]:  # type: ignore[empty-body]
    """Return health sources, which --kscen-volume-health selects by name."""


@pytest.hookspec(historic=True)
def pytest_kscen_storage_models() -> Iterable[StorageModel]:  # type: ignore[empty-body]
    """Return storage models, each with the name of the health source that reads its volumes."""


@pytest.hookspec(historic=True)
def pytest_kscen_probes() -> Iterable[type[ProbeForm]]:  # type: ignore[empty-body]
    """Return forms of workflow probes: classes."""


@pytest.hookspec(historic=True)
def pytest_kscen_waiters() -> Iterable[ControllerWaiter]:  # type: ignore[empty-body]
    """Return waiters of controllers that take part in scenarios once their resources are served."""


@pytest.hookspec(historic=True)
def pytest_kscen_cluster_backends() -> Iterable[type[Backend]]:  # type: ignore[empty-body]
    """Return cluster backends: classes, which --kscen-cluster selects by name."""


@pytest.hookspec
def pytest_kscen_reports(config: pytest.Config) -> Iterable[Any]:  # type: ignore[empty-body]
    """Return reports of this session's runs: classes or objects. Called before the first test."""
