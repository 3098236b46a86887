"""YAML files as tests: one for each Scenario, each Workflow in a file, with what is expected of it beside it.

They are read when they are collected, so that what makes no sense is told before anything is played.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.collection.files import PlayedFile

if TYPE_CHECKING:
    import pathlib

    import pytest

    from pytest_kscen.collection.files import Genre


def file_of_tests(path: pathlib.Path, parent: pytest.Collector) -> pytest.Collector:
    """The collector of NAME.scenario.yaml, or NAME.workflow.yaml."""
    made: PlayedFile = PlayedFile.from_parent(parent, path=path)
    made.genre = _genre(path.name.split(".")[-2])
    return made


def _genre(word: str) -> Genre:
    """What plays files with this word before their ending."""
    if word == "workflow":
        from pytest_kscen.collection.workflows import Workflows

        return Workflows()
    from pytest_kscen.collection.scenarios import Scenarios

    return Scenarios()
