"""Load pytester, and skip tests of the real control plane where its programs are not built."""

from __future__ import annotations

import pathlib

import pytest

pytest_plugins = ["pytester"]

OWN_TESTS = pathlib.Path(__file__).parent / "tests"


def pytest_ignore_collect(collection_path: pathlib.Path, config: pytest.Config) -> bool | None:
    """Keep `pytest -m megatest` from collecting the project's own tests."""
    return (
        True
        if collection_path.is_relative_to(OWN_TESTS) and config.option.markexpr == "megatest"
        else None
    )


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("controlplane"):
        from pytest_kscen.clusters.controlplane import programs

        if missing := programs.missing_programs():
            pytest.skip(
                f"{', '.join(missing)} not found; build them with: {programs.BUILD_COMMAND}"
            )
