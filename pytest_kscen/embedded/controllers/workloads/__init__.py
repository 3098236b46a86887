"""The controllers of workloads: from Deployments and their like to pods.

No node and no kubelet may enter here.
"""
