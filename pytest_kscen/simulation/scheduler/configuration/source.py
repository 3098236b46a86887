"""Where a scheduler's configuration comes from while it runs: the ConfigMap `kube-scheduler` in `kube-system`.

None means the default configuration. One that is wrong is refused, with a warning; the last good one stays.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from pytest_kscen.kube.informer import Ref
from pytest_kscen.objects.resources import CONFIG_MAPS

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.simulation.bench import Bench
    from pytest_kscen.simulation.scheduler.configuration.model import Configuration
    from pytest_kscen.simulation.scheduler.framework.registry import Registry

WHERE = Ref("kube-system", "kube-scheduler")
KEY = "config.yaml"
logger = logging.getLogger(__name__)


class Source:
    """Reads the ConfigMap whenever it changes, and hands on what it says; `default` is what holds without one."""

    def __init__(self, bench: Bench, registry: Registry, default: Configuration, apply: Callable[[Configuration], None]) -> None:
        self._bench = bench
        self._registry = registry
        self._default = default
        self._apply = apply
        self._maps = bench.informers.of(CONFIG_MAPS)
        self._maps.on_change(self._changed)

    async def synced(self) -> None:
        await self._maps.synced()

    def _changed(self, new: Obj | None, old: Obj | None) -> None:
        one = new or old
        if one is None or Ref.of(one) != WHERE or (new and old and new.get("data") == old.get("data")):
            return
        if new is None:
            self._apply(self._default)
            return
        from pytest_kscen.simulation.scheduler.configuration.reading import read  # few clusters have one

        try:
            text = (new.get("data") or {}).get(KEY)
            if text is None:
                raise ValueError(f"it has no {KEY}")  # noqa: TRY301  # one place says what is wrong
            self._apply(read(text, self._registry))
        except ValueError as error:
            words = f"the configuration is refused, the last good one stays: {error}"
            self._bench.recorder.warning(new, "InvalidConfiguration", words)
            logger.warning("%s/%s: %s", WHERE.namespace, WHERE.name, words)
