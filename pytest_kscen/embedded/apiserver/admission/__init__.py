"""The gatekeepers between a decoded object and the store.

Only what judges or completes a write may enter here.
"""

from pytest_kscen.embedded.apiserver.admission.chain import Admission, Gate, Hook, Review

__all__ = ["Admission", "Gate", "Hook", "Review"]
