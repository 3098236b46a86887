"""The definitions of the storage's kinds, in each of its generations.

Schemas alone: nothing here knows what the storage does.
"""

from pytest_kscen.models.storage.definitions.conditions import ERA_A
from pytest_kscen.models.storage.definitions.effective_layout import MAIN

__all__ = ["ERA_A", "MAIN"]
