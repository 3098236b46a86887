"""What is asked of a kind cluster: pytest-kind's own options, and the name of the test run that shares it."""

from __future__ import annotations

import os
import pathlib
import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

PREFIX = "kscen-kind-"
UNNAMED = "pytest-kind"  # pytest-kind's default for --cluster-name


@dataclass(frozen=True, slots=True)
class KindWish:
    """A request; the first one of a run decides."""

    run: str = ""
    """The same for all processes of a run: pytest-xdist's testrun_uid; a single process needs none."""
    name: str = ""
    image: str | None = None
    program: str | None = None
    kubectl: str | None = None
    keep: bool = False

    @classmethod
    def of(cls, option: Callable[[str, Any], Any], run: str = "") -> KindWish:
        """As the command line has it; `option` is pytest's getoption, which may not know pytest-kind."""
        name = option("cluster_name", None)
        return cls(
            run,
            "" if name in (None, UNNAMED) else name,
            option("kind_image", None),
            option("kind_bin", None),
            option("kind_kubectl_bin", None),
            keep=bool(option("keep_cluster", False)),
        )

    @property
    def called(self) -> str:
        return self.name or f"kscen-{self._key}"

    @property
    def folder(self) -> pathlib.Path:
        """Where the processes of the run meet."""
        return pathlib.Path(tempfile.gettempdir()) / f"{PREFIX}{self._key}"

    @property
    def _key(self) -> str:
        return self.run[:12] or str(os.getpid())
