"""The places in a definition's schema where a schema may stand, or something simpler."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kscen.machinery.schema.mismatch import Stranger, Unfit
from pytest_kscen.machinery.schema.special import EXTENSIONS

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kscen.machinery.schema.leaves import Walk

SCHEMA = f"{EXTENSIONS}.JSONSchemaProps"


def unions(walk_of: Callable[[str], Walk]) -> dict[str, Walk]:
    """Their walks, by definition."""

    def schema(value: Any, old: Any) -> Any:
        """Fields that are unknown in here are dropped without a word, as the real server does."""
        try:
            return walk_of(SCHEMA)(value, old)
        except Stranger:
            from pytest_kscen.machinery.schema.strangers import without_strangers  # it stands on this module

            return walk_of(SCHEMA)(without_strangers(value, SCHEMA, []), old)

    def or_bool(value: Any, old: Any) -> Any:
        if value is old or type(value) in {bool, type(None)}:
            return value
        if type(value) is dict:
            return schema(value, old)
        raise Unfit("boolean or JSON schema expected")

    def or_list(value: Any, old: Any) -> Any:
        if type(value) is dict:
            return schema(value, old)
        return [schema(part, None) for part in value] if type(value) is list and value else None

    def or_names(value: Any, old: Any) -> Any:
        if type(value) is dict:
            return schema(value, old)
        return list(value) if type(value) is list and value else None

    walks = {"JSONSchemaPropsOrBool": or_bool, "JSONSchemaPropsOrArray": or_list, "JSONSchemaPropsOrStringArray": or_names}
    return {f"{EXTENSIONS}.{name}": walk for name, walk in walks.items()}
