"""Simulated Cilium: its agents read CiliumNetworkPolicies and filter the machines' traffic.

Started with the actors of a parent cluster; nothing of a storage or of a test may be imported.
Inside:

  definitions  the definition of CiliumNetworkPolicy
  policies     the decision about one flow; pure
  agents       the agents, which follow the API and join the network as a filter
"""
