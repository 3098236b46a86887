"""Expectations of a workflow, in YAML: validated before it runs, compared with its story after.

Called by collection. `docs/workflows.md` lists the keys; `CHECKS` is the same list.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pytest_kscen.objects.arguments import in_words, nearest, seconds_of_text
from pytest_kscen.objects.chaos_mesh import FAILED, NODE_PHASES, SUCCEED
from pytest_kscen.objects.documents import (
    DocumentRefused,
    Unmet,
    one_of,
    refused,
    require_known_keys,
    require_map,
    unmet,
)
from pytest_kscen.workflow.validation.lenient_reading import drafts_in, map_in
from pytest_kscen.workflow.validation.value_checks import seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pytest_kscen.objects.documents import Document
    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.workflow.story import NodeHistory, WorkflowStory

PHASES = (SUCCEED, FAILED)
BOUNDS = ("least", "most")
WITHIN = "1h"
"""Time limit of a workflow without `within`."""
HUNDRED = 100
A_NODE = "what is expected of its nodes, as in {phase: Succeed} or {ran: false}"

Path = tuple[str, ...]


@dataclass(frozen=True)
class WorkflowExpectations:
    """Expectations of one workflow; without any, its phase must be Succeed.

    `wanted` holds the validated keys as they were written, so that each unmet one is reported with
    the line of its document.
    """

    document: Document | None = None
    wanted: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, document: Document, workflow: Obj) -> WorkflowExpectations:
        """Read a document's expectations; raise DocumentRefused with the line of the first
        error.
        """
        obj = document.content
        require_known_keys(document, (), obj, ("apiVersion", "kind", "workflow", *CHECKS))
        wanted = {key: obj[key] for key in obj if key in CHECKS}
        for key, value in wanted.items():
            CHECKS[key](document, (key,), value)
        templates = [draft.name for draft in drafts_in(map_in(workflow, "spec"), ("spec",))]
        for name in wanted.get("nodes", {}):
            if name not in templates:
                raise refused(
                    document,
                    ("nodes", str(name)),
                    f"there is no template {name!r}",
                    one_of(name, templates),
                )
        return cls(document, wanted)

    @property
    def within(self) -> str:
        return str(self.wanted.get("within", WITHIN))

    def unfinished(self, observed: str) -> Unmet:
        """Return the unmet expectation of a workflow that exceeds its time limit."""
        return unmet(
            self.document if "within" in self.wanted else None,
            ("within",),
            f"an end within {self.within}",
            observed,
        )

    def unmet(self, story: WorkflowStory, score: float | None) -> list[Unmet]:
        """Return the unmet expectations in the order in which they were written.

        Without `phase`, Succeed is expected.
        """
        wanted = {"phase": SUCCEED, **self.wanted}
        found: list[Unmet] = []
        for key, value in wanted.items():
            if key == "nodes":
                found += [
                    one
                    for name, expected in value.items()
                    for one in self._of_nodes(story, name, expected)
                ]
            elif key == "score":
                if score is None or score < value:
                    found.append(
                        unmet(
                            self.document,
                            ("score",),
                            f"at least {value}",
                            "no probe" if score is None else score,
                        )
                    )
            elif key != "within":
                found += self._of_one(story.workflow, (), key, value)
        return found

    def _of_nodes(self, story: WorkflowStory, template: str, expected: Obj) -> Iterator[Unmet]:
        path, nodes = ("nodes", template), story.nodes_of(template)
        if "count" in expected and len(nodes) != expected["count"]:
            yield unmet(self.document, (*path, "count"), expected["count"], len(nodes))
        ran = expected.get("ran", None if "count" in expected else True)
        if ran is not None and bool(nodes) != ran:
            about = nearest(template, {each.template for each in story.nodes.values()})
            observed = f"{len(nodes)} of them" if nodes else f"none{about}"
            yield unmet(
                self.document,
                (*path, "ran") if "ran" in expected else path,
                "a node" if ran else "no node",
                observed,
            )
        for node in nodes:
            for key, value in expected.items():
                if key not in ("ran", "count"):
                    yield from self._of_one(node, path, key, value)

    def _of_one(self, node: NodeHistory, path: Path, key: str, value: Any) -> Iterator[Unmet]:
        path = (*path, key)
        if key == "phase" and node.phase != value:
            yield unmet(
                self.document,
                path,
                value,
                f"{node.phase}{f' ({node.message})' if node.message else ''}",
            )
        elif key == "phases" and node.phases != value:
            yield unmet(self.document, path, " → ".join(value), " → ".join(node.phases))
        elif key == "message" and value not in node.message:
            yield unmet(self.document, path, f"one with {value!r}", node.message or "none")
        elif key == "duration":
            for bound, limit in value.items():
                wanted, length = seconds_of_text(limit), node.duration
                if length is None or (length < wanted if bound == "least" else length > wanted):
                    observed = "no end" if length is None else in_words(length)
                    yield unmet(self.document, (*path, bound), f"at {bound} {limit}", observed)


def expectation_errors(document: Document, workflows: Sequence[Document]) -> Iterator[str]:
    """Yield the errors of an expectations document, with file and line.

    `workflows` are the Workflows that it may refer to.
    """
    names, of = [each.name for each in workflows], document.content.get("workflow")
    if of is None and len(names) > 1:
        yield (
            f"{document.at()}: expectations need the name of their workflow: write workflow: NAME; "
            f"there are {', '.join(names)}"
        )
        return
    if of is not None and of not in names:
        yield (
            f"{document.at('workflow')}: there is no Workflow "
            f"{of!r}{nearest(str(of), names)}; there is {', '.join(names)}"
        )
        return
    try:
        WorkflowExpectations.of(document, workflows[0 if of is None else names.index(of)].content)
    except DocumentRefused as refusal:
        yield from str(refusal).splitlines()


def _fits(test: Callable[[Any], bool], what: str) -> Callable[[Document, Path, Any], None]:
    def check(document: Document, path: Path, value: Any) -> None:
        if not test(value):
            raise refused(document, path, f"{value!r} does not fit", f"give {what}")

    return check


def _phase(words: tuple[str, ...]) -> Callable[[Document, Path, Any], None]:
    def check(document: Document, path: Path, value: Any) -> None:
        if value not in words:
            raise refused(document, path, f"{value!r} is not a phase", one_of(value, words))

    return check


def _duration(document: Document, path: Path, value: Any) -> None:
    require_map(document, path, value, "bounds, as in {least: 60s, most: 62s}")
    require_known_keys(document, path, value, BOUNDS)
    for bound, length in value.items():
        LENGTH(document, (*path, bound), length)


def _nodes(document: Document, path: Path, value: Any) -> None:
    require_map(document, path, value, "names of templates, with what is expected of their nodes")
    for name, wanted in value.items():
        here = (*path, str(name))
        require_map(document, here, wanted, A_NODE)
        require_known_keys(document, here, wanted, NODE)
        for key, one in wanted.items():
            NODE[key](document, (*here, key), one)


LENGTH = _fits(
    lambda value: isinstance(value, str) and (length := seconds(value)) is not None and length >= 0,
    "a duration, as in 90s",
)
TEXT = _fits(
    lambda value: isinstance(value, str) and bool(value), "what the message has to contain"
)
NODE = {
    "phase": _phase(NODE_PHASES),
    "phases": _fits(
        lambda value: isinstance(value, list) and all(each in NODE_PHASES for each in value),
        "a list of phases",
    ),
    "message": TEXT,
    "duration": _duration,
    "ran": _fits(lambda value: isinstance(value, bool), "true or false"),
    "count": _fits(
        lambda value: isinstance(value, int) and not isinstance(value, bool) and value >= 0,
        "how many nodes there are",
    ),
}
CHECKS = {
    "phase": _phase(PHASES),
    "message": TEXT,
    "duration": _duration,
    "within": LENGTH,
    "nodes": _nodes,
    "score": _fits(
        lambda value: (
            isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= HUNDRED
        ),
        "the least score, from 0 to 100",
    ),
}
