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
    """A template as it was written."""

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
        """A kind of chaos that we do not know may still be one that the cluster knows."""
        return self.type in TYPES or self.is_chaos

    @property
    def key(self) -> str:
        """Under which its chaos stands; empty if it is no chaos."""
        kind = chaos_kind(self.type)
        return kind.key if kind else ""

    @property
    def chaos(self) -> Obj:
        return map_in(self.body, self.key) if self.is_chaos else {}

    @property
    def children(self) -> list[tuple[Path, str]]:
        """Those that a Serial or a Parallel makes in any case, each with where it is named."""
        if self.type not in (SERIAL, PARALLEL):
            return []
        return [
            ((*self.path, "children", str(place)), name)
            for place, name in enumerate(list_in(self.body, "children"))
            if isinstance(name, str)
        ]

    @property
    def branches(self) -> list[tuple[Path, Obj]]:
        """Where a Task may go on."""
        if self.type != TASK:
            return []
        return [
            ((*self.path, "conditionalBranches", str(place)), branch)
            for place, branch in enumerate(list_in(self.body, "conditionalBranches"))
            if isinstance(branch, dict)
        ]

    @property
    def targets(self) -> list[tuple[Path, str]]:
        """Every template that may come right below it."""
        return [
            *self.children,
            *(((*path, "target"), text_in(branch, "target")) for path, branch in self.branches),
        ]

    @property
    def lengths(self) -> dict[Path, str]:
        """What says how long it lasts: a chaos may say it as the design document does, by its
        duration.
        """
        said = {(*self.path, "deadline"): self.body.get("deadline")}
        if self.is_chaos:
            said[*self.path, "duration"] = self.body.get("duration")
            said[*self.path, self.key, "duration"] = self.chaos.get("duration")
        return {path: value for path, value in said.items() if isinstance(value, str) and value}

    @property
    def length(self) -> float | None:
        """How long it lasts at most, if it says so in a way that can be understood."""
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
