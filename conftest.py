"""The plugin brings its fixtures by itself; pytester tests it with pytest. Without the real control plane its tests are skipped."""

from __future__ import annotations

import pathlib

import pytest

pytest_plugins = ["pytester"]

OWN_TESTS = pathlib.Path(__file__).parent / "tests"


def pytest_ignore_collect(collection_path: pathlib.Path, config: pytest.Config) -> bool | None:
    """`pytest -m megatest` wants the suite alone, and needs nothing that our own tests are written with."""
    return True if collection_path.is_relative_to(OWN_TESTS) and config.option.markexpr == "megatest" else None


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("controlplane"):
        from pytest_kscen.clusters.controlplane import programs

        if missing := programs.missing():
            pytest.skip(f"{', '.join(missing)} not found; build them with: {programs.BUILD}")
