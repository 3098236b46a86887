"""The chapters of the kit, one for each part of the API's contract.

A chapter holds cases and nothing else.
"""

from pytest_kscen.clusters.conformance.case import CASES, Case
from pytest_kscen.clusters.conformance.chapters import (
    content,
    corners,
    definitions,
    deleting,
    patching,
    pods,
    reading,
    workloads,
    writing,
)

CHAPTERS = (content, corners, definitions, deleting, patching, pods, reading, workloads, writing)
"""Importing a chapter registers its cases."""


def load() -> list[Case]:
    """Every chapter's cases."""
    return CASES
