"""The storage's agent: it brings one node's kernel to what the API asks, and tells the API what the kernel says."""

from pytest_kscen.simulation.storage.agent.agent import Agent

__all__ = ["Agent"]
