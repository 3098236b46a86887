"""Give the tests of simulated third parties their simulated site."""

from simulated_site import *  # noqa: F403  # fixtures
