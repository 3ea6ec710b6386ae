"""Numbers and addresses that cannot belong to anybody, the only ones allowed in fictional notes.

Sources: the exchange 555 of the North American Numbering Plan; the numbers for drama of Ofcom (UK), ACMA (Australia),
ComReg (Ireland) and the Bundesnetzagentur (Germany), and, for countries that have none, numbers with 555 in them;
domains of RFC 2606; addresses of RFC 5737, RFC 3849 and RFC 1918; social security numbers that the Social Security
Administration does not assign (area 000, 666 or 9xx, group 00, serial 0000).
"""

import ipaddress
import re

_PHONE = re.compile(r"\D*(?:1\D*)?(?:\d{3}\D*)?(\d{3})\D*\d{4}\D*(?:\D\d{1,6}\D*)?")
_FOREIGN_PHONE = re.compile(r"\+(?!1\D)")
# Digits after the country's code or the leading 0.
_DRAMA = re.compile(
    r"(?:44)?0?(?:1632960|7700900|2079460|1134960|1144960|1154960|1164960|1174960|1184960|1214960|1314960|1414960"
    r"|1514960|1614960|2890180|2920180|1914980|8081570|9098790)\d{3}"
    r"|(?:(?:61)?0?[2378])?(?:5550|7010)\d{4}|(?:61)?0?4915[67]\d{4}|1800975(?:707|708|709|710|711)|1300975707"
    r"|(?:353)?0?2091\d{5}"
    r"|(?:49)?0?(?:3023125|6990009|4066969|2214710|8999998)\d{3}|(?:49)?0?17139200\d{2}"
)
_FULL_PHONE_DIGITS = 7
_HOST = re.compile(r"(?:[a-z]+://)?(?:[^@/?#\s]*@)?([^@/:?#\s]+)")
_RESERVED_HOST = re.compile(r"(?:^|.*\.)(?:example|test|invalid|localhost|example\.(?:com|net|org))$")
_RESERVED_NETWORKS = tuple(
    ipaddress.ip_network(network)
    for network in (
        "192.0.2.0/24",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "10.0.0.0/8",
        "172.16.0.0/12",
        "192.168.0.0/16",
        "2001:db8::/32",
    )
)
_SSN = re.compile(r"(\d{3})(\d{2})(\d{4})")


def unreserved_value(label: str, surface: str) -> str | None:
    """Return a message if a marked number or address could be somebody's, else None; partial ones are accepted."""
    if label in ("PHONE", "FAX"):
        return _unreserved_phone(surface)
    if label in ("EMAIL", "URL"):
        host = _HOST.match(surface.casefold())
        if host is None or not _RESERVED_HOST.match(host.group(1)):
            return "a domain that is not reserved: use example.com, .org or .net, or one that ends in .example or .test"
    if label == "IPADDR":
        return _unreserved_address(surface)
    if label == "SSN":
        parts = _SSN.fullmatch(re.sub(r"\D", "", surface))
        if parts and not (
            parts[1] in ("000", "666") or parts[1].startswith("9") or parts[2] == "00" or parts[3] == "0000"
        ):
            return "a social security number that could be given out: begin it with 9, 000 or 666"
    return None


def _unreserved_phone(surface: str) -> str | None:
    digits = re.sub(r"\D", "", surface)
    if len(digits) < _FULL_PHONE_DIGITS or _DRAMA.fullmatch(digits):
        return None
    if digits.startswith("0"):
        # A national number of a country without numbers for drama.
        reserved = "555" in digits
    elif _FOREIGN_PHONE.match(surface):
        reserved = "555" in digits
    else:
        parts = _PHONE.fullmatch(surface)
        reserved = parts is not None and parts[1] == "555"
    return None if reserved else "a telephone number whose exchange is not 555, as in (360) 555-0148"


def _unreserved_address(surface: str) -> str | None:
    try:
        address = ipaddress.ip_address(surface)
    except ValueError:
        return "not an IP address" if surface.count(".") == 3 else None
    if any(address in network for network in _RESERVED_NETWORKS if network.version == address.version):
        return None
    return "an internet address outside the reserved ranges: use 192.0.2.x, 198.51.100.x, 203.0.113.x or a private one"
