"""Chaos Mesh's daemon where no real one is: it reads the objects that users make, and bends what stands behind the nodes.

Nothing of a workflow or of a test may enter here.
"""

from pytest_kscen.simulation.chaos_mesh.attaching import actors
from pytest_kscen.simulation.chaos_mesh.install import install

__all__ = ["actors", "install"]
