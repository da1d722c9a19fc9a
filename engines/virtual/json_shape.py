"""Whether a JSON body has the types the Engine API gives its fields. Pure.

As in dockerd, unknown fields are let be, and null is a field that is not there; in a list it
is refused.
"""

from __future__ import annotations

from typing import Any

from engines.virtual.messages import ApiError

Shape = type | list[Any] | dict[str, Any]
"""A type, ``[shape]`` for a list of it, ``{"*": shape}`` for a map, or the fields of an object."""

MAP = "*"

_TEXTS: Shape = [str]
_LABELS: Shape = {MAP: str}

CONTAINER: Shape = {
    "Image": str,
    "Cmd": _TEXTS,
    "Entrypoint": _TEXTS,
    "Env": _TEXTS,
    "Labels": _LABELS,
    "Tty": bool,
    "StopSignal": str,
    "Volumes": {MAP: dict},
    "Healthcheck": {"Test": _TEXTS, "Interval": int, "Timeout": int, "StartPeriod": int, "Retries": int},
    "HostConfig": {
        "Memory": int,
        "NanoCpus": int,
        "Runtime": str,
        "AutoRemove": bool,
        "NetworkMode": str,
        "RestartPolicy": {"Name": str, "MaximumRetryCount": int},
        "Binds": _TEXTS,
        "Mounts": [{"Type": str, "Source": str, "Target": str, "ReadOnly": bool}],
        "PortBindings": {MAP: [{"HostIp": str, "HostPort": str}]},
        "DeviceRequests": [{"Driver": str, "Count": int, "DeviceIDs": _TEXTS, "Capabilities": [_TEXTS]}],
    },
}
EXEC_CREATE: Shape = {"Cmd": _TEXTS, "Env": _TEXTS, "Tty": bool, "AttachStdout": bool, "AttachStderr": bool}
EXEC_START: Shape = {"Detach": bool, "Tty": bool}
VOLUME: Shape = {"Name": str, "Labels": _LABELS}

_GO_NAMES = {str: "string", int: "int64", bool: "bool", dict: "object"}


def check_shape(value: Any, shape: Shape, where: str = "") -> None:
    """Raises ApiError (400) for the first value of a wrong type, naming its place."""
    if value is None:
        return
    if isinstance(shape, list):
        # Commands may be one text instead of a list.
        if where in (".Cmd", ".Entrypoint") and isinstance(value, str):
            return
        _expect(value, list, where)
        for each in value:
            if each is None:
                raise ApiError(400, f"invalid JSON: null in the list {where or 'body'}")
            check_shape(each, shape[0], where)
    elif isinstance(shape, dict):
        _expect(value, dict, where)
        for key, each in value.items():
            inner = shape.get(MAP) or shape.get(key)
            if inner is not None:
                check_shape(each, inner, f"{where}.{key}")
    else:
        _expect(value, shape, where)


def _expect(value: Any, kind: type, where: str) -> None:
    # In Python a bool is an int, in JSON it is not.
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        words = f"json: cannot unmarshal {type(value).__name__} into Go struct field {where or 'body'}"
        raise ApiError(400, f"invalid JSON: {words} of type {_GO_NAMES.get(kind, 'array')}")
