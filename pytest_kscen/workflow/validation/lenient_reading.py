"""Read an unvalidated object as far as possible: a value of the wrong type counts as absent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_kscen.objects.chaos_mesh import PARALLEL, SERIAL, TASK, TYPES, chaos_kind
from pytest_kscen.workflow.validation.value_checks import seconds

if TYPE_CHECKING:
    from pytest_kscen.objects.documents import Path
    from pytest_kscen.objects.resources import Obj


def text_in(obj: Obj, key: str) -> str:
    value = obj.get(key)
    return value if isinstance(value, str) else ""


def map_in(obj: Obj, key: str) -> Obj:
    value = obj.get(key)
    return value if isinstance(value, dict) else {}


def list_in(obj: Obj, key: str) -> list[Any]:
    value = obj.get(key)
    return value if isinstance(value, list) else []


@dataclass(frozen=True, slots=True)
class TemplateDraft:
    """Template as it was written, with the types of its fields unknown."""

    path: Path
    body: Obj
    name: str
    type: str

    @classmethod
    def of(cls, path: Path, body: Obj) -> TemplateDraft:
        return cls(path, body, text_in(body, "name"), text_in(body, "templateType"))

    @property
    def is_chaos(self) -> bool:
        return bool(self.key)

    @property
    def is_known(self) -> bool:
        """Return True for a known type, or for a kind of chaos, which the cluster may know."""
        return self.type in TYPES or self.is_chaos

    @property
    def key(self) -> str:
        kind = chaos_kind(self.type)
        return kind.key if kind else ""

    @property
    def chaos(self) -> Obj:
        return map_in(self.body, self.key) if self.is_chaos else {}

    @property
    def children(self) -> list[tuple[Path, str]]:
        """Return the children of a Serial or Parallel, each with the path of its name."""
        if self.type not in (SERIAL, PARALLEL):
            return []
        return [
            ((*self.path, "children", str(place)), name)
            for place, name in enumerate(list_in(self.body, "children"))
            if isinstance(name, str)
        ]

    @property
    def branches(self) -> list[tuple[Path, Obj]]:
        if self.type != TASK:
            return []
        return [
            ((*self.path, "conditionalBranches", str(place)), branch)
            for place, branch in enumerate(list_in(self.body, "conditionalBranches"))
            if isinstance(branch, dict)
        ]

    @property
    def targets(self) -> list[tuple[Path, str]]:
        """Return every template that may come directly below, each with the path of its name."""
        return [
            *self.children,
            *(((*path, "target"), text_in(branch, "target")) for path, branch in self.branches),
        ]

    @property
    def lengths(self) -> dict[Path, str]:
        """Return the fields that set its length: chaos may use `duration`, as in the design
        document.
        """
        written = {(*self.path, "deadline"): self.body.get("deadline")}
        if self.is_chaos:
            written[*self.path, "duration"] = self.body.get("duration")
            written[*self.path, self.key, "duration"] = self.chaos.get("duration")
        return {path: value for path, value in written.items() if isinstance(value, str) and value}

    @property
    def length(self) -> float | None:
        """Return its length in seconds; None if no field sets one that can be read."""
        return next(
            (length for each in self.lengths.values() if (length := seconds(each)) is not None),
            None,
        )


def drafts_in(spec: Obj, path: Path) -> list[TemplateDraft]:
    templates = enumerate(list_in(spec, "templates"))
    return [
        TemplateDraft.of((*path, "templates", str(place)), body)
        for place, body in templates
        if isinstance(body, dict)
    ]
