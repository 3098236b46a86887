"""What a real Kubernetes API server serves, recorded as data. Only the recording and its reading may enter here."""

from pytest_kscen.machinery.recorded.builtin import builtin_kinds
from pytest_kscen.machinery.recorded.reading import definition, definition_of, resources, version

__all__ = ["builtin_kinds", "definition", "definition_of", "resources", "version"]
