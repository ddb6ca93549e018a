"""A crawl folder: where each file of one crawl lies, how it is born, and what may be wrong with it.

```
DIR/facts.json        facts of the crawl, written once and last: a folder without it holds no crawl yet
DIR/settings.json     the settings of the last run, for a resume that does not repeat its flags
DIR/hosts.json        what an operator ordered of single hosts (`limpet hosts`); absent = nothing
DIR/shards/NN.sqlite  authority, outgoing logs and offsets of one shard
DIR/seen/NN.sqlite    marks of one shard; may be deleted
DIR/segments/         WARC segments; DIR/segments-2, -3 are replicas (links to other disks serve well)
DIR/run/              lock, page permits and worker logs of the process at work; means nothing without one
```
"""

import contextlib
import os
from pathlib import Path
from typing import Any, Final

import msgspec

from limpet.config import Facts, Settings, decode_facts
from limpet.embedded.faults import not_writable
from limpet.embedded.shardfiles import create_shard_files
from limpet.model.errors import LimpetError, UsageError
from limpet.model.identity import IDENTITY_RULES_VERSION, SEED_BYTES_MIN
from limpet.runtime.sqliteopen import open_read_only
from limpet.schemas.sqlite import shard_schema

FACTS_NAME: Final = "facts.json"
SETTINGS_NAME: Final = "settings.json"
ORDERS_NAME: Final = "hosts.json"
REPLICAS_MAX: Final = 3
LOG_BYTES_KEPT_MAX: Final = 10_000_000
_OWN_NAMES: Final = frozenset(
    {FACTS_NAME, SETTINGS_NAME, ORDERS_NAME, "shards", "seen", "segments", "segments-2", "segments-3", "run"}
)


class Folder:
    """One crawl on disk. Opening it reads the facts and takes no lock."""

    def __init__(self, path: Path, facts: Facts) -> None:
        self.path = path
        self.facts = facts

    def __repr__(self) -> str:
        return f"Folder({str(self.path)!r}, crawl={self.facts.crawl!r})"

    @classmethod
    def open(cls, path: Path) -> "Folder":
        """The crawl in `path`. Raises `UsageError`: missing, not a crawl folder, another layout, damaged facts."""
        if not path.is_dir():
            what = "is not a directory" if path.exists() else "does not exist"
            raise UsageError(f"{path} {what}: name the folder given to `limpet crawl --into`")
        facts_file = path / FACTS_NAME
        try:
            text = facts_file.read_bytes()
        except FileNotFoundError:
            _check_no_crawl(path)
            raise UsageError(f"{path} is not a crawl folder: it has no {FACTS_NAME}") from None
        except OSError as error:
            raise UsageError(f"cannot read {facts_file}: {error.strerror}") from error
        return cls(path, _checked(decode_facts(text, str(facts_file)), facts_file))

    @classmethod
    def create(cls, path: Path, facts: Facts) -> "Folder":
        """Make the crawl durable: directories first, facts last. Call it under the folder's lock.

        Raises `UsageError` when `path` holds a crawl already, cannot be written or the facts make no sense.
        """
        facts_file = path / FACTS_NAME
        folder = cls(path, _checked(facts, facts_file))
        if facts_file.exists():
            raise UsageError(f"{path} holds a crawl already")
        try:
            for directory in (folder.shards, folder.seen, *folder.segment_directories, folder.run):
                directory.mkdir(parents=True, exist_ok=True)
            create_shard_files(folder.shards, [folder.shard_file(shard).name for shard in range(facts.shards)])
            sync_directory(folder.shards)
            write_durably(facts_file, msgspec.json.format(msgspec.json.encode(facts)) + b"\n")
            sync_directory(path.resolve().parent)
        except OSError as error:
            raise not_writable(path, error) from error
        return folder

    @property
    def shards(self) -> Path:
        """Directory of the shard files."""
        return self.path / "shards"

    @property
    def seen(self) -> Path:
        """Directory of the seen files."""
        return self.path / "seen"

    @property
    def run(self) -> Path:
        """Directory of what only a process at work needs."""
        return self.path / "run"

    @property
    def segment_directories(self) -> tuple[Path, ...]:
        """One directory a replica, the first is where users look."""
        return tuple(self.path / _replica_name(number) for number in range(1, self.facts.replicas + 1))

    @property
    def orders_file(self) -> Path:
        """What an operator ordered of single hosts."""
        return self.path / ORDERS_NAME

    @property
    def quota_file(self) -> Path:
        """Page permits shared between the workers of one run."""
        return self.run / "quota"

    @property
    def spool(self) -> Path:
        """Large bodies on their way into the archive; made when missing. Nothing in it outlives its process."""
        path = self.run / "spool"
        path.mkdir(exist_ok=True)
        return path

    @property
    def errands(self) -> Path:
        """What workers ask of each other; made when missing. Means nothing without them."""
        path = self.run / "errands"
        path.mkdir(exist_ok=True)
        return path

    @property
    def shares_file(self) -> Path:
        """Ceilings that span workers: what each holds of them, and the requests of the day."""
        return self.run / "shares"

    def shard_file(self, shard: int) -> Path:
        """SQLite file of one shard of the authority."""
        return self.shards / f"{shard:02d}.sqlite"

    def seen_file(self, shard: int) -> Path:
        """SQLite file of one seen shard."""
        return self.seen / f"{shard:02d}.sqlite"

    def worker_log(self, slot: int) -> Path:
        """Log of the worker in one slot."""
        return self.run / f"worker-{slot}.log"

    def start_logs(self) -> None:
        """Put long logs of earlier runs aside, one generation deep, so that logs cannot fill a disk over the years."""
        with contextlib.suppress(OSError):  # a log is not worth a run
            for log in self.run.glob("*.log"):
                if log.stat().st_size > LOG_BYTES_KEPT_MAX:
                    log.replace(log.with_suffix(".log.old"))

    def load_settings(self) -> Settings | None:
        """Settings of the last run, None before the first. Raises `UsageError` when the file is damaged."""
        where = self.path / SETTINGS_NAME
        try:
            return msgspec.json.decode(where.read_bytes(), type=Settings)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise UsageError(f"cannot read {where}: {error.strerror}") from error
        except msgspec.MsgspecError as error:
            raise UsageError(f"{where} is damaged ({error}): delete it and give the settings again") from error

    def store_settings(self, settings: Settings) -> None:
        """Remember what this run sets differently from the defaults, so that another Limpet's defaults are its own.

        A file that says so already is left alone: its time tells an audit since when these settings have been in force.
        Raises `UsageError` when the folder cannot be written.
        """
        chosen = _chosen(msgspec.to_builtins(settings), msgspec.to_builtins(Settings()))
        where, text = self.path / SETTINGS_NAME, msgspec.json.format(msgspec.json.encode(chosen)) + b"\n"
        try:
            if not where.exists() or where.read_bytes() != text:
                write_durably(where, text)
        except OSError as error:
            raise not_writable(self.path, error) from error


def is_crawl(path: Path) -> bool:
    """Whether `path` holds a crawl, whole or damaged."""
    return os.path.lexists(path / FACTS_NAME)


def check_vacant(path: Path) -> None:
    """`path` may become a crawl folder: absent, empty, or left by a creation that was cut short. Writes nothing.

    Raises `UsageError` for anything else, a crawl that lost its facts included.
    """
    if not os.path.lexists(path):
        return
    if not path.is_dir():
        raise UsageError(f"{path} is not a directory: choose another folder with --into")
    try:
        foreign = sorted(entry.name for entry in path.iterdir() if entry.name.removesuffix(".tmp") not in _OWN_NAMES)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    if foreign:
        raise UsageError(f"{path} is not a crawl folder and not empty (it holds {foreign[0]!r}): choose a new folder")
    _check_no_crawl(path)


def _check_no_crawl(path: Path) -> None:
    """Without facts, what a crawl left is a crawl with a lost file: another one on top of it would lose its URLs.

    A creation that was cut short leaves empty shards at most, and no segment. Raises `UsageError`.
    """
    segments = next((entry for entry in path.glob("segments*/*") if ".warc." in entry.name), None)
    held = segments or next((shard for shard in sorted(path.glob("shards/*.sqlite")) if not _is_empty(shard)), None)
    if held is not None:
        raise UsageError(
            f"{path / FACTS_NAME} is missing, and {held} is there: this is a crawl that lost its facts; "
            f"restore {FACTS_NAME} from a copy, or crawl into another folder"
        )


def _is_empty(shard: Path) -> bool:
    """Whether a shard has never been written to. One that cannot be read may hold anything."""
    try:
        file = open_read_only(shard, shard_schema())
    except LimpetError:
        return False
    try:
        return not file.totals
    except LimpetError:
        return False
    finally:
        file.close()


def write_durably(target: Path, data: bytes) -> None:
    """Replace `target` by `data` in one step that survives a power cut. Readable by its owner only."""
    draft = target.with_name(target.name + ".tmp")
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view) :]
        os.fsync(fd)
    finally:
        os.close(fd)
    draft.replace(target)
    sync_directory(target.parent)


def sync_directory(path: Path) -> None:
    """Make the entries of `path` durable."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _chosen(values: dict[str, Any], defaults: dict[str, Any]) -> dict[str, Any]:
    """What differs from the defaults, table by table."""
    found = {}
    for name, value in values.items():
        default = defaults.get(name)  # None: an entry of a table that the operator fills
        if isinstance(value, dict) and isinstance(default, dict):
            value = _chosen(value, default)  # noqa: PLW2901 - only its differences matter from here on
            default = {}
        if value != default:
            found[name] = value
    return found


def _replica_name(number: int) -> str:
    return "segments" if number == 1 else f"segments-{number}"


def _checked(facts: Facts, where: Path) -> Facts:
    """Facts whose numbers other code may rely on."""
    sound = 1 <= facts.shards <= 100 and facts.buckets >= facts.shards and 1 <= facts.replicas <= REPLICAS_MAX
    if not sound or len(facts.hash_seed) < SEED_BYTES_MIN or facts.segment_bytes < 1:
        raise UsageError(f"{where} is damaged: its numbers are out of range; restore it from a copy")
    if facts.identity_version != IDENTITY_RULES_VERSION:
        raise UsageError(
            f"{where} has identity rules version {facts.identity_version}, and this Limpet has "
            f"{IDENTITY_RULES_VERSION}: URLs would move; use the Limpet that made it"
        )
    return facts
