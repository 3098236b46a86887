"""Simulated third parties: the storage, virtual machines, Cilium and Chaos Mesh.

They act on the API as the real programs do; only `embedded` and the foundations may be imported,
nothing of runs, chaos, megatest, scenarios or workflows. Inside:

  storage           a replicated storage with DRBD, in three generations
  virtualization    a parent cluster's virtual machines, behind the nested cluster's nodes
  cilium            CiliumNetworkPolicies as a filter on the machines' network
  chaos_mesh        PodChaos, NetworkChaos and the other kinds as objects with effects
  custom_resources  builders of CustomResourceDefinitions
"""
