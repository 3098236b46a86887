"""List the objects of a kind in a cluster."""

from __future__ import annotations


def objects(cluster, resource, api=None):
    return cluster.runner.call((api or cluster.api("test")).list(resource)).items
