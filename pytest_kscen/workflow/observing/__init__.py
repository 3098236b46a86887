"""What is to be seen of an engine from outside, worked out from its journal as it is written: metrics and traces."""

from pytest_kscen.workflow.observing.metrics import Metrics
from pytest_kscen.workflow.observing.tracing import Tracing

__all__ = ["Metrics", "Tracing"]
