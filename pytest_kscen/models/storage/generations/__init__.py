"""What differs between the storage's generations: layouts, and how things are said in the API's
objects.

What a volume needs is decided elsewhere, once for all of them.
"""

from pytest_kscen.models.storage.generations.conditions import ConditionsGeneration
from pytest_kscen.models.storage.generations.effective_layout import (
    EffectiveLayoutGeneration,
    ReadyGeneration,
)
from pytest_kscen.models.storage.generations.generation import Generation

DEFAULT = "conditions"
GENERATIONS: dict[str, Generation] = {
    one.name: one
    for one in (ConditionsGeneration(), EffectiveLayoutGeneration(), ReadyGeneration())
}

__all__ = ["DEFAULT", "GENERATIONS", "Generation"]
