"""Refusal of invalid arguments of faults by hand, before any request."""

from __future__ import annotations

import re

import pytest

from pytest_kscen.chaos import manual_faults
from pytest_kscen.chaos.network_blocks import NetworkCut


@pytest.mark.parametrize(
    ("mistake", "words"),
    [
        (
            lambda: manual_faults.network_block("a", "b", ports=70000),
            "ports=70000: give a list, as in [70000]",
        ),
        (
            lambda: manual_faults.network_block("a", "b", ports="70"),
            "ports='70': give a list, as in ['70']",
        ),
        (
            lambda: manual_faults.network_block("a", "b", ports=[70000]),
            "ports=(70000,): give 1 to 40 numbers from 1 to 65535",
        ),
        (lambda: manual_faults.network_block("a", ["b"]), "b=['b']: give a name, as text"),
        (
            lambda: manual_faults.drbd_block("a", "b", object),
            "volume=<class 'object'>: give a name, as text",
        ),
        (lambda: manual_faults.split_brain("a", ["b"]), "group_a='a': give a list, as in ['a']"),
        (
            lambda: manual_faults.split_brain(["a"], []),
            "group_b=[]: give the names of one machine or more",
        ),
        (
            lambda: manual_faults.split_brain([3], ["b"]),
            "group_a=[3]: give the names of one machine or more",
        ),
        *[
            (mistake, "'a' is named twice: name each machine once")
            for mistake in (
                lambda: manual_faults.network_block("a", "a"),
                lambda: manual_faults.drbd_block("a", "a", "v"),
                lambda: manual_faults.split_brain(["a"], ["b", "a"]),
                lambda: manual_faults.split_brain(["b"], ["a", "a"]),
                lambda: manual_faults.losses("a", "a", 0.5),
                lambda: manual_faults.latency("a", "a"),
            )
        ],
        (lambda: manual_faults.losses("a", None, 0.5), "b=None: give a name, as text"),
        (lambda: manual_faults.vm_reboot(1), "vm=1: give a name, as text"),
        (lambda: manual_faults.vm_stop(""), "vm='': give a name, as text"),
        (
            lambda: manual_faults.pod_destroy("app=agent", 0),
            "count=0: give a whole number, 1 or more",
        ),
        (
            lambda: manual_faults.pod_destroy("app=agent", True),
            "count=True: give a whole number, 1 or more",
        ),
        (lambda: manual_faults.pod_destroy(3), "label=3: write it as in app=agent"),
        (lambda: manual_faults.pod_destroy(""), "label='': write it as in app=agent"),
    ],
)
def test_invalid_arguments_are_refused(mistake, words):
    with pytest.raises(ValueError, match=f"^{re.escape(words)}$"):
        mistake()


def test_groups_may_be_any_iterable():
    assert manual_faults.split_brain({"a": 1}, (name for name in "bc")) == NetworkCut(
        "split-brain", ("a",), ("b", "c")
    )
