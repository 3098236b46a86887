"""StatusChecks where no Chaos Mesh asks: whoever made one, it is asked and judged as there. No phase of a node may enter here."""

from pytest_kscen.workflow.status_checks.controller import StatusChecks

__all__ = ["StatusChecks"]
