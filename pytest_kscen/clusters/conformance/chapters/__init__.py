"""Chapters of the conformance kit: one module of cases for each part of the API's contract.

A chapter contains only cases and their helpers. Importing it registers its cases.
"""

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

CHAPTERS = (
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
"""Chapters whose cases `load` returns."""


def load() -> list[Case]:
    return CASES
