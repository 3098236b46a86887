"""`*.scenario.yaml`: Scenarios, and the scheduler's configuration that they are played with."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kscen.collection.files import Play
from pytest_kscen.objects.scenarios import SCENARIOS
from pytest_kscen.scenario.files import ScenarioRefused, configuration_among, is_configuration, read_from_file
from pytest_kscen.scenario.scheduling import configured

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Iterable

    from pytest_kscen.objects.documents import Document
    from pytest_kscen.objects.expecting import Unmet
    from pytest_kscen.options import Settings
    from pytest_kscen.runs.runner import ScenarioRunner

SIMULATED = ("embedded", "controlplane")


class Scenarios:
    """How they are played."""

    word = "scenario"
    kind = SCENARIOS.kind

    def named(self, found: list[Document], path: pathlib.Path) -> dict[str, Document]:
        configuration = configuration_among(found)
        scenarios: dict[str, Document] = {}
        for document in found:
            if is_configuration(document):
                continue
            name = read_from_file(document)["metadata"]["name"]
            if name in scenarios:
                raise ScenarioRefused(f"{document.at('metadata', 'name')}: there is a Scenario {name!r} before it")
            content = configured(document.content, configuration) if configuration else document.content
            scenarios[name] = replace(document, content=content)
        if not scenarios:
            begins = f"one begins with apiVersion: {SCENARIOS.api_version} and kind: {SCENARIOS.kind}"
            raise ScenarioRefused(f"{path} has no {SCENARIOS.kind}: {begins}")
        return scenarios

    def play(self, document: Document, expected: Document | None, found: list[Document]) -> Play:  # noqa: ARG002  # alone
        from pytest_kscen.scenario.expectations import Expectations

        expectations = Expectations.of(expected) if expected else Expectations()

        def perform(runner: ScenarioRunner) -> Iterable[Unmet]:
            played = runner.play(document.content)
            return expectations.unmet(played.phase, played.message, played.result)

        return Play(document, perform)

    def marks(self, settings: Settings) -> list[Any]:
        """A scenario makes its own nodes."""
        return [self.word, *([pytest.mark.cluster(nodes=0)] if settings.kscen_cluster in SIMULATED else [])]
