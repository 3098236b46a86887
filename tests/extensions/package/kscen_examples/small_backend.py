"""Cluster backend: embedded clusters of one node."""

from __future__ import annotations

from pytest_kscen.clusters import BACKENDS, Backend, ClusterRequest


class Small(Backend):
    name = "small"
    recreated = True

    @classmethod
    def open(cls, request):
        return BACKENDS["embedded"].open(ClusterRequest(request.seed, nodes=1))
