"""A workflow's templates as the engine reads them: one for each name, each with what its type needs.

They are read as they stand; whether they make sense is for `validation` to say, before anything is done.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pytest_kscen.objects.chaos_mesh import KINDS
from pytest_kscen.objects.durations import seconds_of_text

if TYPE_CHECKING:
    from pytest_kscen.objects.resources import Obj


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

    @property
    def is_chaos(self) -> bool:
        return self.type in KINDS

    @property
    def chaos(self) -> Obj:
        """The spec of its chaos."""
        return dict(self.body.get(KINDS[self.type].key) or {})

    @property
    def targets(self) -> tuple[str, ...]:
        """Every template that may come right below it."""
        return (*self.children, *(each.target for each in self.branches))

    @classmethod
    def of(cls, body: Obj) -> Template:
        branches = tuple(
            Branch(str(each.get("target")), each.get("expression") or "") for each in body.get("conditionalBranches") or ()
        )
        length = body.get("deadline")
        chaos = KINDS.get(body.get("templateType", ""))
        if chaos and not length:  # the design document's word for it
            length = body.get("duration") or (body.get(chaos.key) or {}).get("duration")
        deadline = seconds_of_text(length) if length else None
        return cls(body["name"], body["templateType"], body, deadline, tuple(body.get("children") or ()), branches)


@dataclass(frozen=True, slots=True)
class Definition:
    """What a Workflow's spec says."""

    entry: str
    templates: dict[str, Template]
    spec: Obj = field(repr=False)

    @classmethod
    def of(cls, spec: Obj) -> Definition:
        templates = (Template.of(each) for each in spec.get("templates") or ())
        return cls(spec.get("entry") or "", {each.name: each for each in templates}, spec)

    def option(self, name: str, default: Any = None) -> Any:
        """What the spec has beyond the shipped one."""
        return self.spec.get(name, default)
