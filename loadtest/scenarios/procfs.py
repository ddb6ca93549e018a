"""What processes cost, as the kernel counts it. Linux only: everything comes from /proc."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from time import monotonic_ns

_TICKS = os.sysconf("SC_CLK_TCK")
_PPID, _USER, _SYSTEM = 1, 11, 12  # after the command name, see proc_pid_stat(5)
_BUSY_COLUMNS = (0, 1, 2, 5, 6, 7)  # all but idle and iowait (see proc_stat(5)); steal is time that we could not have


@dataclass(frozen=True, slots=True)
class Usage:
    """One process at one moment. `rss_bytes_max` is the largest resident set it ever had (VmHWM)."""

    cpu_seconds: float
    rss_bytes: int
    rss_bytes_max: int


def usage(pid: int) -> Usage | None:
    """What `pid` has cost so far, None if it is gone."""
    try:
        stat = _stat(pid)
        memory = _memory_kib(Path(f"/proc/{pid}/status").read_text())
    except (FileNotFoundError, ProcessLookupError):
        return None
    if "VmHWM" not in memory:  # a zombie has no memory any more
        return None
    return Usage(
        cpu_seconds=(int(stat[_USER]) + int(stat[_SYSTEM])) / _TICKS,
        rss_bytes=memory["VmRSS"] * 1024,
        rss_bytes_max=memory["VmHWM"] * 1024,
    )


def family(pid: int) -> list[int]:
    """`pid` and its descendants that are alive."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                children.setdefault(int(_stat(int(entry.name))[_PPID]), []).append(int(entry.name))
            except (FileNotFoundError, ProcessLookupError):
                continue
    found = [pid]
    for parent in found:  # grows while it is read
        found += children.get(parent, [])
    return found


def monotonic_seconds() -> float:
    """The clock that all processes of the machine share."""
    return monotonic_ns() / 1e9


def usages(pids: Iterable[int]) -> dict[int, Usage]:
    """The same for several, without those that are gone."""
    return {pid: found for pid in pids if (found := usage(pid)) is not None}


def machine_busy_seconds() -> float:
    """Seconds that all cores together were not idle since boot, whoever they worked for."""
    columns = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    return sum(int(columns[column]) for column in _BUSY_COLUMNS) / _TICKS


def _stat(pid: int) -> list[str]:
    """The columns after the command name, which may itself hold spaces and brackets."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def _memory_kib(status: str) -> dict[str, int]:
    lines = (line.split() for line in status.splitlines() if line.startswith("Vm"))
    return {words[0].rstrip(":"): int(words[1]) for words in lines}
