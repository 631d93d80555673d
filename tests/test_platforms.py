"""What other systems than Linux lack, taken away here: the branches for them, by simulation."""

from __future__ import annotations

import ctypes
import functools
import os
import signal
import subprocess
import sys
import textwrap

import filelock  # noqa: F401 (these before anything is taken away)
import jax
import matplotlib.figure  # noqa: F401
import pytest

from eligrad import cli
from eligrad._base.files import locked, write_json
from eligrad._base.interruption import ignored_by_children
from eligrad._base.system import cores
from eligrad.engines import devices
from eligrad.engines.devices import return_freed_memory
from eligrad.runs.folder import RunFolder, RunInUseError
from eligrad.training import resume, train
from tests.engines import tiny


@pytest.fixture
def windows(monkeypatch):
    """Folders cannot be opened; there is no fcntl, no SIGPIPE, and no C library by no name."""
    opened = os.open

    def refusing(path, *arguments, **options):
        if os.path.isdir(path):
            raise PermissionError(13, "Permission denied", str(path))
        return opened(path, *arguments, **options)

    def nameless(name):
        raise TypeError(f"argument of type {type(name)} is not iterable")

    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setitem(sys.modules, "fcntl", None)
    monkeypatch.setattr(os, "open", refusing)
    monkeypatch.setattr(ctypes, "CDLL", nameless)
    monkeypatch.delattr(os, "sched_getaffinity")
    for name in ("SIGPIPE", "pthread_sigmask"):
        monkeypatch.delattr(signal, name)


@pytest.mark.usefixtures("windows")
def test_a_folder_is_locked_by_a_file(tmp_path):
    run = tmp_path / "run"
    with RunFolder.create(run).locked():
        with pytest.raises(RunInUseError), RunFolder(run).locked():
            pass
        with locked(run) as alone:
            assert not alone
    with locked(run) as alone:
        assert alone
    with RunFolder.create(run).locked():  # the lock's file is nothing that was written
        pass


@pytest.mark.usefixtures("windows")
def test_training_and_resuming(tmp_path):
    options = {"agent": tiny.agent(), "env": tiny.ENV}
    train(**options, out=tmp_path / "run", steps=200, seeds=2, chunk=50)
    assert resume(tmp_path / "run", **options, steps=250).summary["finished"]


@pytest.mark.usefixtures("windows")
def test_calls_that_do_nothing_there():
    return_freed_memory()
    assert cores() >= 1
    with ignored_by_children():
        pass


@pytest.mark.usefixtures("windows")
def test_silence_when_nobody_reads_on(monkeypatch):
    class Closed:
        def write(self, text):
            raise BrokenPipeError

        def flush(self):
            raise BrokenPipeError

        def fileno(self):
            return os.open(os.devnull, os.O_WRONLY)

    monkeypatch.setattr(sys, "stdout", Closed())
    with pytest.raises(SystemExit) as end:
        cli.main(["completion", "bash"])
    assert end.value.code == 141


def test_disks_that_sync_no_folders(tmp_path, monkeypatch):
    fsync = os.fsync

    def refusing(handle):
        if os.path.isdir(f"/proc/self/fd/{handle}"):
            raise OSError(22, "Invalid argument")
        fsync(handle)

    monkeypatch.setattr(os, "fsync", refusing)
    write_json(tmp_path / "a.json", {})
    assert (tmp_path / "a.json").exists()


@pytest.mark.skipif(jax.default_backend() != "cpu", reason="an option for CPUs")
def test_a_compiler_without_our_option_goes_without(monkeypatch):
    used, compiled = [], jax.jit

    def strict(function, compiler_options=None, **options):
        used.append(compiler_options)
        if compiler_options:
            compiler_options = {f"{name}_of_tomorrow": True for name in compiler_options}
        return compiled(function, compiler_options=compiler_options, **options)

    assert devices.jit(lambda x: x + 1)(1) == 2
    monkeypatch.setattr(jax, "jit", strict)
    # Not the cache of the tests that follow.
    find = functools.cache(devices._compiler_options.__wrapped__)
    monkeypatch.setattr(devices, "_compiler_options", find)
    assert devices.jit(lambda x: x + 1)(1) == 2
    assert used == [*devices.OPTIONS["cpu"], None]
    assert [len(options or {}) for options in used] == [2, 1, 0]


@pytest.mark.skipif(sys.platform != "linux", reason="reads the names of threads in /proc")
@pytest.mark.parametrize("given", [None, "3"])
def test_one_thread_for_one_streaming_agent(given):
    code = """
        import os, pathlib
        from eligrad.engines.devices import one_thread
        one_thread()
        import jax
        jax.numpy.zeros(3).block_until_ready()
        tasks = pathlib.Path("/proc/self/task").iterdir()
        names = [task.joinpath("comm").read_text().strip() for task in tasks]
        print(names.count("tf_XLAEigen"), os.environ.get("NPROC"))
    """
    environment = {k: v for k, v in os.environ.items() if k != "NPROC"}
    environment |= {"JAX_PLATFORMS": "cpu"} | ({} if given is None else {"NPROC": given})
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.split() == [given or "1", str(given)]


@pytest.mark.parametrize("known", [2, 1, 0])
def test_a_gpu_s_compiler_gets_the_options_that_it_knows(monkeypatch, known):
    """Each of ours is a name that this compiler has; one that lacks some gets fewer of them."""
    compiled = jax.jit

    def strict(function, compiler_options=None, **options):
        if compiler_options and len(compiler_options) > known:
            compiler_options = {f"{name}_of_tomorrow": True for name in compiler_options}
        return compiled(function, compiler_options=compiler_options, **options)

    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    monkeypatch.setattr(jax, "jit", strict)
    found = devices._compiler_options.__wrapped__()
    assert (0 if found is None else len(found)) == known
    if known:
        assert found["xla_gpu_command_buffer_scheduling_mode"] == "CONCURRENT"
