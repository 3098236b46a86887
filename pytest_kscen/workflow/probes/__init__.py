"""Probes: questions about the system under chaos, asked while a node or a workflow lives.

No phase and no tree may enter here.
"""

from pytest_kscen.workflow.probes.form import InvalidProbe, ProbeFieldError, ProbeVerdict
from pytest_kscen.workflow.probes.probe import MODES, Probe, probes_of, score_of
from pytest_kscen.workflow.probes.running import ProbeRunner

__all__ = [
    "MODES",
    "InvalidProbe",
    "Probe",
    "ProbeFieldError",
    "ProbeRunner",
    "ProbeVerdict",
    "probes_of",
    "score_of",
]
