"""Collect *.scenario.yaml and *.workflow.yaml as tests: one item per Scenario or Workflow.

Expectations are in the same file, or in NAME.expect.yaml in its folder. Imported at the first such
file.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import pytest

from pytest_kscen.extensions import ExtensionError
from pytest_kscen.objects.arguments import nearest
from pytest_kscen.objects.chaos_mesh import OWN, SHIPPED
from pytest_kscen.objects.documents import API_VERSION, KIND, Document, DocumentRefused, documents
from pytest_kscen.objects.errors import ApiError
from pytest_kscen.objects.scenarios import SCENARIOS
from pytest_kscen.run.workflows import Unfinished, play_to_end
from pytest_kscen.scenario.files import (
    ScenarioRefused,
    configuration_among,
    is_configuration,
    read_from_file,
)
from pytest_kscen.scenario.models import configured
from pytest_kscen.workflow.files import WorkflowRefused, companion_objects, validated

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Callable, Iterable, Iterator

    from pytest_kscen.objects.documents import Unmet
    from pytest_kscen.plugin.options import Settings
    from pytest_kscen.run.runner import ScenarioRunner


STATED = (ApiError, DocumentRefused, TimeoutError)


@dataclass(frozen=True, slots=True)
class Play:
    """Scenario or Workflow that a test plays, with its document."""

    document: Document
    perform: Callable[[ScenarioRunner], Iterable[Unmet]]
    """Play it, and return the expectations that do not hold."""


class DocumentKind(Protocol):
    """Kind of test files: Scenarios or Workflows."""

    word: str
    """Word in the file name before the suffix; also the marker and the key of expectations."""
    kind: str
    """Kind of the objects that are played."""

    def named(self, found: list[Document], path: pathlib.Path) -> dict[str, Document]:
        """Return the checked objects by name, without expectations."""

    def play(
        self, document: Document, expected: Document | None, found: list[Document]
    ) -> Play: ...

    def marks(self, settings: Settings) -> list[Any]:
        """Return the markers of the tests."""


class PlayedFile(pytest.File):
    """File of Scenarios or Workflows, with their expectations."""

    document_kind: DocumentKind

    def collect(self) -> Iterator[pytest.Item]:
        # The file may name modules: its folder goes to sys.path, as that of a module of tests does.
        folder, mode = str(self.path.parent), self.config.getoption("importmode")
        if mode != "importlib" and folder not in sys.path:
            sys.path.insert(0 if mode == "prepend" else len(sys.path), folder)
        try:
            plays = list(_plays(self.document_kind, self.path))
        # warnings are raised if options make them errors
        except (DocumentRefused, ExtensionError, Warning) as refusal:
            raise self.CollectError(str(refusal)) from None
        for name, play in plays:
            yield PlayedItem.of(self, name, play)


class PlayedItem(pytest.Function):
    """Test that plays one Scenario or Workflow."""

    line: int

    @classmethod
    def of(cls, parent: PlayedFile, name: str, play: Play) -> PlayedItem:
        from pytest_kscen.plugin.options import SETTINGS

        def perform(scenario_runner: ScenarioRunner) -> None:
            if unmet := list(play.perform(scenario_runner)):
                what = f"the {parent.document_kind.word} does not meet its expectations:"
                pytest.fail("\n".join([what, *(f"  {each}" for each in unmet)]), pytrace=False)

        made: PlayedItem = cls.from_parent(parent, name=name, callobj=perform)
        made.line = play.document.line_at() - 1
        for mark in parent.document_kind.marks(parent.config.stash[SETTINGS]):
            made.add_marker(mark)
        return made

    # pytest's signature
    def repr_failure(
        self,
        excinfo: pytest.ExceptionInfo[BaseException],
        style: Any = None,  # noqa: ARG002
    ) -> Any:
        """Show only the message of an error in the file: a traceback does not help its author."""
        return (
            str(excinfo.value)
            if isinstance(excinfo.value, STATED)
            else super().repr_failure(excinfo)
        )

    def reportinfo(self) -> tuple[pathlib.Path, int, str]:
        return self.path, self.line, self.name


def _plays(document_kind: DocumentKind, path: pathlib.Path) -> Iterator[tuple[str, Play]]:
    """Yield names and plays, with expectations from the file or its companion file."""
    everything = documents(path)
    found = [document for document in everything if not document.kind_is(API_VERSION, KIND)]
    expected = [document for document in everything if document.kind_is(API_VERSION, KIND)]
    named = document_kind.named(found, path)
    by_name = _by_name(
        document_kind, [*expected, *_companion_documents(document_kind, path)], list(named), path
    )
    for name, document in named.items():
        yield name, document_kind.play(document, by_name.get(name), found)


def _companion_documents(document_kind: DocumentKind, path: pathlib.Path) -> list[Document]:
    """Return the expectations of NAME.expect.yaml."""
    stem, _, ending = path.name.rpartition(f".{document_kind.word}.")
    file = path.with_name(f"{stem}.expect.{ending}")
    found = documents(file) if file.is_file() else []
    for document in found:
        if not document.kind_is(API_VERSION, KIND):
            raise DocumentRefused(
                f"{document.at()} begins with something else than apiVersion: "
                f"{API_VERSION} and kind: {KIND}"
            )
    return found


def _by_name(
    document_kind: DocumentKind, expected: list[Document], names: list[str], path: pathlib.Path
) -> dict[str, Document]:
    """Return expectations by the names that they are of; a file with one object needs no names."""
    word = document_kind.word
    found: dict[str, Document] = {}
    for document in expected:
        of: Any = document.content.get(word) or (names[0] if len(names) == 1 else None)
        there = f"{path.name} has {', '.join(names)}"
        if of is None:
            raise DocumentRefused(
                f"{document.at()}: expectations need the name of their {word}: write {word}: NAME; "
                f"{there}"
            )
        if of not in names:
            raise DocumentRefused(
                f"{document.at(word)}: there is no {document_kind.kind} "
                f"{of!r}{nearest(str(of), names)}; {there}"
            )
        if of in found:
            raise DocumentRefused(
                f"{document.at()}: duplicate expectations of {of!r}: {found[of].at()} has the "
                "first ones: remove one of the two"
            )
        found[of] = document
    return found


def file_of_tests(path: pathlib.Path, parent: pytest.Collector) -> pytest.Collector:
    """Return the collector of NAME.scenario.yaml or NAME.workflow.yaml."""
    made: PlayedFile = PlayedFile.from_parent(parent, path=path)
    word = path.name.split(".")[-2]
    if word == "workflow":
        made.document_kind = Workflows()
    else:
        made.document_kind = Scenarios()
    return made


SIMULATED = ("embedded", "controlplane")


class Scenarios:
    """Files `*.scenario.yaml`:

    Scenarios, and the scheduler's configuration that holds for all of them.
    """

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
                raise ScenarioRefused(
                    f"{document.at('metadata', 'name')}: there is a Scenario {name!r} before it"
                )
            content = (
                configured(document.content, configuration) if configuration else document.content
            )
            scenarios[name] = replace(document, content=content)
        if not scenarios:
            begins = (
                f"one begins with apiVersion: {SCENARIOS.api_version} and kind: {SCENARIOS.kind}"
            )
            raise ScenarioRefused(f"{path} has no {SCENARIOS.kind}: {begins}")
        return scenarios

    # a scenario needs no other object of its file
    def play(
        self,
        document: Document,
        expected: Document | None,
        found: list[Document],  # noqa: ARG002
    ) -> Play:
        from pytest_kscen.scenario.expectations import ScenarioExpectations

        expectations = ScenarioExpectations.of(expected) if expected else ScenarioExpectations()

        def perform(runner: ScenarioRunner) -> Iterable[Unmet]:
            played = runner.play(document.content)
            return expectations.unmet(played.phase, played.message, played.result)

        return Play(document, perform)

    def marks(self, settings: Settings) -> list[Any]:
        """Return the marker; on simulated clusters a scenario creates its own nodes."""
        return [
            self.word,
            *([pytest.mark.cluster(nodes=0)] if settings.kscen_cluster in SIMULATED else []),
        ]


WORKFLOWS = (SHIPPED.workflows, OWN.workflows)


class Workflows:
    """Files `*.workflow.yaml`:

    Workflows. All other objects are applied and available before each begins.
    """

    word = "workflow"
    kind = SHIPPED.workflows.kind

    def named(self, found: list[Document], path: pathlib.Path) -> dict[str, Document]:
        workflows: dict[str, Document] = {}
        for document in found:
            if not any(document.kind_is(each.api_version, each.kind) for each in WORKFLOWS):
                continue
            content = validated(document)
            name = content["metadata"]["name"]
            if name in workflows:
                raise WorkflowRefused(
                    f"{document.at('metadata', 'name')}: there is a Workflow {name!r} before it"
                )
            workflows[name] = replace(document, content=content)
        if not workflows:
            begins = (
                f"one begins with apiVersion: {SHIPPED.workflows.api_version} and kind: {self.kind}"
            )
            raise WorkflowRefused(f"{path} has no {self.kind}: {begins}")
        return workflows

    def play(self, document: Document, expected: Document | None, found: list[Document]) -> Play:
        from pytest_kscen.workflow.expectations import WorkflowExpectations

        expectations = (
            WorkflowExpectations.of(expected, document.content)
            if expected
            else WorkflowExpectations()
        )
        cast = companion_objects(found)

        def perform(runner: ScenarioRunner) -> Iterable[Unmet]:
            try:
                handle = play_to_end(runner, document.content, cast, within=expectations.within)
            except Unfinished as late:
                return [expectations.unfinished(str(late))]
            return expectations.unmet(handle.seen, handle.score)

        return Play(document, perform)

    def marks(self, settings: Settings) -> list[Any]:  # noqa: ARG002  # any cluster will do
        return [self.word]
