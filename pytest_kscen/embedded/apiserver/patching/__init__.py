"""What a patch makes of an object, and who owns which of its fields. Nothing that stores, admits or
answers may enter here.

A patch goes `patched` -> decoded and defaulted (a `misfit` if it cannot be) -> like an update.
Every create and update is noted by `track` before admission; `same_owners` tells whether it has
moved any field to another owner. Edges that read without Python's methods (orjson) take
`materialised` objects."""

from pytest_kscen.embedded.apiserver.patching.managed_fields import Ledger, materialised
from pytest_kscen.embedded.apiserver.patching.managers import (
    check_options,
    owners_after_scaling,
    owners_of_scale,
)
from pytest_kscen.embedded.apiserver.patching.patches import misfit, patched
from pytest_kscen.embedded.apiserver.patching.tracking import same_owners, track, unchanged

__all__ = [
    "Ledger",
    "check_options",
    "materialised",
    "misfit",
    "owners_after_scaling",
    "owners_of_scale",
    "patched",
    "same_owners",
    "track",
    "unchanged",
]
