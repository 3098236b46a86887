"""Measure what the plugin adds to pytest's start in a project that does not use it."""

from __future__ import annotations

import pathlib
import statistics
import subprocess
import sys
import tempfile

from measuring import Row, Stopwatch, report

GOAL_SECONDS = 0.030
ROUNDS = 15


def started(folder, *arguments) -> float:
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:kmock",
        *arguments,
        "test_nothing.py",
    ]
    with Stopwatch() as watch:
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return watch.seconds


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "test_nothing.py").write_text("def test_nothing(): pass\n")
        started(folder)
        pairs = [(started(folder), started(folder, "-p", "no:kscen")) for _ in range(ROUNDS)]
    ours, without = (statistics.median(times) for times in zip(*pairs, strict=True))
    cost = statistics.median(mine - theirs for mine, theirs in pairs)
    report(
        "pytest's start",
        [
            Row(
                "what the plugin adds",
                f"{ours * 1000:.0f} ms",
                f"{without * 1000:.0f} ms without",
                cost / GOAL_SECONDS,
                1,
                less_is_better=True,
            )
        ],
    )
