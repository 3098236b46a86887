"""How a refusal shows what was changed: both states as JSON, line against line."""

from __future__ import annotations

import difflib
import itertools
import json
from typing import Any


def difference(old: Any, new: Any) -> str:
    before, after = (json.dumps(state, indent=1).splitlines(keepends=True) for state in (old, new))
    lines = difflib.unified_diff(before, after, n=3)
    return "".join(itertools.islice(lines, 2, None))  # the first two would name files
