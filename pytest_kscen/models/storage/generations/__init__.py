"""The storage's generations: layouts, quorum rules, and the fields of specs and statuses.

Decisions about a volume are made elsewhere, once for all generations; nothing of the pods or of the
API's clients may be imported. Inside:

  generation             the abstract Generation, and helpers for all of them
  conditions             the first generation; conditions_replicas: its agents' reports
  effective_layout       the two later generations: datamesh, effective layout, Ready;
                         effective_layout_replicas: statuses of their replicas
  datamesh               the datamesh of the later generations, and what a volume can lose
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
