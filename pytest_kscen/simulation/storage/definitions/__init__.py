"""The definitions of the storage's kinds, in each of its generations. Schemas alone: nothing here knows what the storage does."""

from pytest_kscen.simulation.storage.definitions.era_a import ERA_A
from pytest_kscen.simulation.storage.definitions.main import MAIN

__all__ = ["ERA_A", "MAIN"]
