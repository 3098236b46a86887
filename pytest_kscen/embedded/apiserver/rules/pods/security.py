"""Validators of security contexts of pods and containers, and of the fields that Linux or Windows
pods must not have.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pytest_kscen.embedded.apiserver.rules.checks import (
    GO_PROFILE,
    MAX_INT32,
    Causes,
    as_go_struct,
    validate_enum,
    validate_name,
    validate_range,
)
from pytest_kscen.embedded.apiserver.rules.volume_sources import validate_relative_path
from pytest_kscen.objects import names
from pytest_kscen.objects.errors import Cause

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_kscen.objects.resources import Obj

PROFILE_TYPES = ("Localhost", "RuntimeDefault", "Unconfined")
MAX_SYSCTL_LENGTH = 253
MAX_APP_ARMOR_LENGTH = 4095
_SYSCTL_WORD = "[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_SYSCTL = rf"^({_SYSCTL_WORD}[\./])*{_SYSCTL_WORD}$"
_IS_SYSCTL = re.compile(_SYSCTL).fullmatch
_NETWORK_SYSCTLS = ("net.",)
_IPC_SYSCTLS = ("kernel.shm", "kernel.msg", "kernel.sem", "fs.mqueue.")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_NETBIOS = re.compile(r'[^\\/:*?"<>|.][^\\/:*?"<>|]{0,14}')
_DNS = re.compile(
    r"[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"
    r"(?:\.[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?)*"
)
_USER_CHARACTERS = re.compile(r'["/\\:;|=,+*?<>@\[\]]')
_NOT_ON_WINDOWS = "cannot be set for a windows pod"
_NOT_ON_LINUX = "windows options cannot be set for a linux pod"
LINUX_POD_FIELDS = {
    "appArmorProfile": "securityContext.appArmorProfile",
    "seLinuxOptions": "securityContext.seLinuxOptions",
    "hostUsers": "hostUsers",
    "hostPID": "hostPID",
    "hostIPC": "hostIPC",
    "seccompProfile": "securityContext.seccompProfile",
    "fsGroup": "securityContext.fsGroup",
    "fsGroupChangePolicy": "securityContext.fsGroupChangePolicy",
    "sysctls": "securityContext.sysctls",
    "shareProcessNamespace": "shareProcessNamespace",
    "runAsUser": "securityContext.runAsUser",
    "runAsGroup": "securityContext.runAsGroup",
    "supplementalGroups": "securityContext.supplementalGroups",
    "supplementalGroupsPolicy": "securityContext.supplementalGroupsPolicy",
    "seLinuxChangePolicy": "securityContext.seLinuxChangePolicy",
}
LINUX_CONTAINER_FIELDS = (
    *(
        "appArmorProfile",
        "seLinuxOptions",
        "seccompProfile",
        "capabilities",
        "readOnlyRootFilesystem",
        "privileged",
    ),
    *("allowPrivilegeEscalation", "procMount", "runAsUser", "runAsGroup"),
)


def validate_pod_security_context(path: str, spec: Obj) -> Causes:
    given, here = spec.get("securityContext") or {}, f"{path}.securityContext"
    if given:
        for field in ("fsGroup", "runAsUser", "runAsGroup"):
            yield from validate_range(f"{here}.{field}", given.get(field), 0, MAX_INT32)
        for index, group in enumerate(given.get("supplementalGroups") or ()):
            yield from validate_range(f"{here}.supplementalGroups[{index}]", group, 0, MAX_INT32)
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        detail = "ShareProcessNamespace and HostPID cannot both be enabled"
        yield Cause.invalid(f"{here}.shareProcessNamespace", True, detail)
    if given:
        yield from _validate_sysctls(f"{here}.sysctls", given.get("sysctls") or (), spec)
        if "fsGroupChangePolicy" in given:
            yield from validate_enum(
                f"{here}.fsGroupChangePolicy",
                given["fsGroupChangePolicy"],
                ("Always", "OnRootMismatch"),
            )
        yield from _validate_profiles(here, given)
        if "supplementalGroupsPolicy" in given:
            yield from validate_enum(
                f"{here}.supplementalGroupsPolicy",
                given["supplementalGroupsPolicy"],
                ("Merge", "Strict"),
            )
        if "seLinuxChangePolicy" in given:
            yield from validate_enum(
                f"{here}.seLinuxChangePolicy", given["seLinuxChangePolicy"], ("Recursive",)
            )


def _validate_sysctls(path: str, given: Sequence[Obj], spec: Obj) -> Causes:
    seen: set[str] = set()
    for index, one in enumerate(given):
        here, name = f"{path}[{index}].name", one.get("name", "")
        if not name:
            yield Cause.required(here)
        elif len(name) > MAX_SYSCTL_LENGTH or not _IS_SYSCTL(name):
            yield Cause.invalid(
                here,
                name,
                f"must have at most {MAX_SYSCTL_LENGTH} characters and match regex {_SYSCTL}",
            )
        elif name in seen:
            yield Cause.duplicate(here, name)
        plain = name.replace("/", ".")
        if spec.get("hostNetwork") and plain.startswith(_NETWORK_SYSCTLS):
            yield Cause.invalid(here, name, "may not be specified when 'hostNetwork' is true")
        elif spec.get("hostIPC") and plain.startswith(_IPC_SYSCTLS):
            yield Cause.invalid(here, name, "may not be specified when 'hostIPC' is true")
        seen.add(name)


def _validate_profiles(path: str, given: Obj) -> Causes:
    if "seccompProfile" in given:
        yield from _validate_seccomp_profile(f"{path}.seccompProfile", given["seccompProfile"])
    if "windowsOptions" in given:
        inner_path = f"{path}.windowsOptions"
        windows_options = given["windowsOptions"]
        if "gmsaCredentialSpecName" in windows_options:
            yield from validate_name(
                f"{inner_path}.gmsaCredentialSpecName",
                windows_options["gmsaCredentialSpecName"],
                names.dns1123_subdomain,
            )
        if "gmsaCredentialSpec" in windows_options:
            size, here = (
                len(windows_options["gmsaCredentialSpec"]),
                f"{inner_path}.gmsaCredentialSpec",
            )
            if not size:
                yield Cause.invalid(here, "", "gmsaCredentialSpec cannot be an empty string")
            elif size > 64 * 1024:
                yield Cause.invalid(
                    here,
                    windows_options["gmsaCredentialSpec"],
                    "gmsaCredentialSpec size must be under 64 KiB",
                )
        if "runAsUserName" in windows_options:
            for message in _windows_user_errors(windows_options["runAsUserName"]):
                yield Cause.invalid(
                    f"{inner_path}.runAsUserName",
                    windows_options["runAsUserName"],
                    f"runAsUserName{message}",
                )
    if "appArmorProfile" in given:
        yield from validate_app_armor_profile(f"{path}.appArmorProfile", given["appArmorProfile"])


def validate_container_security_context(path: str, given: Obj, *, host_users: bool) -> Causes:
    for field in ("runAsUser", "runAsGroup"):
        yield from validate_range(f"{path}.{field}", given.get(field), 0, MAX_INT32)
    if "procMount" in given:
        yield from validate_enum(f"{path}.procMount", given["procMount"], ("Default", "Unmasked"))
        if host_users and given["procMount"] == "Unmasked":
            yield Cause.invalid(
                f"{path}.procMount", "Unmasked", "`hostUsers` must be false to use `Unmasked`"
            )
    if "seccompProfile" in given:
        yield from _validate_seccomp_profile(f"{path}.seccompProfile", given["seccompProfile"])
    if given.get("allowPrivilegeEscalation") is False:
        if given.get("privileged"):
            detail = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
            yield Cause.invalid(path, given, detail)
        if "CAP_SYS_ADMIN" in (given.get("capabilities", {}).get("add") or ()):
            detail = (
                "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` "
                "CAP_SYS_ADMIN"
            )
            yield Cause.invalid(path, given, detail)
    yield from _validate_profiles(
        path, {name: value for name, value in given.items() if name != "seccompProfile"}
    )


def _validate_seccomp_profile(path: str, given: Obj) -> Causes:
    kind = given.get("type", "")
    if not kind:
        yield Cause.required(f"{path}.type", "type is required when seccompProfile is set")
    else:
        yield from validate_enum(f"{path}.type", kind, PROFILE_TYPES)
    if kind != "Localhost":
        if "localhostProfile" in given:
            detail = "can only be set when seccomp type is Localhost"
            yield Cause.invalid(f"{path}.localhostProfile", as_go_struct(GO_PROFILE, given), detail)
    elif "localhostProfile" in given:
        yield from validate_relative_path(f"{path}.localhostProfile", given["localhostProfile"])
    else:
        yield Cause.required(
            f"{path}.localhostProfile", "must be set when seccomp type is Localhost"
        )


def validate_app_armor_profile(path: str, given: Obj) -> Causes:
    kind, profile = given.get("type", ""), given.get("localhostProfile")
    if kind == "Localhost":
        if profile is None or not profile:
            yield Cause.required(
                f"{path}.localhostProfile", "must be set when AppArmor type is Localhost"
            )
        elif profile.strip() != profile:
            yield Cause.invalid(
                f"{path}.localhostProfile", profile, "must not be padded with whitespace"
            )
        if profile and len(profile) > MAX_APP_ARMOR_LENGTH:
            yield Cause.too_long(f"{path}.localhostProfile", MAX_APP_ARMOR_LENGTH)
    elif not kind:
        yield Cause.required(f"{path}.type", "type is required when appArmorProfile is set")
    else:
        yield from validate_enum(f"{path}.type", kind, PROFILE_TYPES)
        if kind in PROFILE_TYPES and profile is not None:
            yield Cause.invalid(
                f"{path}.localhostProfile",
                profile,
                "can only be set when AppArmor type is Localhost",
            )


def _windows_user_errors(name: str) -> Iterator[str]:
    *before, user = name.split("\\")
    if not name:
        yield " cannot be an empty string"
    elif _CONTROL.search(name):
        yield " cannot contain control characters"
    elif len(before) > 1:
        yield " cannot contain more than one backslash"
    else:
        domain = before[0] if before else ""
        tests = (
            (len(domain) >= 256, "'s Domain length must be under 256 characters"),  # noqa: PLR2004
            (before and not (_NETBIOS.fullmatch(domain) or _DNS.fullmatch(domain)), _BAD_DOMAIN),
            (not user, "'s User cannot be empty"),
            (
                len(user) > 104,  # noqa: PLR2004
                "'s User length must not be longer than 104 characters",
            ),
            (user and not user.strip(". "), "'s User cannot contain only periods or spaces"),
            (
                _USER_CHARACTERS.search(user),
                "'s User cannot contain the following characters: \"/\\:;|=,+*?<>@[]",
            ),
        )
        yield from (message for wrong, message in tests if wrong)


_BAD_DOMAIN = "'s Domain doesn't match the NetBios nor the DNS format"


def visit_containers(spec: Obj) -> Iterator[tuple[str, Obj]]:
    """Yield all containers with their paths below the spec, in the order in which Kubernetes visits
    them.
    """
    for kind in ("initContainers", "containers", "ephemeralContainers"):
        for index, container in enumerate(spec.get(kind) or ()):
            yield f"{kind}[{index}]", container


def validate_host_users(path: str, spec: Obj) -> Causes:
    """Yield the causes for host namespaces and block devices in a pod that has its own user
    namespace.
    """
    if spec.get("hostUsers") is False:
        for field, shown in (
            ("hostNetwork", "hostNetwork"),
            ("hostPID", "HostPID"),
            ("hostIPC", "HostIPC"),
        ):
            if spec.get(field):
                yield Cause.forbidden(f"{path}.{shown}", "when `hostUsers` is false")
        for where, container in visit_containers(spec):
            if container.get("volumeDevices"):
                yield Cause.forbidden(f"{path}.{where}.volumeDevices", "when `hostUsers` is false")


def validate_host_process(path: str, spec: Obj) -> Causes:
    """Yield the causes for Windows host processes: all containers of a pod are host processes or
    none is.
    """
    whole = spec.get("securityContext", {}).get("windowsOptions", {}).get("hostProcess")
    visited = list(visit_containers(spec))
    own = [
        container.get("securityContext", {}).get("windowsOptions", {}).get("hostProcess")
        for _, container in visited
    ]
    for (where, _), one in zip(visited, own, strict=True):
        if None not in {whole, one} and whole != one:
            detail = (
                "pod hostProcess value must be identical if both are specified, was "
                f"{str(whole).lower()}"
            )
            yield Cause.invalid(
                f"{path}.{where}.securityContext.windowsOptions.hostProcess", one, detail
            )
    count = sum(bool(whole if one is None else one) for one in own)
    if count and count != len(own):
        detail = (
            "If pod contains any hostProcess containers then all containers must be "
            "HostProcess containers"
        )
        yield Cause.invalid(path, "", detail)
    if count and not spec.get("hostNetwork"):
        detail = "hostNetwork must be true if pod contains any hostProcess containers"
        yield Cause.invalid(f"{path}.hostNetwork", False, detail)


def validate_operating_system(path: str, spec: Obj) -> Causes:
    system = spec["os"].get("name", "")
    if not system:
        yield Cause.required(f"{path}.os.name")
    elif system == "windows":
        given = spec.get("securityContext") or {}
        yield from (
            Cause.forbidden(f"{path}.{shown}", _NOT_ON_WINDOWS)
            for field, shown in LINUX_POD_FIELDS.items()
            if field in given or (shown == field and field in spec)
        )
        yield from (
            Cause.forbidden(f"{path}.{where}.securityContext.{field}", _NOT_ON_WINDOWS)
            for where, container in visit_containers(spec)
            for field in LINUX_CONTAINER_FIELDS
            if field in container.get("securityContext", {})
        )
    elif system == "linux":
        if "windowsOptions" in (spec.get("securityContext") or {}):
            yield Cause.forbidden(f"{path}.securityContext.windowsOptions", _NOT_ON_LINUX)
        for where, container in visit_containers(spec):
            if "windowsOptions" in container.get("securityContext", {}):
                yield Cause.forbidden(
                    f"{path}.{where}.securityContext.windowsOptions", _NOT_ON_LINUX
                )
    else:
        yield Cause.unsupported(f"{path}.os", system, ("linux", "windows"))
