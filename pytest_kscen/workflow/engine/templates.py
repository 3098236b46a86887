"""Templates as the engine reads them, with their retry limits and back-off."""

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
    from pytest_kscen.workflow.engine.trees import Node, Tree


LONGEST = 24 * 3600.0
"""Seconds that nobody waits longer than."""


@dataclass(frozen=True, slots=True)
class Retry:
    """What a template says of it."""

    limit: int = 0
    first: float = 0.0
    """Seconds before the second attempt."""
    factor: float = 1.0
    longest: float = LONGEST

    @classmethod
    def of(cls, body: Obj) -> Retry:
        """ValueError if it cannot be kept to."""
        backoff = body.get("backoff") or {}
        factor = backoff.get("factor", 1)
        if not (isinstance(factor, int | float) and 1 <= factor < math.inf):
            raise ValueError(
                f"the back-off's factor is {factor!r}: it has to be a number, 1 or more"
            )
        first = seconds_of_text(backoff["duration"]) if "duration" in backoff else 0.0
        longest = seconds_of_text(backoff["maxDuration"]) if "maxDuration" in backoff else LONGEST
        return cls(
            int(body.get("limit", 0)), first, float(min(factor, LONGEST)), min(longest, LONGEST)
        )

    def delay_before(self, attempt: int) -> float:
        """Seconds, counting from the end of the one before."""
        try:
            delay = self.first * self.factor ** (attempt - 2)
        except OverflowError:
            delay = self.longest
        return min(delay, self.longest)


def may_retry(tree: Tree, node: Node) -> bool:
    """Whether a node that fails by its own fault has another attempt: what is left of it, or
    below it, would be there twice.
    """
    is_left = not node.is_called_off and node.attempt <= node.template.retry.limit
    return is_left and not any(each.has_left for each in tree.below(node))


# A workflow's templates as the engine reads them: one for each name, each with what its type
# needs. They are read as they stand; whether they make sense is for `validation` to say, before
# anything is done.


@dataclass(frozen=True, slots=True)
class Branch:
    """Where a Task may go on."""

    target: str
    expression: str = ""


@dataclass(frozen=True, slots=True)
class Template:
    """What a node is made from. `body` is the template as it was written."""

    name: str
    type: str
    body: Obj
    deadline: float | None = None
    """Seconds."""
    children: tuple[str, ...] = ()
    branches: tuple[Branch, ...] = ()
    retry: Retry = field(default_factory=Retry)
    probes: tuple[Probe, ...] = ()

    @property
    def is_chaos(self) -> bool:
        return chaos_kind(self.type) is not None

    @property
    def chaos_kind(self) -> ChaosKind:
        """What is no chaos at all is looked for by its name, too: the cluster says that it has
        none.
        """
        return chaos_kind(self.type) or ChaosKind(self.type, self.type[0].lower() + self.type[1:])

    @property
    def chaos(self) -> Obj:
        """The spec of its chaos; how long it lasts is the engine's affair."""
        return {
            name: value
            for name, value in (self.body.get(self.chaos_kind.key) or {}).items()
            if name != "duration"
        }

    @property
    def targets(self) -> tuple[str, ...]:
        """Every template that may come right below it."""
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
    """What a Workflow's spec says, with the values of its parameters in their places."""

    entry: str
    templates: dict[str, Template]
    exit: str = ""
    """The template that is run when all else is over."""
    probes: tuple[Probe, ...] = ()
    """The steady-state hypothesis."""

    @classmethod
    def of(cls, spec: Obj) -> Definition:
        spec = apply_parameters(spec, {}) if spec.get("parameters") else spec
        templates = (Template.of(each) for each in spec.get("templates") or ())
        named, probes = {each.name: each for each in templates}, probes_of(spec.get("probes"))
        return cls(spec.get("entry") or "", named, spec.get("onExit") or "", probes)
