"""What is wrong with an object, and where."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_kscen.objects.documents import Path

ERROR, WARNING = "error", "warning"


@dataclass(frozen=True, slots=True)
class Fault:
    """An error can only hang or fail; a warning is merely odd."""

    severity: str
    path: Path
    message: str
    template: str = ""
    """The name of the template that it is in; empty outside of templates."""

    @property
    def is_error(self) -> bool:
        return self.severity == ERROR

    @property
    def where(self) -> str:
        """The path as Kubernetes writes it: spec.templates[0].name."""
        return "".join(f"[{step}]" if step.isdigit() else f".{step}" for step in self.path).lstrip(".")

    def __str__(self) -> str:
        about = f"template {self.template!r}: " if self.template else ""
        return f"{self.where}: {about}{self.message}" if self.path else f"{about}{self.message}"


def error(path: Path, message: str) -> Fault:
    return Fault(ERROR, path, message)


def warning(path: Path, message: str) -> Fault:
    return Fault(WARNING, path, message)
