"""Templates as the engine reads them, with retry limits and back-off.

Templates are read as they are written, without judging them: `validation` does that before a
workflow starts. Called by `repository` and the manager; nothing here depends on nodes' phases.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytest_kscen.objects.arguments import seconds_of_text
from pytest_kscen.objects.chaos_mesh import ChaosKind, chaos_kind
from pytest_kscen.workflow.parameters import apply_parameters
from pytest_kscen.workflow.probes import Probe, probes_of

if TYPE_CHECKING:
    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.workflow.engine.trees import Tree, TreeNode


LONGEST_DELAY = 24 * 3600.0
"""Longest back-off in seconds; longer ones are cut to it."""


@dataclass(frozen=True, slots=True)
class Retry:
    """Retry limit and back-off of a template; lengths are in seconds."""

    limit: int = 0
    first: float = 0.0
    """Seconds before the second attempt."""
    factor: float = 1.0
    longest: float = LONGEST_DELAY

    @classmethod
    def of(cls, body: Obj) -> Retry:
        """Read a template's `retry`; raise ValueError if a length or the factor is unusable."""
        backoff = body.get("backoff") or {}
        factor = backoff.get("factor", 1)
        if not (isinstance(factor, int | float) and 1 <= factor < math.inf):
            raise ValueError(
                f"the back-off's factor is {factor!r}: it has to be a number, 1 or more"
            )
        first = seconds_of_text(backoff["duration"]) if "duration" in backoff else 0.0
        longest = (
            seconds_of_text(backoff["maxDuration"]) if "maxDuration" in backoff else LONGEST_DELAY
        )
        return cls(
            int(body.get("limit", 0)),
            first,
            float(min(factor, LONGEST_DELAY)),
            min(longest, LONGEST_DELAY),
        )

    def delay_before(self, attempt: int) -> float:
        """Return the seconds between the end of the previous attempt and this one, at most
        `longest`.
        """
        try:
            delay = self.first * self.factor ** (attempt - 2)
        except OverflowError:
            delay = self.longest
        return min(delay, self.longest)


def may_retry(tree: Tree, node: TreeNode) -> bool:
    """Return whether a failed node has another attempt.

    It has none if it was ended from outside, or if it or a node below it still has leftovers: their
    objects would exist twice.
    """
    is_left = not node.retry_forbidden and node.attempt <= node.template.retry.limit
    return is_left and not any(each.has_leftovers for each in tree.below(node))


@dataclass(frozen=True, slots=True)
class Branch:
    """Conditional branch of a Task: the template that follows if the expression holds."""

    target: str
    expression: str = ""


@dataclass(frozen=True, slots=True)
class Template:
    """Template of a node; `body` is the template as it was written."""

    name: str
    type: str
    body: Obj
    deadline: float | None = None
    """Length in seconds, None if there is none."""
    children: tuple[str, ...] = ()
    branches: tuple[Branch, ...] = ()
    retry: Retry = field(default_factory=Retry)
    probes: tuple[Probe, ...] = ()

    @property
    def is_chaos(self) -> bool:
        return chaos_kind(self.type) is not None

    @property
    def chaos_kind(self) -> ChaosKind:
        """Kind of chaos; unknown types are taken as kinds by their name, and the cluster refuses
        them.
        """
        return chaos_kind(self.type) or ChaosKind(self.type, self.type[0].lower() + self.type[1:])

    @property
    def chaos(self) -> Obj:
        """Spec of the chaos resource without its duration, which the engine controls itself."""
        return {
            name: value
            for name, value in (self.body.get(self.chaos_kind.key) or {}).items()
            if name != "duration"
        }

    @property
    def targets(self) -> tuple[str, ...]:
        return (*self.children, *(each.target for each in self.branches))

    @classmethod
    def of(cls, body: Obj) -> Template:
        branches = tuple(
            Branch(str(each.get("target")), each.get("expression") or "")
            for each in body.get("conditionalBranches") or ()
        )
        length = body.get("deadline")
        chaos = chaos_kind(body.get("templateType", ""))
        if chaos and not length:  # the design document's word for it
            length = body.get("duration") or (body.get(chaos.key) or {}).get("duration")
        deadline = seconds_of_text(length) if length else None
        children = tuple(body.get("children") or ())
        retry, probes = Retry.of(body.get("retry") or {}), probes_of(body.get("probes"))
        return cls(
            body["name"], body["templateType"], body, deadline, children, branches, retry, probes
        )


@dataclass(frozen=True, slots=True)
class Definition:
    """Spec of a Workflow, with the values of its parameters in place."""

    entry: str
    templates: dict[str, Template]
    exit: str = ""
    """Name of the template that runs after everything else, or empty."""
    probes: tuple[Probe, ...] = ()
    """Probes of the workflow itself: the steady-state hypothesis."""

    @classmethod
    def of(cls, spec: Obj) -> Definition:
        spec = apply_parameters(spec, {}) if spec.get("parameters") else spec
        templates = (Template.of(each) for each in spec.get("templates") or ())
        named, probes = {each.name: each for each in templates}, probes_of(spec.get("probes"))
        return cls(spec.get("entry") or "", named, spec.get("onExit") or "", probes)
