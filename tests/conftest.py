"""pytester puts the loaded modules back after each inner run; what is loaded before the first stays one for all tests."""

from __future__ import annotations

import hypothesis.internal.observability
import kubernetes.client

import pytest_kscen.clusters.embedded
import pytest_kscen.runs.runner

__all__ = ["hypothesis", "kubernetes", "pytest_kscen"]
