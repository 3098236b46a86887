"""Simulated site of the tests of controllers, kubelets and the scheduler."""

from simulated_site import *  # noqa: F403  # fixtures
