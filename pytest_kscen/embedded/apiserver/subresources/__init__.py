"""Parts of objects with an address of their own.

What reads or writes the whole object is a verb and may not enter here.
"""

from pytest_kscen.embedded.apiserver.subresources.routing import handler_of, unstored

__all__ = ["handler_of", "unstored"]
