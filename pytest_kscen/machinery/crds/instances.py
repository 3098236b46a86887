"""What every custom kind has in common, whatever its definition says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kscen.machinery.kinds import Part, Rules, content_changed, custom_status_alone
from pytest_kscen.objects.errors import forbidden
from pytest_kscen.objects.resources import CUSTOM_RESOURCE_DEFINITIONS
from pytest_kscen.objects.selectors import field_at

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kscen.machinery.core import Core
    from pytest_kscen.machinery.store import Key
    from pytest_kscen.objects.resources import Obj, Resource

    Settle = Callable[[Core], None]

TERMINATING = "create not allowed while custom resource definition is terminating"


def instance_rules(resource: Resource, version: Obj, settle: Settle, *, has_status: bool) -> Rules:
    key = CUSTOM_RESOURCE_DEFINITIONS.group, CUSTOM_RESOURCE_DEFINITIONS.plural, "", resource.qualified
    paths = [given["jsonPath"].removeprefix(".") for given in version.get("selectableFields") or ()]

    def refuse_the_end(obj: Obj, core: Core) -> None:
        if _is_terminating(core, key):
            raise forbidden(resource, obj["metadata"]["name"], TERMINATING)

    def end_definition(core: Core) -> None:
        """The last instance of a definition that is being deleted lets it go."""
        if _is_terminating(core, key):
            settle(core)

    return Rules(
        prepare_create=refuse_the_end,
        parts={"status": Part(custom_status_alone, keeps_metadata=True)},
        fields={path: _selectable(path) for path in paths},
        generation=content_changed if has_status else _anything_changed,
        unconditional_update=False,
        when_gone=end_definition,
    )


def _is_terminating(core: Core, key: Key) -> bool:
    definition = core.store.get(key)
    return definition is not None and "deletionTimestamp" in definition["metadata"]


def _selectable(path: str) -> Callable[[Obj], str]:
    def value(obj: Obj) -> str:
        found: Any = field_at(obj, path)
        if isinstance(found, bool):
            return str(found).lower()
        return "" if found is None else str(found)

    return value


def _anything_changed(new: Obj, old: Obj) -> bool:
    """Without a status of its own, a status is content too."""
    return any(new.get(name) != old.get(name) for name in {**new, **old} if name != "metadata")
