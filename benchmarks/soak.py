"""A long life in one process: memory that stays flat, numbers that stay right, files that stay readable.

    taskset -c 1 python -m benchmarks.soak                 # 20 million steps, and a million calls
    taskset -c 1 python -m benchmarks.soak --steps 1e6 --calls 1e5

Training runs in a process of its own, through `eligrad.training.train` into a run folder. This one looks on:
at every tenth, when the other tells its resident memory, it reads the files as they are. The world
is a table that is gone through again and again, so that every statistic has an exact answer. Memory
is counted in small pages: huge ones the kernel gives when it likes, two megabytes at a time.
"""  # noqa: E501

from __future__ import annotations

import argparse
import dataclasses
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from eligrad.agents import PRESETS, QLambda, from_equinox
from eligrad.analysis import load_episodes, load_runs
from eligrad.engines import Online
from eligrad.envs.core import Environment, Step
from eligrad.envs.spaces import Box, Discrete
from eligrad.nets import streaming_mlp
from eligrad.training import Result, Session, train

LENGTH = 1000
"""Steps of an episode."""
CHUNK = 20_000
TENTHS = 10

_dice = np.random.default_rng(0)
# A mean far from zero, small numbers, and ordinary ones.
OBSERVATIONS = (_dice.normal(size=(LENGTH + 1, 3)) * [0.5, 1e-3, 1.0] + [1000.0, 0.0, 0.3]).astype(
    np.float32
)
REWARDS = (_dice.normal(size=LENGTH) + 0.5).astype(np.float32)


class Cycle(Environment):
    """Goes through the tables, whatever is done."""

    name = "Cycle"
    observation_space = Box(-np.inf, np.inf, (3,))
    action_space = Discrete(2)

    def reset(self, key: Any, params: Any) -> tuple[Any, Any]:
        return jnp.int32(0), jnp.asarray(OBSERVATIONS)[0]

    def step(self, key: Any, state: Any, action: Any, params: Any) -> Step:
        return Step(
            state=state + 1,
            observation=jnp.asarray(OBSERVATIONS)[state + 1],
            reward=jnp.asarray(REWARDS)[state],
            terminated=state + 1 == LENGTH,
            truncated=jnp.asarray(False),
        )


def small_agent(**settings: Any) -> QLambda:
    """QRC(λ) with eight hidden units."""
    network = from_equinox(
        lambda key, sparsity: streaming_mlp(3, 2, hidden=(8,), sparsity=sparsity, key=key)
    )
    return QLambda(dataclasses.replace(PRESETS["qrc"], **settings), network)


@dataclasses.dataclass(frozen=True)
class Life:
    """What was seen of a process over its life."""

    steps: int
    seconds: float
    resident: list[float]
    """Megabytes at the end of each tenth."""
    in_the_end: float
    """Megabytes once the summary is written and the curve drawn, which is no step's doing."""
    worst_statistic: float
    """The largest relative error of a mean or a variance that normalisation goes by."""

    @property
    def growth(self) -> float:
        """Megabytes gained since the tenth that needed least."""
        return float(np.max(self.resident - np.minimum.accumulate(self.resident)))


def exact_statistics(episodes: int, gamma: float) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Means and population variances after whole episodes, in double precision."""
    seen = OBSERVATIONS.astype(np.float64)
    weights = np.full(LENGTH + 1, float(episodes))
    weights[0] += 1  # that of the episode just begun
    traces, carried = [], 0.0
    for _ in range(2):  # the first episode begins with nothing, all others alike
        for step, reward in enumerate(REWARDS.astype(np.float64)):
            carried = (0.0 if step == LENGTH - 1 else gamma * carried) + reward
            traces.append(carried)
    trace_weights = np.repeat([1.0, episodes - 1.0], LENGTH)
    return {
        "observations": _weighted(seen, weights),
        "rewards": _weighted(np.array(traces), trace_weights),
    }


def _weighted(values: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    mean = np.average(values, axis=0, weights=weights)
    return mean, np.average(np.square(values - mean), axis=0, weights=weights)


def worst_error(normalizer: Any, episodes: int, gamma: float) -> float:
    """Of all means, as shares of a deviation, and of all variances, as shares of themselves."""
    errors = []
    ours = {"observations": normalizer.observations, "rewards": normalizer.rewards.stats}
    for name, (mean, variance) in exact_statistics(episodes, gamma).items():
        stats = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), ours[name])
        errors.append(np.abs(stats.mean + stats.mean_rest - mean) / np.sqrt(variance))
        found = stats.population_variance + stats.population_variance_rest
        errors.append(np.abs(found / variance - 1.0))
    return float(max(np.max(error) for error in errors))


def resident() -> float:
    """Megabytes of this process that are in memory now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def train_and_judge(steps: int, folder: Path) -> None:
    """All of the training, in this process; prints what `watch_training` reads."""

    def tell_memory(session: Session) -> None:
        written = session.step - CHUNK  # callbacks come first: what they return is written, too
        if written > 0 and written % (steps // TENTHS) == 0:
            print(resident(), flush=True)

    agent = small_agent(exploration_steps=0.2 * steps)
    result: Result = train(
        agent,
        Cycle(),
        steps=steps + CHUNK,
        out=folder,
        chunk=CHUNK,
        checkpoint_every=steps // TENTHS,
        callbacks=[tell_memory],
    )
    state = jax.tree.map(lambda leaf: np.asarray(leaf)[0], result.state.agent)
    for leaf in jax.tree.leaves(state):
        assert np.isfinite(leaf).all(), "a number of the agent is none"
    assert result.summary["diverged"] == 0
    print(resident())
    print(worst_error(state.normalizer, (steps + CHUNK) // LENGTH, float(agent.config.gamma)))


_WITH_SMALL_PAGES = """
import ctypes, os, sys
no_huge_pages = 41  # PR_SET_THP_DISABLE
if ctypes.CDLL(None).prctl(no_huge_pages, 1, 0, 0, 0) != 0:
    sys.exit("prctl(PR_SET_THP_DISABLE) was refused")
os.execv(sys.executable, [sys.executable, "-m", "benchmarks.soak", *sys.argv[1:]])
"""
"""Becomes this program. What is set between fork and exec, by `preexec_fn`, would need a fork of a
process in which JAX may have threads."""


def _start(*arguments: str) -> subprocess.Popen[str]:
    """This program with other arguments, in a process of its own that has no huge pages."""
    return subprocess.Popen(
        [sys.executable, "-c", _WITH_SMALL_PAGES, *arguments],
        stdout=subprocess.PIPE,
        text=True,
    )


def watch_training(steps: int, tell: Callable[[str], None] = print) -> Life:
    """Trains in another process, and reads its folder at every tenth."""
    if steps % (TENTHS * CHUNK):
        raise ValueError(f"steps is {steps}; a multiple of {TENTHS * CHUNK} is accepted")
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "run"

        def read(step: int) -> str:
            return f"{step:>12,} steps {_readable(folder, step):>9,} episodes read"

        return _watch(_start("--train", str(folder), "--steps", str(steps)), steps, read, tell)


def _watch(
    child: subprocess.Popen[str],
    steps: int,
    look: Callable[[int], str],
    tell: Callable[[str], None],
) -> Life:
    """Takes down what a child says of its memory at every tenth, and looks at what it has done."""
    assert child.stdout is not None
    began, memory = time.monotonic(), list[float]()
    try:
        while len(memory) < TENTHS and (line := child.stdout.readline()):
            memory.append(float(line))
            tell(f"{look(len(memory) * steps // TENTHS)} {memory[-1]:8.1f} MB resident")
        told, _ = child.communicate()
    finally:
        child.kill()
    if child.returncode:
        raise RuntimeError(f"it ended with exit code {child.returncode}, {len(memory)} tenths on")
    in_the_end, worst_statistic = map(float, told.split())
    return Life(steps, time.monotonic() - began, memory, in_the_end, worst_statistic)


def _readable(folder: Path, step: int) -> int:
    """Reads a run that is under way, every warning an error; returns its episodes."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (reached,) = load_runs(folder)["step"]
        episodes = load_episodes(folder)
    assert reached >= step
    assert len(episodes) >= step // LENGTH
    # All episodes pay the same: what is read is what was paid.
    paid = REWARDS.astype(np.float64).sum()
    np.testing.assert_allclose(episodes["return"], paid, rtol=1e-4)
    assert (np.diff(episodes["step"]) == LENGTH).all()
    return len(episodes)


def life_of_the_world() -> Iterator[tuple[np.ndarray, float, bool]]:
    """What is observed, call by call: an episode is its first observation and its steps."""
    while True:
        yield OBSERVATIONS[0], 0.0, False
        for step in range(LENGTH):
            yield OBSERVATIONS[step + 1], float(REWARDS[step]), step + 1 == LENGTH


def live_online(calls: int) -> None:
    """An agent that is handed one observation after the other; prints what `watch_online` reads."""
    episodes = calls // (LENGTH + 1)
    online = Online(small_agent(exploration_steps=0.2 * calls), seed=0)
    world = life_of_the_world()
    for tenth in range(TENTHS):
        for _ in range(tenth * calls // TENTHS, (tenth + 1) * calls // TENTHS):
            observation, reward, ended = next(world)
            online.observe(observation, reward, terminated=ended)
        assert np.isfinite(online.td_error)
        print(resident(), flush=True)
    gamma = float(online.agent.config.gamma)
    print(resident())
    print(worst_error(online.state.normalizer, episodes, gamma))


def watch_online(calls: int, tell: Callable[[str], None] = print) -> Life:
    """The same in another process: whole episodes, and the first observation of one more."""
    calls = calls // (LENGTH + 1) * (LENGTH + 1) + 1
    child = _start("--online", "--calls", str(calls))
    return _watch(child, calls, lambda call: f"{call:>12,} calls", tell)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=float, default=2e7)
    parser.add_argument("--calls", type=float, default=1e6)
    parser.add_argument("--train", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--online", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    steps, calls = int(given.steps), int(given.calls)
    if given.train is not None:
        return train_and_judge(steps, given.train)
    if given.online:
        return live_online(calls)
    for watch, number in ((watch_training, steps), (watch_online, calls)):
        life = watch(number)
        print(
            f"{life.steps:,} in {life.seconds:.0f} s; memory grew by {life.growth:.1f} MB, and "
            f"was {life.in_the_end:.1f} MB in the end; statistics within "
            f"{life.worst_statistic:.1e} of the exact ones\n"
        )


if __name__ == "__main__":
    main()
