"""What containers do: behaviours by image, shell scripts, and what annotations tell. No kubelet may enter here."""

from pytest_kscen.simulation.images.context import ContainerContext
from pytest_kscen.simulation.images.own import SimulationMistake, own
from pytest_kscen.simulation.images.registry import Behaviour, Images

__all__ = ["Behaviour", "ContainerContext", "Images", "SimulationMistake", "own"]
