"""``python -m tools.demo.hold_postgres HOME [--keep]``: run a deployment's PostgreSQL server until told to stop.

Under a guard this is what makes the server end, and its data go, with the deployment, however that ends.
"""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path

from tools.demo.places import Places


def main(home: Path, keep: bool) -> int:
    """Start the server, wait for SIGTERM or SIGINT, stop it; delete its data unless they are to be kept."""
    signals = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    server = Places(home).server()
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
    parser = argparse.ArgumentParser()
    parser.add_argument("home", type=Path)
    parser.add_argument("--keep", action="store_true")
    options = parser.parse_args()
    sys.exit(main(options.home, options.keep))
