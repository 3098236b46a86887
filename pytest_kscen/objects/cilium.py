"""Cilium's own policies."""

from __future__ import annotations

from pytest_kscen.objects.resources import Resource

CILIUM_NETWORK_POLICIES = Resource("cilium.io", "v2", "ciliumnetworkpolicies", "CiliumNetworkPolicy")
POD_NAMESPACE = "io.kubernetes.pod.namespace"  # the label by which a peer selector names a namespace
