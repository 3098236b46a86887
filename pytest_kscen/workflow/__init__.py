"""Chaos Mesh workflows, driven event by event. What may not enter: the simulation, the clusters, and how a test is written."""
