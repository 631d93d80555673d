"""Sweeps small enough for tests: small environments, and jobs run in this process."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import threading
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from eligrad.agents import make_settings
from eligrad.analysis.load import load_chunks, load_episodes, load_runs
from eligrad.engines import Record
from eligrad.envs import register
from eligrad.envs.core import Environment, Step
from eligrad.envs.spaces import Box, Discrete
from eligrad.runs.checkpoint import Reader
from eligrad.runs.folder import RunFolder
from eligrad.runs.metrics import Tables, tables_of_chunk
from eligrad.runs.plan import Plan, grown, plan_in_file
from eligrad.runs.records import scan
from eligrad.runs.summary import summarise
from eligrad.sweeps import driver as sweep
from eligrad.sweeps import worker
from eligrad.sweeps.spec import Spec, Sweep
from eligrad.sweeps.worker import work

ENV = "Probe/OffPolicy-v0"
FRAGILE = "Test/Fragile-v0"
PAUSE = 0.0
"""Seconds that a chunk of a faked training takes."""


class Fragile(Environment):
    """Episodes of five steps; in one of 60 the third reward is no number."""

    name = FRAGILE
    observation_space = Box(0.0, 1.0, (2,))
    action_space = Discrete(2)

    def _observe(self, state):
        return jnp.stack([jnp.float32(1), state[1].astype(jnp.float32) / 5])

    def reset(self, key, params):
        state = (jax.random.uniform(key), jnp.int32(0))
        return state, self._observe(state)

    def step(self, key, state, action, params):
        luck, count = state
        state = (luck, count + 1)
        broken = (luck < 1 / 60) & (count == 2)
        reward = jnp.where(broken, jnp.nan, action.astype(jnp.float32))
        ended = count + 1 >= 5
        return Step(state, self._observe(state), reward, ended, jnp.zeros_like(ended))


register(FRAGILE, Fragile)


class Inline:
    """An executor that does each task at once, in this process."""

    divide = True

    def __init__(self, workers: int = 2) -> None:
        self.workers = workers
        self.tasks = []
        self._ended = []

    def room(self):
        return 1 - len(self._ended)

    def start(self, task):
        self.tasks.append(task)
        self._ended.append((task, work(task)))

    def poll(self):
        ended, self._ended = self._ended, []
        return ended

    def stop(self):
        pass

    def close(self):
        pass


def small(env: str = ENV, **fields) -> Spec:
    """Four runs of 400 steps: two values of λ, two seeds."""
    fields = {"steps": 400, "seeds": 2, "grid": {"lam": [0.0, 0.9]}} | fields
    return Spec([Sweep(agents=["qrc"], envs=[env], **fields)])


def timeless(frame):
    """A table of chunks without what depends on the clock."""
    return frame.drop(columns=["seconds", "steps_per_second"], errors="ignore")


def outcomes(store) -> dict[str, str]:
    """All results of a store that a clock does not touch, by run, for comparing stores.

    Which runs share a folder may differ.
    """
    by_run = ["config_hash", "seed", "step"]
    parts = {}
    for name, load in (("runs", load_runs), ("episodes", load_episodes), ("chunks", load_chunks)):
        frame = timeless(load(store)).drop(columns="run")
        # Categories would be sorted by which folder was read first.
        frame = frame.astype({"config_hash": str}).sort_values(by_run)
        parts[name] = frame.to_csv(index=False, float_format="%.9g")
    for record in scan(store):
        with Reader(RunFolder(record.folder).checkpoints()[-1]) as last:
            own = [last.array(name)[record.index].tobytes() for name in last.about["leaves"]]
        parts[f"{record.configuration.hash}-s{record.seed}"] = b"".join(own).hex()
    return parts


@pytest.fixture
def quick_training(monkeypatch):
    """In place of agents and environments: a walk of numbers that depends on seed and λ.

    All else is as in training: chunks, checkpoints, metrics and a summary in a run folder. A
    hundred sweeps take seconds, so that each of their writes can be the last one.
    """
    monkeypatch.setattr(sweep, "POLL", 0.0)
    monkeypatch.setattr(worker, "train", quick_train)
    monkeypatch.setattr(worker, "resume", quick_resume)


def quick_train(
    agent, env, *, steps, seeds, out, max_episode_steps, env_params, info=(), **settings
) -> None:
    """Fakes `train`."""
    settings = make_settings(agent, settings, runs=len(seeds))
    about = (agent, settings, env, max_episode_steps, env_params, list(seeds))
    plan = Plan(*about, steps, 50, 100, list(info))
    _quick_run(RunFolder.create(out), plan, [])


def quick_resume(program, steps=None) -> None:
    """Fakes `resume`."""
    folder = RunFolder.open(program)
    config = folder.config
    plan = plan_in_file(config["plan"], program)
    _quick_run(folder, plan if steps is None else grown(plan, steps), config["sessions"])


def _quick_run(folder: RunFolder, plan: Plan, sessions: list) -> None:
    count = len(plan.seeds)
    lam = np.broadcast_to(np.asarray(plan.settings.lam), count)
    like = {"x": np.zeros(count), "steps": np.zeros(count, np.int64)}
    step, state = folder.restore(like)
    config = {"plan": plan.to_json()}
    folder.write_config(config | {"sessions": [*sessions, {"from_step": step}]})
    while step < plan.steps:
        x = state["x"] * lam + np.sin(np.asarray(plan.seeds) + step)
        ended = np.zeros((count, plan.chunk), bool)
        ended[:, -1] = True
        returns = np.broadcast_to(x[:, None], ended.shape).astype(np.float32)
        record = Record(ended, returns, np.full(ended.shape, plan.chunk, np.int32), {})
        sound = np.zeros(ended.shape, bool)
        stretch = tables_of_chunk(record, {"size": np.abs(x)}, sound, plan.seeds, step, 1.0)
        step += plan.chunk
        state = {"x": x, "steps": np.full(count, step)}
        time.sleep(PAUSE)
        if step % plan.checkpoint_every:
            earlier = stretch
        else:
            folder.save(step, state, Tables.join([earlier, stretch]), config)
    about = {"title": "a walk", "finished": True}
    folder.write_summary(summarise(folder.tables(), plan.seeds, step) | about)


def sweep_and_kill_a_worker(spec, store: Path, executor, named: bytes) -> sweep.Report:
    """Runs a sweep, and kills a process whose command has this in it, after a first checkpoint."""
    killed = []

    def kill_one():
        while not killed:
            if list(store.glob("jobs/*/program/checkpoint-*.npz")) and (found := processes(named)):
                os.kill(found[0], signal.SIGKILL)
                killed.append(found[0])
            time.sleep(0.05)

    threading.Thread(target=kill_one, daemon=True).start()
    report = sweep.run_sweep(spec, store, executor=executor)
    assert killed
    return report


def processes(named: bytes) -> list[int]:
    """The processes whose command has this in it."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            if named in (process / "cmdline").read_bytes():
                found.append(int(process.name))
    return found


def runs_trained(store: Path) -> int:
    """How many runs all workers together set out to train, by their own account."""
    logs = [path.read_text() for path in (store / "logs").iterdir()]
    return sum(int(count) for count in re.findall(r"^(\d+) runs of ", "\n".join(logs), re.M))
