"""Analysis of a scenario from its timeline alone: a Scenario's status or a run's folder is
enough.
"""

from pytest_kscen.scenario.analysis.comparison import Comparison, compare
from pytest_kscen.scenario.analysis.pods import attempts_of
from pytest_kscen.scenario.analysis.result import Result

__all__ = ["Comparison", "Result", "attempts_of", "compare"]
