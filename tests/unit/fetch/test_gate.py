"""What `--owned` opens, and what it does not."""

import pytest

from limpet.fetch import Gate, Owned
from limpet.fetch.denylist import denied_kind, embedded_ipv4, packed


@pytest.mark.parametrize(
    ("entries", "ip", "host"),
    [
        (["127.0.0.0/8"], "127.9.9.9", "127.9.9.9"),
        (["127.0.0.1"], "127.0.0.1", "any.test"),
        (["127.1"], "127.0.0.1", "any.test"),
        (["10.0.0.0/8", "::1"], "::1", "[::1]"),
        (["[::1]"], "::1", "localhost"),
        (["fd00::/8"], "fd12::1", "wiki.test"),
        (["Wiki.Intern."], "10.1.2.3", "wiki.intern"),
        (["bücher.test"], "192.168.1.1", "xn--bcher-kva.test"),
        (["wiki.intern"], "fd12::1", "wiki.intern."),
        (["site.example"], "93.184.215.14", "site.example"),
        (["169.254.169.254"], "169.254.169.254", "169.254.169.254"),
        (["64:ff9b::/96", "10.0.0.0/8"], "64:ff9b::10.0.0.1", "any.test"),
        (["::ffff:0:0/96", "127.0.0.0/8"], "::ffff:127.0.0.1", "any.test"),
    ],
)
def test_owned_opens_what_it_names(entries: list[str], ip: str, host: str) -> None:
    """A network opens its addresses for any name; a host name opens addresses of a home network, and any port."""
    gate = Gate(Owned.parse(entries))
    assert gate.check_address(ip, host, 25) is None
    assert gate.owns(host, [ip])


@pytest.mark.parametrize(
    ("entries", "ip", "host"),
    [
        (["wiki.intern"], "10.0.0.1", "other.intern"),
        (["wiki.intern"], "10.0.0.1", "sub.wiki.intern"),
        (["wiki.intern"], "169.254.169.254", "wiki.intern"),
        (["wiki.intern"], "0.0.0.1", "wiki.intern"),
        (["wiki.intern"], "224.0.0.1", "wiki.intern"),
        (["wiki.intern"], "::ffff:10.0.0.1", "wiki.intern"),
        (["127.0.0.0/8"], "::1", "localhost"),
        (["127.0.0.0/8"], "::ffff:127.0.0.1", "any.test"),
        (["64:ff9b::/96"], "64:ff9b::169.254.169.254", "any.test"),
        (["2a00:1450::/32"], "2a00:1450::5efe:10.0.0.1", "any.test"),
        (["10.0.0.0/8"], "93.184.215.14", "moved.test"),
        ([], "127.0.0.1", "127.0.0.1"),
    ],
)
def test_owned_opens_nothing_else(entries: list[str], ip: str, host: str) -> None:
    """Not other hosts, not metadata through a name, not a form whose inner address is closed, not the public web."""
    gate = Gate(Owned.parse(entries))
    assert gate.check_address(ip, host, 80) is not None


def test_a_request_that_does_not_claim_ownership_gets_none() -> None:
    """The list opens nothing for a request that was scheduled as a stranger's."""
    gate = Gate(Owned.parse(["127.0.0.0/8", "wiki.intern"]))
    assert gate.check_address("127.0.0.1", "127.0.0.1", 80, owned=False) is not None
    assert gate.check_address("10.0.0.1", "wiki.intern", 80, owned=False) is not None
    assert gate.check_address("93.184.215.14", "any.test", 80, owned=False) is None
    assert gate.check_target("http", 22, owned=False) is not None


def test_reasons_name_the_address_and_its_kind() -> None:
    """An operator reads what was refused and why, the inner address included."""
    gate = Gate()
    assert gate.check_address("10.0.0.1", "h", 80) == "10.0.0.1 is private"
    assert gate.check_address("2002:7f00:1::", "h", 80) == "2002:7f00:1:: is 6to4, leading to 127.0.0.1"
    inner = gate.check_address("2a00:1450::5efe:10.0.0.1", "h", 80)
    assert inner == "2a00:1450::5efe:10.0.0.1 leads to 10.0.0.1, which is private"


@pytest.mark.parametrize("ip", ["", "localhost", "127.1", "1.2.3.4.5", "fe80::1%eth0", "[::1]", "1.1.1.1\0", "٣.1.1.1"])
def test_what_is_no_address_is_refused(ip: str) -> None:
    """A resolver's odd answer fails closed."""
    assert Gate().check_address(ip, "h", 80) is not None


@pytest.mark.parametrize(
    "entry",
    ["", " ", "10.0.0.1/8", "10.0.0.0/33", "http://host/", "user@host", "host:80", "a b", "::1::", "%zz", "a?b"],
)
def test_a_bad_entry_is_named(entry: str) -> None:
    """`--owned` with a typo says which entry, instead of opening something else."""
    with pytest.raises(ValueError, match="owned: ") as caught:
        Owned.parse([entry])
    assert repr(entry) in str(caught.value)


def test_an_empty_list_is_false() -> None:
    """Callers ask `if owned`."""
    assert not Owned()
    assert Owned.parse(["localhost"])


@pytest.mark.parametrize(
    ("ip", "inner"),
    [
        ("::ffff:1.2.3.4", "1.2.3.4"),
        ("::1.2.3.4", "1.2.3.4"),
        ("::ffff:0:1.2.3.4", "1.2.3.4"),
        ("64:ff9b::1.2.3.4", "1.2.3.4"),
        ("2002:102:304::1", "1.2.3.4"),
        ("2001:0:4136:e378:8000:63bf:fefd:fcfb", "1.2.3.4"),
        ("2a00::5efe:1.2.3.4", "1.2.3.4"),
        ("2a00::200:5efe:1.2.3.4", "1.2.3.4"),
        ("::1", None),
        ("::", None),
        ("2606:4700::1111", None),
        ("1.2.3.4", None),
    ],
)
def test_embedded_addresses_are_found(ip: str, inner: str | None) -> None:
    """Each transition form gives the IPv4 address that its RFC puts there."""
    address = packed(ip)
    assert address is not None
    assert embedded_ipv4(address) == (packed(inner) if inner is not None else None)


@pytest.mark.parametrize(
    ("last_denied", "first_public"),
    [
        ("0.255.255.255", "1.0.0.0"),
        ("10.255.255.255", "11.0.0.0"),
        ("100.127.255.255", "100.128.0.0"),
        ("172.31.255.255", "172.32.0.0"),
        ("198.19.255.255", "198.20.0.0"),
        ("2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff", "2001:200::"),
        ("2002:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "2003::"),
        ("3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff", "3fff:1000::"),
    ],
)
def test_ranges_end_where_the_registry_says(last_denied: str, first_public: str) -> None:
    """No off-by-one at a border."""
    denied, public = packed(last_denied), packed(first_public)
    assert denied is not None
    assert public is not None
    assert denied_kind(denied) is not None
    assert denied_kind(public) is None
