"""Where a shard's server is, without ever showing how one gets in."""

from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

from limpet.model.errors import UsageError

PORT_DEFAULT = 6379


@dataclass(frozen=True)
class Address:
    """A server. `str` and `repr` show host and port only."""

    host: str
    port: int = PORT_DEFAULT
    username: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)
    tls: bool = False

    @classmethod
    def parse(cls, text: str) -> "Address":
        """`HOST:PORT`, or `redis://[USER:PASSWORD@]HOST[:PORT]`, or the same with `rediss` for TLS.

        Raises `UsageError`, which quotes nothing that stands before an `@`.
        """
        shown = text.rpartition("@")[2]
        try:
            parts = urlsplit(text if "://" in text else f"redis://{text}")
            port = parts.port or PORT_DEFAULT
        except ValueError as error:
            raise UsageError(f"seen shard address {shown!r}: not host and port") from error
        if parts.scheme not in {"redis", "rediss"} or not parts.hostname or parts.path.strip("/"):
            raise UsageError(f"seen shard address {shown!r}: write HOST:PORT or redis://HOST:PORT, without a database")
        username, password = parts.username, parts.password
        return cls(
            parts.hostname,
            port,
            unquote(username) if username else None,
            unquote(password) if password else None,
            parts.scheme == "rediss",
        )

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"
