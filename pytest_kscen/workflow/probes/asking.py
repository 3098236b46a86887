"""One question: whatever comes of it, a mistake of ours or of who answers included, is an outcome, and stops nobody else."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pytest_kscen.objects.errors import ApiError
from pytest_kscen.workflow.probes.verdicts import Outcome

if TYPE_CHECKING:
    from pytest_kscen.workflow.probes.forms import Errand, Form


async def outcome_of(form: Form, errand: Errand, within: float) -> Outcome:
    """What has no answer within these seconds has failed."""
    try:
        async with asyncio.timeout(within):
            return await form.ask(errand, within)
    except TimeoutError as error:
        return Outcome(False, str(error) or f"there was no answer within {within:g} s")
    except (ApiError, OSError, ValueError) as error:
        return Outcome(False, str(error))
    except Exception as error:  # noqa: BLE001  # whatever stands in an answer
        return Outcome(False, f"it cannot be judged: {error!r}")
