"""The schema of a built-in kind: decoding as Go's JSON does. What else can be wrong is for the kind's rules to say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.machinery.recorded.reading import definition_of
from pytest_kscen.machinery.schema.compiling import walk_of
from pytest_kscen.machinery.schema.faults import alphabetical, foremost, worst
from pytest_kscen.machinery.schema.mismatch import Stranger, Undecodable, Unfit
from pytest_kscen.machinery.schema.strangers import without_strangers

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_kscen.objects.errors import Cause
    from pytest_kscen.objects.resources import Obj, Resource


class BuiltinSchema:
    """A `machinery.kinds.Schema`."""

    def __init__(self, group: str, version: str, kind: str) -> None:
        self._kind, self._version = kind, version
        self._definition = definition_of(group, version, kind)

    def decode(self, obj: Obj, old: Obj | None, *, strictness: str, warnings: list[str]) -> Obj:
        strangers: list[str] = []
        new: Obj
        walk = walk_of(self._definition)
        try:
            try:
                new = walk(obj, old)
            except Stranger:
                obj = without_strangers(obj, self._definition, strangers)
                new = walk(obj, old)
        except Unfit as misfit:
            raise Undecodable(self._kind, self._version, str(worst(walk, obj, misfit))) from None
        told = [f'unknown field "{path}"' for path in strangers]
        if told and strictness == "Strict":
            raise Undecodable(self._kind, self._version, f"strict decoding error: {', '.join(told)}")
        if strictness == "Warn":
            warnings += told
        return new

    def why_unfit(self, patched: Obj, *, is_json: bool) -> str:
        """What is told of a patch's outcome; empty if it fits."""
        walk, known = walk_of(self._definition), without_strangers(patched, self._definition, [])
        if not is_json:
            return foremost(walk, known, self._definition)
        written = alphabetical(known)
        try:
            walk(written, None)
        except Unfit as misfit:
            return str(worst(walk, written, misfit))
        return ""

    def validate(self, new: Obj, old: Obj | None, subresource: str = "") -> Iterable[Cause]:  # noqa: ARG002 - the rules judge
        return ()


def builtin_schema(resource: Resource) -> BuiltinSchema:
    return BuiltinSchema(resource.group, resource.version, resource.kind)
