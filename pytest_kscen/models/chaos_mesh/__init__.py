"""Chaos Mesh's daemon where no real one is: it reads the objects that users make, and bends what
stands behind the nodes.

Nothing of a workflow or of a test may enter here.
"""

from pytest_kscen.models.chaos_mesh.installation import actors, install

__all__ = ["actors", "install"]
