"""The same seed gives the same bytes, in this process and in others whose strings hash
otherwise.
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

DIGEST = pathlib.Path(__file__).with_name("digest.py")
PLAYED = (
    "attach, blocking-drbd, blocking-everything, create a replica, delete a replica, "
    "detach, latency, losses, pod-destroy, "
    "resize the volume, split-brain, vm-reboot"
)


def played(hash_seed, seed="7"):
    done = subprocess.run(
        [sys.executable, str(DIGEST), seed],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def first():
    return played("0")


@pytest.mark.parametrize("hash_seed", ["0", "4711"])
def test_same_seed_gives_the_same_bytes(first, hash_seed):
    assert played(hash_seed) == first


def test_run_covers_all_record_kinds(first):
    assert first.rstrip().partition(": ")[2] == PLAYED


def test_another_seed_gives_other_bytes(first):
    assert played("0", "8") != first
