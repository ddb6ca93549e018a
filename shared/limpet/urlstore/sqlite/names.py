"""Small numbers for authorities and hosts, remembered between transactions."""

from typing import Final

from limpet.runtime.sqlitetx import Reader, Tx

REMEMBERED_MAX: Final = 65_536


class Names:
    """Ids of authorities and their hosts. What a transaction created is remembered only once it is durable."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[int, int]] = {}

    def find(self, reader: Reader, authority: str) -> tuple[int, int] | None:
        """The ids of an authority and its host, None for one that was never met."""
        known = self._known.get(authority)
        if known is not None:
            return known
        return reader.one("authority_id", (authority,))

    def ensure(self, tx: Tx, authority: str, host: str) -> tuple[int, int]:
        """The ids of an authority and its host, which get them now if they have none."""
        known = self._known.get(authority)
        if known is not None:
            return known
        found = tx.one("authority_id", (authority,))
        if found is None:
            host_id = self.host(tx, host)
            found = (tx.insert("authority_insert", (authority, host_id)), host_id)
        ids: tuple[int, int] = found
        tx.then(lambda: self._remember(authority, ids))
        return ids

    def host(self, tx: Tx, host: str) -> int:
        """The id of a host, which gets one now if it has none."""
        found: int | None = tx.value("host_id", (host,))
        return tx.insert("host_insert", (host,)) if found is None else found

    def _remember(self, authority: str, ids: tuple[int, int]) -> None:
        if len(self._known) >= REMEMBERED_MAX:
            self._known.clear()
        self._known[authority] = ids
