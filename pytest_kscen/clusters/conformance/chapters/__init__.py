"""Chapters of the conformance kit: one module of cases for each part of the API's contract.

A chapter contains only cases and their helpers. Importing it registers its cases.
"""

# ruff: noqa: F401  # importing a chapter registers its cases

from pytest_kscen.clusters.conformance.case import CASES, Case
from pytest_kscen.clusters.conformance.chapters import (
    applying,
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


def load() -> list[Case]:
    """Return the cases of all chapters, in the order of the imports above."""
    return CASES
