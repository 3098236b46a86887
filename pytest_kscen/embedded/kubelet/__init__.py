"""Machines, their nodes, and the kubelets that run pods on them.

They speak kube.Api alone, to any API server.
"""
