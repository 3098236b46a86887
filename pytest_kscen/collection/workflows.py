"""`*.workflow.yaml`: Workflows. What else stands in the file is there, and available, before each of them begins."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pytest_kscen.collection.files import Play
from pytest_kscen.objects.workflows import OWN, SHIPPED
from pytest_kscen.runs.playing import Unfinished, play_to_end
from pytest_kscen.workflow.files import WorkflowRefused, cast_of, checked

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Iterable

    from pytest_kscen.objects.documents import Document
    from pytest_kscen.objects.expecting import Unmet
    from pytest_kscen.options import Settings
    from pytest_kscen.runs.runner import ScenarioRunner

WORKFLOWS = (SHIPPED.workflows, OWN.workflows)


class Workflows:
    """How they are played."""

    word = "workflow"
    kind = SHIPPED.workflows.kind

    def named(self, found: list[Document], path: pathlib.Path) -> dict[str, Document]:
        workflows: dict[str, Document] = {}
        for document in found:
            if not any(document.kind_is(each.api_version, each.kind) for each in WORKFLOWS):
                continue
            content = checked(document)
            name = content["metadata"]["name"]
            if name in workflows:
                raise WorkflowRefused(f"{document.at('metadata', 'name')}: there is a Workflow {name!r} before it")
            workflows[name] = replace(document, content=content)
        if not workflows:
            begins = f"one begins with apiVersion: {SHIPPED.workflows.api_version} and kind: {self.kind}"
            raise WorkflowRefused(f"{path} has no {self.kind}: {begins}")
        return workflows

    def play(self, document: Document, expected: Document | None, found: list[Document]) -> Play:
        from pytest_kscen.workflow.expectations import Expectations

        expectations = Expectations.of(expected, document.content) if expected else Expectations()
        cast = cast_of(found)

        def perform(runner: ScenarioRunner) -> Iterable[Unmet]:
            try:
                handle = play_to_end(runner, document.content, cast, within=expectations.within)
            except Unfinished as late:
                return [expectations.unfinished(str(late))]
            return expectations.unmet(handle.seen, handle.score)

        return Play(document, perform)

    def marks(self, settings: Settings) -> list[Any]:  # noqa: ARG002  # any cluster will do
        return [self.word]
