"""Texts of LimitRange violations name the amount that Kubernetes checks first."""

from __future__ import annotations

from pytest_kscen.embedded.apiserver.admission.limit_ranges import _violations

LIMIT = {"type": "Container", "min": {"cpu": "2"}, "max": {"cpu": "3"}}


def test_minimum_requires_a_request_and_maximum_a_limit():
    assert _violations(LIMIT, {}, {}) == [
        "minimum cpu usage per Container is 2.  No request is specified",
        "maximum cpu usage per Container is 3.  No limit is specified",
    ]


def test_first_amount_out_of_bounds_is_named():
    low, high = {"cpu": "1"}, {"cpu": "4"}
    assert _violations(LIMIT, low, low)[0].endswith("is 2, but request is 1")
    assert _violations(LIMIT, high, high)[0].endswith("is 3, but limit is 4")
