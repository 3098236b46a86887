"""A CronJob's time zone: what is wrong with it."""

from __future__ import annotations

import re

from pytest_kscen.objects.cron import unknown_zone

_ZONE_PART = re.compile(r"[A-Za-z.\-_0-9+]{1,14}")


def zone_faults(zone: str) -> list[str]:
    """In Kubernetes' words."""
    if not zone:
        return ["timeZone must be nil or non-empty string"]
    faults = [f"unknown time zone {zone}" for part in zone.split("/") if not _is_zone_part(part)]
    if zone.lower() == "local":
        faults.append("timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones")
    unknown = unknown_zone(zone)
    return [*faults, unknown] if unknown else faults


def _is_zone_part(part: str) -> bool:
    return part not in {".", ".."} and not part.startswith("-") and _ZONE_PART.fullmatch(part) is not None
