"""The plugin brings its fixtures by itself; pytester tests it with pytest. Without the real control plane its tests are skipped."""

from __future__ import annotations

import pytest

pytest_plugins = ["pytester"]


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("controlplane"):
        from pytest_kscen.clusters.controlplane import programs

        if missing := programs.missing():
            pytest.skip(f"{', '.join(missing)} not found; build them with: {programs.BUILD}")
