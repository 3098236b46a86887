"""Behaviour of containers: by registration, annotation, shell script or image.

- `registry`: which behaviour a container has; tests and models register theirs
- `context`: the interface of a running container
- `annotations`: exits, logs and HTTP answers declared on pods

Must not import kubelets.
"""

from pytest_kscen.embedded.kubelet.images.context import ContainerContext
from pytest_kscen.embedded.kubelet.images.registry import (
    Behaviour,
    Images,
    SimulationError,
    simulation_program,
)

__all__ = ["Behaviour", "ContainerContext", "Images", "SimulationError", "simulation_program"]
