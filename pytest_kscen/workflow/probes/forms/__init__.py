"""The forms of a probe: each reads itself from JSON, and asks."""

from pytest_kscen.workflow.probes.forms.command import Command
from pytest_kscen.workflow.probes.forms.form import Errand, Form
from pytest_kscen.workflow.probes.forms.http import Http
from pytest_kscen.workflow.probes.forms.kubernetes import Kubernetes
from pytest_kscen.workflow.probes.forms.prometheus import Prometheus

FORMS: dict[str, type[Form]] = {"http": Http, "command": Command, "kubernetes": Kubernetes, "prometheus": Prometheus}

__all__ = ["FORMS", "Command", "Errand", "Form", "Http", "Kubernetes", "Prometheus"]
