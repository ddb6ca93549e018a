"""Where the process begins: nothing is imported here that takes a while, so that an early Ctrl-C is an orderly end.

Until a verb is at work nothing has been written, so the signal may end the process on the spot; afterwards it becomes
`KeyboardInterrupt`, or what the verb makes of it.
"""

import os
import signal
import sys

EXIT_INTERRUPTED = 130


def main() -> int:
    """Run the command line of this process; its exit code."""
    if (
        signal.getsignal(signal.SIGINT) is not signal.SIG_IGN
    ):  # ignored on purpose, as by `nohup` and by `&` in a script
        signal.signal(signal.SIGINT, _leave)
    hold_standard_streams()
    from limpet.cli.main import main as run  # noqa: PLC0415 - takes a while

    return run(at_work=_end_in_order)


def hold_standard_streams() -> None:
    """Give a closed stdin, stdout or stderr to the void, so that no file of a crawl ever gets their numbers."""
    for fd in (0, 1, 2):
        try:
            os.fstat(fd)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest free number: this one
    sys.stdin = sys.stdin or open(0, closefd=False)  # noqa: SIM115 - for good
    sys.stdout = sys.stdout or open(1, "w", closefd=False)  # noqa: SIM115 - for good
    sys.stderr = sys.stderr or open(2, "w", closefd=False)  # noqa: SIM115 - for good


def _end_in_order() -> None:
    if signal.getsignal(signal.SIGINT) is _leave:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _leave(_number: int, _frame: object) -> None:
    os._exit(EXIT_INTERRUPTED)


if __name__ == "__main__":
    sys.exit(main())
