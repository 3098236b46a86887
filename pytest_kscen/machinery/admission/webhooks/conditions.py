"""matchConditions: CEL on the object, the old object and the request, asked before a webhook is."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from pytest_kscen.machinery.admission.webhooks.telling import admission_request

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kscen.cel import Program
    from pytest_kscen.machinery.admission.review import Review
    from pytest_kscen.machinery.kinds import Kind
    from pytest_kscen.objects.resources import Obj

VARIABLES = ("object", "oldObject", "request")


class Conditions:
    """All of one webhook's. One that is false decides; one that fails does only if none is."""

    def __init__(self, listed: Sequence[Obj], *, fails_open: bool) -> None:
        self._expressions = [str(each["expression"]) for each in listed]
        self._fails_open = fails_open

    def hold(self, review: Review, kind: Kind) -> bool:
        if not self._expressions:
            return True
        request = admission_request(review, kind, "")
        variables = {"object": request.pop("object"), "oldObject": request.pop("oldObject"), "request": request}
        wrong = []
        for expression in self._expressions:
            try:
                if _compiled(expression).value(variables) is not True:
                    return False
            except ValueError as error:
                wrong.append(f"expression '{expression}' resulted in error: {error}")
        if wrong and not self._fails_open:
            raise review.forbidden(wrong[0] if len(wrong) == 1 else f"[{', '.join(wrong)}]")
        return not wrong


@lru_cache(maxsize=256)
def _compiled(expression: str) -> Program:
    from pytest_kscen.cel import compile_expression
    from pytest_kscen.cel.types import DYN

    return compile_expression(expression, dict.fromkeys(VARIABLES, DYN))
