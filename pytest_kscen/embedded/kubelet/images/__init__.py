"""What containers do: behaviours by image, shell scripts, and what annotations tell.

No kubelet may enter here.
"""

from pytest_kscen.embedded.kubelet.images.context import ContainerContext
from pytest_kscen.embedded.kubelet.images.registry import (
    Behaviour,
    Images,
    SimulationError,
    simulation_program,
)

__all__ = ["Behaviour", "ContainerContext", "Images", "SimulationError", "simulation_program"]
