"""CustomResourceDefinitions of the storage's kinds, in each of its generations.

Installed by `installation`. Schemas alone: the behaviour of the storage must not enter.
"""

from pytest_kscen.models.storage.definitions.conditions import CONDITIONS_DEFINITIONS
from pytest_kscen.models.storage.definitions.effective_layout import EFFECTIVE_LAYOUT_DEFINITIONS

__all__ = ["CONDITIONS_DEFINITIONS", "EFFECTIVE_LAYOUT_DEFINITIONS"]
