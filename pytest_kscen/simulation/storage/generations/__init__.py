"""What differs between the storage's generations: layouts, and how things are said in the API's objects.

What a volume needs is decided elsewhere, once for all of them.
"""

from pytest_kscen.simulation.storage.generations.era_a import EraA
from pytest_kscen.simulation.storage.generations.generation import Generation
from pytest_kscen.simulation.storage.generations.main import Main, Ready

DEFAULT = "conditions"
GENERATIONS: dict[str, Generation] = {one.name: one for one in (EraA(), Main(), Ready())}

__all__ = ["DEFAULT", "GENERATIONS", "Generation"]
