"""Faults: profiles that draw incidents, incidents as data, and what turns one into API calls and
back.

Only the API, the clock and chance may enter here.
"""

from __future__ import annotations
