"""The settings that every run has: where clusters come from, the seed, the length, what is kept."""

from __future__ import annotations

from pytest_kscen.options import values
from pytest_kscen.options.option import Option

BACKENDS = ("embedded", "controlplane", "kind", "kubeconfig")
RANDOM = "random"


def _backend(text: str) -> str:
    if text not in BACKENDS:
        raise ValueError(f"{text!r} is no kind of cluster: choose one of {', '.join(BACKENDS)}")
    return text


def _seed(text: str) -> str:
    if text != RANDOM and not text.isdecimal():
        raise ValueError(f"{text!r} is no seed: give a whole number, or 'random' to have one drawn and printed")
    return text


KUBECONFIG = Option("--kubeconfig", values.existing_file, "FILE", "the kubeconfig of a real cluster to test on")
DURATION = Option(
    "--kscen-duration",
    values.duration,
    "TIME",
    "how long a run lasts in cluster time, as in 90s or 1h30m, where the test leaves it open "
    "(default: an hour on embedded, until Ctrl-C elsewhere)",
)

GENERAL = (
    Option(
        "--kscen-cluster",
        _backend,
        "|".join(BACKENDS),
        "where clusters come from (default: embedded, or kubeconfig with --kubeconfig)",
    ),
    KUBECONFIG,
    Option("--kscen-context", values.context, "NAME", "the kubeconfig's context (default: its current one)"),
    Option("--kscen-seed", _seed, "N|random", "the seed of every test (default: each test's own, from its id)"),
    DURATION,
    Option(
        "--kscen-archive",
        values.folder,
        "DIR",
        "keep each run there: a folder with its journal, its outcome, its seed and its options",
    ),
)
