"""pytester puts the loaded modules back after each inner run; what is loaded before the first
stays one for all tests.
"""

from __future__ import annotations

import contextlib

import kubernetes.client
import numpy

import pytest_kscen.clusters.embedded
import pytest_kscen.run.runner

with contextlib.suppress(
    ModuleNotFoundError
):  # pytest reads this for `-m megatest` too, which needs no hypothesis
    import hypothesis.internal.observability

    # How long an example takes is the machine's affair: no test is judged by it.
    slow = hypothesis.HealthCheck.too_slow
    hypothesis.settings.register_profile(
        "unhurried", hypothesis.settings(), deadline=None, suppress_health_check=[slow]
    )
    hypothesis.settings.load_profile("unhurried")

__all__ = ["hypothesis", "kubernetes", "numpy", "pytest_kscen"]
