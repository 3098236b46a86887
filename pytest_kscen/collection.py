"""`*.scenario.yaml` files as tests: one for each Scenario in a file, with what is expected of it beside it.

They are read when they are collected, so that what makes no sense is told before anything is played.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kscen.objects.documents import Document, DocumentRefused, documents
from pytest_kscen.objects.scenarios import SCENARIOS
from pytest_kscen.options import SETTINGS
from pytest_kscen.scenario.files import ScenarioRefused, checked, configuration_among, is_configuration
from pytest_kscen.scenario.scheduling import configured

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Iterator

    from pytest_kscen.runs.runner import ScenarioRunner
    from pytest_kscen.scenario.expectations import Expectations


SIMULATED = ("embedded", "controlplane")


class ScenarioFile(pytest.File):
    """One file."""

    def collect(self) -> Iterator[pytest.Item]:
        try:
            found = list(_scenarios(self.path))
        except DocumentRefused as refusal:
            raise self.CollectError(str(refusal)) from None
        for document, expectations in found:
            yield ScenarioItem.of(self, document, expectations)


class ScenarioItem(pytest.Function):
    """One Scenario: a test that plays it."""

    line: int

    @classmethod
    def of(cls, parent: ScenarioFile, document: Document, expectations: Expectations) -> ScenarioItem:
        scenario = document.content

        def play(scenario_runner: ScenarioRunner) -> None:
            played = scenario_runner.play(scenario)
            if unmet := expectations.unmet(played.phase, played.message, played.result):
                said = "\n".join(["what is expected of the scenario does not hold", *(f"  {each}" for each in unmet)])
                pytest.fail(said, pytrace=False)

        made: ScenarioItem = cls.from_parent(parent, name=scenario["metadata"]["name"], callobj=play)
        made.line = int(document.at().rpartition(":")[2]) - 1
        made.add_marker("scenario")
        if parent.config.stash[SETTINGS].kscen_cluster in SIMULATED:
            made.add_marker(pytest.mark.cluster(nodes=0))  # a scenario makes its own
        return made

    def reportinfo(self) -> tuple[pathlib.Path, int, str]:
        return self.path, self.line, self.name


def _scenarios(path: pathlib.Path) -> Iterator[tuple[Document, Expectations]]:
    """Each Scenario of a file with what is expected of it, there or in the file beside it."""
    from pytest_kscen.scenario.expectations import API_VERSION, KIND, Expectations

    scenarios: dict[str, Document] = {}
    expected: list[Document] = []
    everything = documents(path)
    configuration = configuration_among(everything)
    for document in everything:
        if document.kind_is(API_VERSION, KIND):
            expected.append(document)
            continue
        if is_configuration(document):
            continue
        name = checked(document)["metadata"]["name"]
        if name in scenarios:
            raise ScenarioRefused(f"{document.at('metadata', 'name')}: there is a Scenario {name!r} before it")
        content = configured(document.content, configuration) if configuration else document.content
        scenarios[name] = replace(document, content=content)
    if not scenarios:
        raise ScenarioRefused(f"{path} has no Scenario: one begins with apiVersion: {SCENARIOS.api_version} and kind: Scenario")
    found = _by_scenario([*expected, *_beside(path)], list(scenarios), path)
    for name, document in scenarios.items():
        yield document, Expectations.of(found[name]) if name in found else Expectations()


def _beside(path: pathlib.Path) -> list[Document]:
    """Those of NAME.expect.yaml."""
    from pytest_kscen.scenario.expectations import API_VERSION, KIND

    stem, _, ending = path.name.rpartition(".scenario.")
    file = path.with_name(f"{stem}.expect.{ending}")
    found = documents(file) if file.is_file() else []
    for document in found:
        if not document.kind_is(API_VERSION, KIND):
            raise ScenarioRefused(f"{document.at()} begins with something else than apiVersion: {API_VERSION} and kind: {KIND}")
    return found


def _by_scenario(expected: list[Document], names: list[str], path: pathlib.Path) -> dict[str, Document]:
    """A file with one Scenario needs no names."""
    from pytest_kscen.objects.guesses import nearest

    found: dict[str, Document] = {}
    for document in expected:
        of: Any = document.content.get("scenario") or (names[0] if len(names) == 1 else None)
        there = f"{path.name} has {', '.join(names)}"
        if of is None:
            raise ScenarioRefused(f"{document.at()}: of which scenario is this expected? Write scenario: NAME; {there}")
        if of not in names:
            raise ScenarioRefused(f"{document.at('scenario')}: there is no Scenario {of!r}{nearest(str(of), names)}; {there}")
        if of in found:
            raise ScenarioRefused(f"{document.at()}: what is expected of {of!r} stands at {found[of].at()} already")
        found[of] = document
    return found
