"""Probes: questions about the system under chaos, asked while a node or a workflow lives.

No phase and no tree may enter here.
"""

from pytest_kscen.workflow.probes.form import Mistake, Verdict, WrongProbe
from pytest_kscen.workflow.probes.probe import MODES, Probe, probes_of, score_of
from pytest_kscen.workflow.probes.running import Probing

__all__ = ["MODES", "Mistake", "Probe", "Probing", "Verdict", "WrongProbe", "probes_of", "score_of"]
