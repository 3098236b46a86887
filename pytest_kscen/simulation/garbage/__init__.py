"""The garbage collector: objects whose owners are gone go too. It knows owner references and finalizers, and no kind by name."""

from pytest_kscen.simulation.garbage.collector import GarbageCollector

__all__ = ["GarbageCollector"]
