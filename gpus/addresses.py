"""Which engine addresses an operator may register. Pure.

An address makes this server open a connection, so it is held to a narrow form: no
credentials, no path tricks, no cloud metadata service.
"""

from __future__ import annotations

import ipaddress
import posixpath
import re
from urllib.parse import urlsplit

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address

MAX_LENGTH = 255
METADATA_SERVICES = frozenset(map(ipaddress.ip_address, ("fd00:ec2::254", "100.100.100.200", "168.63.129.16")))
"""Those that are not link-local; compared as addresses, since an IPv6 one has many spellings."""
_HOST = re.compile(r"(?=.{1,253}\Z)[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?\Z")


def check_address(address: str) -> str:
    """The address as it may be stored.

    Raises:
        ValueError: with a sentence that says what is wrong with it.
    """
    if not address or len(address) > MAX_LENGTH:
        raise ValueError(f"An engine address has 1 to {MAX_LENGTH} characters.")
    if re.search(r"[\s\x00-\x1f\x7f\\]", address):
        raise ValueError("An engine address holds no blanks, control characters or backslashes.")
    if address.startswith("unix://"):
        return _socket(address)
    try:
        parts = urlsplit(address)
        port = parts.port
        host = parts.hostname or ""
    except ValueError as error:
        raise ValueError(f"{address} is no address: {error}.") from error
    if parts.scheme not in ("tcp", "https"):
        raise ValueError("Use unix:///path/to/socket, tcp://host:port, or https://host:port with TLS.")
    if parts.username is not None or parts.password is not None:
        raise ValueError("Credentials do not belong in the address: use the node's TLS material.")
    if parts.path not in ("", "/") or parts.query or parts.fragment:
        raise ValueError("An engine address ends after the port.")
    if port is None or not 1 <= port <= 65535:
        raise ValueError("Name the port, 1 to 65535, for example tcp://host:2375.")
    _check_host(host)
    return f"{parts.scheme}://{f'[{host}]' if ':' in host else host}:{port}"


def _socket(address: str) -> str:
    path = address.removeprefix("unix://")
    if not path.startswith("/") or posixpath.normpath(path) != path or path == "/":
        raise ValueError("A socket's path is absolute and plain, for example unix:///var/run/docker.sock.")
    if path.startswith(("/proc/", "/sys/", "/dev/")):
        raise ValueError("A socket does not lie under /proc, /sys or /dev.")
    return address


def _check_host(host: str) -> None:
    try:
        ip = ipaddress.ip_address(host)
    except ValueError:
        # Decimal, octal and hexadecimal spellings of an IPv4 address end in a number or 0x….
        if re.search(r"(^|\.)(\d+|0[xX][0-9a-fA-F]+)\Z", host) or not _HOST.match(host) or ".." in host:
            raise ValueError(f"{host or 'An empty host'} is no host name or IP address.") from None
        if host.lower().rstrip(".") in ("metadata.google.internal", "metadata"):
            raise ValueError("Cloud metadata services are not engines.") from None
        return
    ip = _carried(ip)
    if ip.is_link_local or ip.is_multicast or ip.is_unspecified or ip.is_reserved:
        raise ValueError(f"{host} is a link-local, multicast, unspecified or reserved address.")
    if ip in METADATA_SERVICES:
        raise ValueError("Cloud metadata services are not engines.")


def _carried(ip: IpAddress) -> IpAddress:
    """The IPv4 address inside an IPv6 one (mapped, 6to4), else the address itself."""
    if isinstance(ip, ipaddress.IPv6Address):
        return ip.ipv4_mapped or ip.sixtofour or ip
    return ip
