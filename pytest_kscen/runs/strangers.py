"""Volumes that other runs have on somebody's cluster: they take room and time, and only people can tell whether they are needed."""

from __future__ import annotations

import warnings
from collections import Counter
from typing import TYPE_CHECKING

from pytest_kscen.kube.actor import RUN_LABEL
from pytest_kscen.objects.errors import ApiError
from pytest_kscen.objects.storage import REPLICATED_VOLUME_ATTACHMENTS, REPLICATED_VOLUMES

if TYPE_CHECKING:
    from pytest_kscen.kube.actor import Stage

THERE = (
    "{count} volumes of other runs are on the tested cluster, and take room and time from this one's; "
    "if these runs are over: kubectl delete {kinds} -l '{label} in ({runs})'"
)
KINDS = f"{REPLICATED_VOLUME_ATTACHMENTS.plural},{REPLICATED_VOLUMES.plural}"


class StrangersWarning(UserWarning):
    """What is on the cluster beside this run's may change what comes of it."""


async def warn_of_strangers(stage: Stage) -> None:
    """Whoever may not see them has been told so if the run needs it."""
    try:
        found = (await stage.actor("run").api.list(REPLICATED_VOLUMES, labels=RUN_LABEL)).items
    except ApiError:
        return
    runs = Counter(one["metadata"]["labels"][RUN_LABEL] for one in found)
    if runs:
        said = THERE.format(count=len(found), kinds=KINDS, label=RUN_LABEL, runs=", ".join(runs))
        warnings.warn(said, StrangersWarning, stacklevel=1)
