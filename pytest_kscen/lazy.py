"""Lazy names of a package: the modules that define them are imported when a name is first used.

Public packages call it, so that importing them is cheap. Each of them imports the same names below
`TYPE_CHECKING`, where mypy and import-linter see them. Nothing may be imported here.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


def lazy_names(package: str, names_by_module: dict[str, tuple[str, ...]]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package: it imports a name from the module that defines it.

    AttributeError for any other name, worded as Python does for a module.
    """
    modules = {name: module for module, names in names_by_module.items() for name in names}

    def get(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(modules[name]), name)  # noqa: TID251  # this module

    return get
