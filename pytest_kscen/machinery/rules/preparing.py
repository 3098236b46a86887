"""What a write may touch: the main resource leaves the status alone, and a part of it everything else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kscen.machinery.core import Core
    from pytest_kscen.objects.resources import Obj


def fresh_status(**zeroes: Any) -> Callable[[Obj, Core], None]:
    """A new object has no history. Some kinds print their counters even then."""

    def reset(new: Obj, _core: Core) -> None:
        new["status"] = dict(zeroes)

    return reset


without_status = fresh_status()


def keep_status(new: Obj, old: Obj, _core: Core) -> None:
    new.pop("status", None)
    if "status" in old:
        new["status"] = old["status"]


def keep_spec(new: Obj, old: Obj, _core: Core) -> None:
    """A write to the status may carry new metadata, but nothing else."""
    metadata, status = new["metadata"], new.get("status", {})
    new.clear()
    new.update(old)
    new["metadata"], new["status"] = metadata, status


def never(_new: Obj, _old: Obj) -> bool:
    """For kinds whose generation stays where it began."""
    return False
