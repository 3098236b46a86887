"""Patches, and the ownership of fields in managedFields.

A patch goes through `apply_patch`, is decoded and defaulted (`patch_refusal` if it cannot be), and
then proceeds like an update. `track` notes every create and update before admission; `same_owners`
reports whether a write moved any field to another owner. Readers that bypass Python's methods
(orjson) take `materialised` objects. Imports no store, no admission and no HTTP.

Inside:
- `patches`: the four patch types. `strategic`: strategic merge patch.
- `shapes`: list types, merge keys and atomic fields of each kind.
- `fields`, `structured_merge`: field sets, comparison and merge, as structured-merge-diff.
- `managed_fields`, `managers`, `tracking`: entries, their writers, and the notes of plain writes.
"""

from pytest_kscen.embedded.apiserver.patching.managed_fields import LazyManagedFields, materialised
from pytest_kscen.embedded.apiserver.patching.managers import (
    check_options,
    owners_after_scaling,
    owners_of_scale,
)
from pytest_kscen.embedded.apiserver.patching.patches import apply_patch, patch_refusal
from pytest_kscen.embedded.apiserver.patching.tracking import is_unchanged, same_owners, track

__all__ = [
    "LazyManagedFields",
    "apply_patch",
    "check_options",
    "is_unchanged",
    "materialised",
    "owners_after_scaling",
    "owners_of_scale",
    "patch_refusal",
    "same_owners",
    "track",
]
