"""A simulated replicated storage for clusters where no real one is installed.

Its pods know the API, their node's kernel and each other's objects; nothing of the kinds of
clusters and nothing of tests may be imported. Inside, from the bottom up:

  definitions   the CustomResourceDefinitions of each generation
  drbd          the kernels' replication, independent of Kubernetes
  generations   what differs between generations: layouts, and the fields of statuses
  volume_view, attachment_rules, decisions   pure rules of the controller
  system, agent, controller, installation    the running pods, and how they get there
"""

from pytest_kscen.models.storage.installation import attach, install, is_installed

__all__ = ["attach", "install", "is_installed"]
