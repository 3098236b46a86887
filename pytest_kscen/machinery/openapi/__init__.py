"""OpenAPI documents of what is served, rebuilt from the recording and from definitions. They hold no prose but the users' own."""

from pytest_kscen.machinery.openapi.documents import v2, v3, v3_index

__all__ = ["v2", "v3", "v3_index"]
