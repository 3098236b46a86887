"""The settings of a test run: one table, each row a flag, an environment variable and an ini key; read once, refused early.

What a marker or an argument says wins, then the flag, the environment, the ini file and the default. Nothing but pytest
may be imported here when pytest starts.
"""

from __future__ import annotations

from pytest_kscen.options.general import BACKENDS
from pytest_kscen.options.reading import Given, misspelt
from pytest_kscen.options.settings import OPTIONS, SEED_FOR_WORKERS, SETTINGS, Settings, register, settle, with_seed_drawn

__all__ = [
    "BACKENDS",
    "OPTIONS",
    "SEED_FOR_WORKERS",
    "SETTINGS",
    "Given",
    "Settings",
    "misspelt",
    "register",
    "settle",
    "with_seed_drawn",
]
