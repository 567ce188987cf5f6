"""``python -m tools.demo.hold_postgres [--keep]``: run the demo's PostgreSQL server until told to stop.

Under a guard this is what makes the server end, and its data go, with the demo, however the demo ends.
"""

from __future__ import annotations

import signal
import sys

from tools.demo.places import demo_server


def main(keep: bool) -> int:
    """Start the server, wait for SIGTERM or SIGINT, stop it; delete its data unless they are to be kept."""
    signals = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    server = demo_server()
    try:
        server.start()
        signal.sigwait(signals)
    finally:
        if keep:
            server.stop()
        else:
            server.destroy()
    return 0


if __name__ == "__main__":
    sys.exit(main("--keep" in sys.argv[1:]))
