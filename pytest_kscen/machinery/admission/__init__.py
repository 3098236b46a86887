"""The gatekeepers between a decoded object and the store. Only what judges or completes a write may enter here."""

from pytest_kscen.machinery.admission.chain import Admission, Gatekeeper, Review

__all__ = ["Admission", "Gatekeeper", "Review"]
