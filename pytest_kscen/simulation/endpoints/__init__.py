"""Where a Service leads: Endpoints and EndpointSlices kept for the pods that it selects. No traffic flows here."""

from pytest_kscen.simulation.endpoints.controllers import Endpoints, EndpointSlices

__all__ = ["EndpointSlices", "Endpoints"]
