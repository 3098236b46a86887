"""The storage's controller: one look at a volume, one decision, as few writes as it takes. Kernels may not enter here."""

from pytest_kscen.simulation.storage.controller.leader import Leader

__all__ = ["Leader"]
