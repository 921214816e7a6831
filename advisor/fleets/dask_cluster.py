"""A Dask cluster: one that runs already, or workers on this machine. The only module here that imports Dask
at its top; it is imported once a fleet is asked for.

Calls travel as text, which `eval` runs on the worker: the scheduler, and a worker that is to say that advisor
is missing, need not have it. What comes back is text too.
"""

from __future__ import annotations

import asyncio
import json
import logging
import queue
import signal
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any

import dask
from distributed import Client, Future, LocalCluster, Security, Semaphore
from distributed.comm import connect

from advisor.errors import FileProblem, NothingMeasured, UsageError
from advisor.fleets.fleet import Function, Reply, SchedulerLost
from advisor.profiles.files import LARGEST, read_bytes, scratch
from advisor.profiles.redaction import here
from advisor.texts import printable, shortened

_CONNECT_SECONDS = 15.0
_LOCALHOST = "127.0.0.1"
_CLIENT = {"timeout": _CONNECT_SECONDS, "set_as_default": False, "name": "advisor"}
_LOCAL = {
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
    "distributed.worker.memory.terminate": False,
    "distributed.worker.memory.pause": False,
    "distributed.worker.memory.spill": False,
}
"""A worker's memory is the workload's business: advisor watches what is free on the machine."""


def make_security(ca_file: Path | None, cert: Path | None, key: Path | None) -> Security | None:
    """Dask's TLS from PEM files; None where none was given. Raises `UsageError` or `FileProblem`."""
    files = {"--tls-ca-file": ca_file, "--tls-cert": cert, "--tls-key": key}
    if not any(files.values()):
        return None
    if missing := [option for option, path in files.items() if path is None]:
        raise UsageError(
            f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing",
            next_step="TLS needs all of --tls-ca-file, --tls-cert and --tls-key.",
        )
    for option, path in files.items():
        if path is not None and not path.is_file():
            raise FileProblem(f"{option} {path} does not exist", next_step="Give a file in PEM format.")
    roles = ("client", "scheduler", "worker")  # with `--local` this command starts all three
    own = {f"tls_{role}_{what}": str(path) for role in roles for what, path in (("cert", cert), ("key", key))}
    return Security(tls_ca_file=str(ca_file), require_encryption=True, **own)


class DaskCluster:
    """See `advisor.fleets.fleet.Cluster`."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._futures: dict[str, tuple[Future, str]] = {}
        """Future and worker, by key."""
        self._locks: dict[str, Semaphore] = {}
        self._done: queue.SimpleQueue[str] = queue.SimpleQueue()

    def workers(self) -> Collection[str]:
        return set(self._asked(self._client.nthreads))

    def lock(self, device: str) -> bool:
        """A lease, which expires half a minute after a command was killed."""
        lock = Semaphore(1, f"advisor-{device}", scheduler_rpc=self._client.scheduler, loop=self._client.loop)
        if self._asked(lock.acquire, timeout=0):
            self._locks[device] = lock
        return device in self._locks

    def unlock(self, device: str) -> None:
        lock = self._locks.pop(device, None)
        if lock and self._client.status == "running":
            with suppress(Exception):  # the scheduler may go just now
                lock.release()

    def _asked(self, question: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        self._require_scheduler()
        try:
            return question(*arguments, **named)
        except Exception as problem:  # whatever a connection that breaks raises
            raise _lost(problem) from None

    def start(self, worker: str, function: Function, text: str = "") -> str:
        self._require_scheduler()
        arguments = repr(text) if function == "profile" else ""
        expression = f"__import__('advisor.fleets.remote', fromlist=['remote']).{function}({arguments})"
        with _quiet():
            future = self._client.submit(
                eval, expression, workers=[worker] if worker else None, pure=False, retries=0
            )
        self._futures[future.key] = future, worker
        future.add_done_callback(lambda done: self._done.put(done.key))
        return str(future.key)

    def replies(self, seconds: float) -> Sequence[Reply]:
        done = []
        with suppress(queue.Empty):
            done.append(self._done.get(timeout=seconds))
            while True:
                done.append(self._done.get_nowait())
        self._require_scheduler()
        return [self._reply(call, *self._futures.pop(call)) for call in done if call in self._futures]

    def cancel(self, call: str) -> None:
        if call in self._futures:
            with suppress(Exception):  # it may have ended, or the scheduler be gone
                self._futures.pop(call)[0].cancel()

    def _reply(self, call: str, future: Future, worker: str) -> Reply:
        if future.status == "error":
            raised = future.exception(timeout=_CONNECT_SECONDS)
            missing = isinstance(raised, ImportError) and "advisor" in (raised.name or "")
            return Reply(call, worker, reason=_line(raised), not_installed=missing)
        if future.status != "finished":
            return Reply(call, worker, reason="the worker was lost")
        try:
            result = future.result(timeout=_CONNECT_SECONDS)
        except Exception as problem:
            return Reply(call, worker, reason=f"its result cannot be fetched: {_line(problem)}")
        if isinstance(result, str) and len(result) <= 2 * LARGEST:
            return Reply(call, worker, result)
        return Reply(call, worker, reason="it sent something other than the text of a result")

    def _require_scheduler(self) -> None:
        if (status := self._client.status) != "running":
            raise _lost("the connection broke" if status == "connecting" else status)


def _lost(problem: object) -> SchedulerLost:
    step = "Start it again, then run the same command with --resume."
    return SchedulerLost(f"the scheduler was lost: {_line(problem)}", next_step=step)


def _line(problem: object) -> str:
    """An exception as one printable line; a worker may have written it."""
    kind = f"{type(problem).__name__}: " if isinstance(problem, BaseException) else ""
    return printable(shortened(here().hide(f"{kind}{problem}".strip().partition("\n")[0]), 300))


@contextmanager
def connected(address: str | None, file: Path | None, security: Security | None) -> Iterator[DaskCluster]:
    """The cluster of a scheduler. Raises `NothingMeasured` if out of reach, `UsageError`, `FileProblem`."""
    address = address or _address(file or Path())
    security = security or Security()  # what Dask's own configuration says
    arguments = security.get_connection_args("client")
    if address.startswith("tls://") and not arguments.get("ssl_context"):
        step = "Give --tls-ca-file, --tls-cert and --tls-key."
        raise UsageError(f"the scheduler {address} uses TLS, and no certificate was given", next_step=step)
    try:
        # Before there is a client, which would take half a minute to give up.
        asyncio.run(_reach(address, arguments))
    except Exception as problem:  # whatever a wrong address, port, certificate or program there raises
        raise NothingMeasured(
            f"the scheduler {address} cannot be reached: {_line(problem)}",
            next_step="Check the address, that the scheduler runs, and that both sides use TLS or neither.",
        ) from None
    with _opened(lambda: Client(address, security=security, **_CLIENT)) as client:
        yield DaskCluster(client)


async def _reach(address: str, arguments: dict[str, Any]) -> None:
    comm = await connect(address, timeout=_CONNECT_SECONDS, **arguments)
    await comm.close()


def _address(file: Path) -> str:
    with suppress(OSError, ValueError, KeyError, TypeError, RecursionError):
        address = json.loads(read_bytes(file, 1_000_000))["address"]
        if isinstance(address, str):
            return address
    what = "is not a scheduler's file" if file.exists() else "does not exist"
    step = "Give the file that `dask scheduler --scheduler-file` wrote."
    raise FileProblem(f"--scheduler-file {file} {what}", next_step=step)


@contextmanager
def local(workers: int, security: Security | None) -> Iterator[DaskCluster]:
    """Workers on this machine, reached through 127.0.0.1 only, gone with the block and with their files.

    Files that a killed command left are removed by the next one.
    """
    with scratch() as folder, dask.config.set({"temporary-directory": str(folder)}):
        resource_tracker.ensure_running()  # its start would unblock the signal
        # Threads and processes that start here do not get the terminal's Ctrl-C.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            with dask.config.set(_LOCAL), _quiet():
                cluster = LocalCluster(
                    n_workers=workers,
                    threads_per_worker=1,
                    processes=True,
                    host=_LOCALHOST,
                    dashboard_address=f"{_LOCALHOST}:0",
                    silence_logs=logging.CRITICAL,
                    security=security,
                )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        try:
            with _opened(lambda: Client(cluster, **_CLIENT)) as client:
                yield DaskCluster(client)
        finally:
            with _quiet(), suppress(Exception):
                cluster.close(timeout=5)


@contextmanager
def _opened(make: Callable[[], Client]) -> Iterator[Client]:
    for name in [*logging.root.manager.loggerDict]:  # threads add to it
        if name.partition(".")[0] == "distributed":
            logging.getLogger(name).setLevel(logging.CRITICAL)
    with _quiet():
        client = make()
    try:
        yield client
    finally:
        with _quiet(), suppress(Exception):
            client.close(timeout=2)


@contextmanager
def _quiet() -> Iterator[None]:
    """Without Dask's warnings of ports in use and of large graphs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
