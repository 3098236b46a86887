"""Why a cluster is not handed out, in words for whoever asked for it."""

from __future__ import annotations


class ClusterRefused(Exception):
    """There is no such cluster now. The message says what was asked for, what stands in the way, and what to do."""
