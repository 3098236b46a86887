"""`python -m pytest_kscen validate FILE...`: list errors of Workflows, Schedules and Scenarios
before they are applied.
"""

from __future__ import annotations

import argparse
import itertools
import pathlib
import sys
from typing import TYPE_CHECKING

from pytest_kscen.objects import chaos_mesh
from pytest_kscen.objects import documents as expecting
from pytest_kscen.objects.arguments import nearest
from pytest_kscen.objects.chaos_mesh import OWN, SHIPPED
from pytest_kscen.objects.documents import Document, DocumentRefused, documents, documents_in
from pytest_kscen.objects.scenarios import SCENARIOS
from pytest_kscen.scenario import validation
from pytest_kscen.workflow import expectations
from pytest_kscen.workflow.files import issue_line, issues_in
from pytest_kscen.workflow.validation import ERROR, WARNING, is_workflow_or_schedule
from pytest_kscen.workflow.validation.workflows import KINDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

OK, HAS_ERRORS, UNREADABLE = 0, 1, 2
STDIN, ENDINGS = pathlib.Path("-"), (".yaml", ".yml")
OTHERS = (SHIPPED.nodes.kind, SHIPPED.status_checks.kind, *chaos_mesh.KINDS)
"""Other kinds of the same API group."""
KNOWN = (*KINDS, SCENARIOS.kind)

Line = tuple[str, str]
"""Severity, and the text of the line."""


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m pytest_kscen validate",
        description=(
            f"Check {', '.join(KNOWN)}. Documents that can only hang or fail are errors, unusual "
            "ones are warnings."
        ),
        epilog=(
            "The exit code is 0 without errors, 1 with errors, 2 if a file cannot be read or a "
            "folder has no YAML files."
        ),
    )
    parser.add_argument(
        "files",
        nargs="+",
        type=pathlib.Path,
        metavar="FILE",
        help="YAML file with one or more documents; a folder; - is standard input",
    )
    parser.add_argument("--strict", action="store_true", help="warnings are errors")
    chosen = parser.parse_args(arguments)
    code = OK
    counted, is_read = {ERROR: 0, WARNING: 0}, False
    for folder in (path for path in chosen.files if path.is_dir() and not _files(path)):
        print(f"{folder} has no *.yaml or *.yml files", file=sys.stderr)
        code = UNREADABLE
    for path in itertools.chain.from_iterable(map(_files, chosen.files)):
        try:
            found = (
                documents_in("standard input", sys.stdin.read())
                if path == STDIN
                else documents(path)
            )
        except DocumentRefused as refusal:
            print(refusal, file=sys.stderr)
            code = UNREADABLE
            continue
        is_read = True
        if not found:
            print(f"{path}: skipped: it is empty")
        played = [*found, *_companion_documents(path)]
        for document in found:
            for severity, text in _findings(document, played, strict=chosen.strict):
                print(text)
                if severity in counted:
                    counted[severity] += 1
    errors, warnings = counted.values()
    if is_read:
        print(f"{_plural(errors, 'error')}, {_plural(warnings, 'warning')}")
    return max(code, HAS_ERRORS if errors else OK)


def _files(path: pathlib.Path) -> list[pathlib.Path]:
    """Return the YAML files below a folder, sorted, or the path itself if it is not a folder."""
    if not path.is_dir():
        return [path]
    return sorted(file for file in path.rglob("*") if file.suffix in ENDINGS and file.is_file())


def _companion_documents(path: pathlib.Path) -> list[Document]:
    """Return the Scenario or Workflow of a file with expectations.

    `a.expect.yaml` belongs to `a.scenario.yaml` and `a.workflow.yaml` in the same folder. A
    file that cannot be read counts as empty.
    """
    stem, _, ending = path.name.rpartition(".expect.")
    files = [path.with_name(f"{stem}.{word}.{ending}") for word in ("scenario", "workflow")]
    try:
        return [each for file in files if stem and file.is_file() for each in documents(file)]
    except DocumentRefused:
        return []


def _findings(document: Document, played: list[Document], *, strict: bool) -> Iterator[Line]:
    obj = document.content
    if _resembles_workflow(document):
        for fault in issues_in(document):
            severity = ERROR if strict else fault.severity
            yield severity, issue_line(document, fault, severity)
    elif _is_scenario(document):
        yield from _as_lines(validation.errors(document), ERROR)
        yield from _as_lines(validation.warnings(document), ERROR if strict else WARNING)
    elif document.kind_is(expecting.API_VERSION, expecting.KIND):
        # Expectations without a name belong to a workflow if there is no scenario.
        scenarios = [each for each in played if _is_scenario(each)]
        workflows = [
            each
            for each in played
            for family in (SHIPPED, OWN)
            if each.kind_is(family.workflows.api_version, family.workflows.kind)
        ]
        if workflows and ("workflow" in document.content or not scenarios):
            yield from _as_lines(expectations.expectation_errors(document, workflows), ERROR)
        elif scenarios:
            yield from _as_lines(validation.wrong_expectations(document, scenarios), ERROR)
        else:
            yield (
                "",
                (
                    f"{document.at()}: skipped: expectations are checked together with their "
                    "Scenario or Workflow; the folder has no such file"
                ),
            )
    elif not isinstance(obj, dict) or not obj.get("kind"):
        yield (
            ERROR,
            (f"{document.at()}: {ERROR}: not a Kubernetes object: add its apiVersion and kind"),
        )
    else:
        yield (
            "",
            (
                f"{document.at()}: skipped: {obj.get('apiVersion') or 'no apiVersion,'} "
                f"{obj['kind']}: only {', '.join(KNOWN)} are checked"
            ),
        )


def _is_scenario(document: Document) -> bool:
    return document.kind_is(SCENARIOS.api_version, SCENARIOS.kind)


def _resembles_workflow(document: Document) -> bool:
    """Return True for the kind of a Workflow or Schedule, or a similar spelling of it.

    A misspelt kind or group is then reported as an error instead of being skipped. Other kinds of
    Chaos Mesh do not count as misspelt.
    """
    if is_workflow_or_schedule(document.content):
        return True
    obj = document.content if isinstance(document.content, dict) else {}
    kind, group = (
        str(obj.get("kind")),
        str(obj.get("apiVersion") or SHIPPED.group).partition("/")[0],
    )
    return (
        bool(nearest(group, (SHIPPED.group, OWN.group)) and nearest(kind, KINDS))
        and kind not in OTHERS
    )


def _as_lines(texts: Iterable[str], severity: str) -> Iterator[Line]:
    for line in texts:
        where, _, text = line.partition(" ")
        yield severity, f"{where.removesuffix(':')}: {severity}: {text}"


def _plural(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
