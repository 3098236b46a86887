"""What a cluster has of a kind."""

from __future__ import annotations


def objects(cluster, resource, api=None):
    return cluster.runner.call((api or cluster.api("test")).list(resource)).items
