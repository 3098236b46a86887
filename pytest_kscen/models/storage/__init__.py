"""A replicated storage where no real one is installed: its definitions, its pods, and what runs in
them.

Its pods know the API, their node's kernel and each other's objects; nothing of a cluster's kind may
enter."""

from pytest_kscen.models.storage.installation import attach, install, is_installed

__all__ = ["attach", "install", "is_installed"]
