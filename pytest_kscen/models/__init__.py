"""Simulated third parties: storage, virtual machines, Cilium, Chaos Mesh.

May import embedded and the foundations only.
"""
