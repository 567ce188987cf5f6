"""What ends a command from outside: the unit at work is given back, and the exit code says what it was."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType

#: Signals that end a command as Ctrl-C does.
_ENDING = ("SIGTERM", "SIGHUP")


class Stopped(KeyboardInterrupt):
    """A signal ended the command. A kind of Ctrl-C, so that the driver cancels what the server does for us.

    Attributes:
        number: the signal's.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        super().__init__(signal.Signals(number).name)


def stop_name(exc: BaseException) -> str:
    """Return what people call the end that an exception stands for."""
    if isinstance(exc, Stopped):
        return signal.Signals(exc.number).name
    return "Ctrl-C" if isinstance(exc, KeyboardInterrupt) else type(exc).__name__


@contextlib.contextmanager
def unwinding() -> Iterator[list[int]]:
    """Let ending signals unwind the command instead of cutting it off. Only the main thread can.

    Yields:
        The numbers of the signals that came.
    """
    came: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield came
        return

    def stop(number: int, _: FrameType | None) -> None:
        signal.signal(number, signal.SIG_IGN)  # once is enough: giving the unit back takes a moment
        came.append(number)
        raise Stopped(number)

    before = {}
    for name in _ENDING:
        number = getattr(signal, name, None)
        # Who started us with a signal ignored, nohup for instance, wants it ignored.
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            before[number] = signal.signal(number, stop)
    try:
        yield came
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
