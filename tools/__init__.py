"""What ``./run`` does: install, demo, test, clean. Never imported by the package itself."""

from pathlib import Path

#: The checkout.
ROOT = Path(__file__).resolve().parent.parent
#: What the commands make and ``./run clean`` removes.
LOCAL = ROOT / ".local"
#: The virtual environment.
VENV = ROOT / ".venv"
