"""Simulated Cilium agents: they read CiliumNetworkPolicies and filter the machines' traffic."""
