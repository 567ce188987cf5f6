"""``./run``: reads the command, makes sure that everything is installed, and goes on inside ``.venv``.

Until then it runs under whatever Python was found and needs nothing but the standard library.
"""

from __future__ import annotations

import argparse
import os
import sys

from tools import bootstrap
from tools.console import Sentence
from tools.processes import Stopped, orderly_end

#: Set for the process that continues inside .venv, so that it never starts over.
_INSIDE = "BOLLHAV_RUN_INSIDE"
_EXTRAS = {"demo": {"demo"}, "test": {"demo", "test"}}


def _days(text: str) -> int:
    days = int(text)
    if not 1 <= days <= 365:
        raise argparse.ArgumentTypeError("the data hold the year 2013: between 1 and 365")
    return days


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="./run", description="Incremental tables with real state, in Airflow.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="{demo,test,clean}")

    demo = commands.add_parser(
        "demo",
        help="start PostgreSQL and Airflow, fill ten tables from flights and weather of 2013, and show them",
        epilog="BOLLHAV_DSN names a PostgreSQL server to use instead of starting one: two databases are made there, "
        "bollhav_demo and bollhav_demo_airflow.",
    )
    demo.add_argument(
        "--check",
        action="store_true",
        help="end when the tables are filled; exit code 0 only when every window and number is right",
    )
    demo.add_argument("--days", type=_days, default=7, metavar="N", help="local days to load, from 1 January 2013 (7)")
    demo.add_argument("--keep-data", action="store_true", help="keep the databases at the end, and continue from them")
    demo.add_argument("--port", type=int, help="port of the web UI (8080, or a free one)")

    test = commands.add_parser("test", help="run the linters and the tests")
    test.add_argument("parts", nargs="*", metavar="PART",
                      help="ruff, mypy, imports, unit, integration, servers, airflow, compat, e2e (all)")  # fmt: skip
    test.add_argument(
        "-k", dest="keyword", metavar="EXPRESSION", help="only the tests whose name matches, as pytest's -k"
    )
    test.add_argument("-x", dest="stop_early", action="store_true", help="stop at the first failure")

    test.add_argument("-j", dest="beside", type=int, choices=(1, 2, 3, 4), metavar="N",
                      help="how many parts run beside each other (2)")  # fmt: skip

    clean = commands.add_parser("clean", help="stop what is left of a demo and delete its data, logs and caches")
    clean.add_argument("--all", action="store_true", help="delete .venv as well")
    return parser


def main() -> int:
    """Return the exit code: 0, 1 when something is wrong, 3 when something is missing on this machine."""
    options = _parser().parse_args()
    try:
        with orderly_end():
            if options.command == "clean":
                from tools.clean import clean

                return clean(everything=options.all)
            if os.environ.get(_INSIDE) != "1":
                bootstrap.ensure(_EXTRAS[options.command])
                env = bootstrap.environment() | {_INSIDE: "1"}
                os.execve(bootstrap.python_of_venv(), ["python", "-m", "tools", *sys.argv[1:]], env)
            os.environ.pop(_INSIDE)
            if options.command == "test":
                from tools.testing import BESIDE, run_tests

                return run_tests(
                    options.parts,
                    keyword=options.keyword,
                    stop_early=options.stop_early,
                    beside=options.beside or BESIDE,
                )
            from tools.demo.command import run_demo

            return run_demo(days=options.days, check=options.check, keep=options.keep_data, port=options.port)
    except Sentence as sentence:
        print(f"run: {sentence}", file=sys.stderr)
        return 3
    except Stopped as stopped:
        print("Stopped.", file=sys.stderr)
        return stopped.exit_code


if __name__ == "__main__":
    sys.exit(main())
