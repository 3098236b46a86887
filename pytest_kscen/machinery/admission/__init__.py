"""The gatekeepers between a decoded object and the store. Only what judges or completes a write may enter here."""

from pytest_kscen.machinery.admission.chain import Admission
from pytest_kscen.machinery.admission.hooks import Hook
from pytest_kscen.machinery.admission.review import Gate, Review

__all__ = ["Admission", "Gate", "Hook", "Review"]
