"""Probes: checks of the system under chaos, run while a node or a workflow is active.

Called by `engine.node_probes` and `status_checks`. Must not import the engine or its tables of
phases.

  probe         a probe as it is written, and the resilience score
  form          parts shared by all forms: reading JSON, outcomes, verdicts
  http, command, kubernetes   the forms: HTTP and Prometheus, a pod's command, CEL over objects
  running       asks all probes of one node or workflow
"""

from pytest_kscen.workflow.probes.form import (
    FieldReader,
    InvalidProbe,
    ProbeContext,
    ProbeFieldError,
    ProbeForm,
    ProbeOutcome,
    ProbeVerdict,
)
from pytest_kscen.workflow.probes.probe import MODES, Probe, probes_of, score_of
from pytest_kscen.workflow.probes.running import ProbeRunner

__all__ = [
    "MODES",
    "FieldReader",
    "InvalidProbe",
    "Probe",
    "ProbeContext",
    "ProbeFieldError",
    "ProbeForm",
    "ProbeOutcome",
    "ProbeRunner",
    "ProbeVerdict",
    "probes_of",
    "score_of",
]
