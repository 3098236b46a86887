"""Give the tests of controllers, kubelets and the scheduler their simulated site."""

from simulated_site import *  # noqa: F403  # fixtures
