"""Simulated Chaos Mesh where no real one is: a daemon that carries out users' chaos objects.

It acts on the network behind the nodes, and on pods by the API; nothing of workflows or of tests
may be imported. Inside:

  targets        selection of pods and containers, and the protocol of effects
  network_chaos, pod_chaos   the effects
  status         records, conditions and phases of chaos objects; pure
  daemon         the controller; installation: definitions and actors
"""

from pytest_kscen.models.chaos_mesh.installation import actors, install

__all__ = ["actors", "install"]
