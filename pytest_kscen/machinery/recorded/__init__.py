"""What a real Kubernetes API server serves, recorded as data. Only the recording and its reading may enter here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.machinery.recorded.reading import definition, definition_of, protobuf_fields, resources, version

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_kscen.machinery.kinds import Kind

__all__ = ["builtin_kinds", "definition", "definition_of", "protobuf_fields", "resources", "version"]


def builtin_kinds() -> Iterable[Kind]:
    """All of them, in discovery's order; the same objects for every cluster of this process."""
    from pytest_kscen.machinery.recorded.builtin import kinds  # it stands on schemas, and those on this package

    return kinds()
