"""Public names for testing a storage of another vendor: health sources and storage models.

They stay as they are within a minor version (docs/extending.md has a how-to). Nothing else in
`objects.storage` and `models.storage` is public. Importing this module does not import a model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.lazy import lazy_names
from pytest_kscen.objects.conditions import condition
from pytest_kscen.objects.resources import Resource
from pytest_kscen.objects.storage import HEALTH_SOURCES, HealthSource, Observed, observed_condition

if TYPE_CHECKING:
    from pytest_kscen.models.storage.model import STORAGE_MODELS, StorageModel, create_definition

__all__ = [
    "HEALTH_SOURCES",
    "STORAGE_MODELS",
    "HealthSource",
    "Observed",
    "Resource",
    "StorageModel",
    "condition",
    "create_definition",
    "observed_condition",
]


__getattr__ = lazy_names(
    __name__,
    {
        "pytest_kscen.models.storage.model": (
            "STORAGE_MODELS",
            "StorageModel",
            "create_definition",
        ),
    },
)
"""Storage models are imported when they are first needed: they bring the embedded kubelet."""
