"""One stream, three engines: the compiled scan, the host's lockstep, and one call at a time."""

from __future__ import annotations

import dataclasses
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from eligrad.agents import PRESETS, QLambda, StreamingAgent, from_equinox
from eligrad.engines.host import HostRuns
from eligrad.engines.online import Online
from eligrad.engines.stream import Runs
from eligrad.envs.adapters.gymnasium import GymnasiumEnvironment
from eligrad.envs.spaces import Box, Discrete
from eligrad.nets import streaming_mlp
from eligrad.runs.checkpoint import CheckpointError
from tests.engines import tiny
from tests.engines.tapes import ACTIONS, CHOICES, SIZE, STEPS, TAPES, GymnasiumTape, Tape, essence

pytestmark = pytest.mark.usefixtures("quickest_compilation")

BOX = (-2.0, 2.0, (2,), np.float32)


def make_agent(preset: str) -> StreamingAgent:
    if preset == "gradient-ac":
        return tiny.actor_critic(Box(*BOX), SIZE)
    network = from_equinox(
        lambda key, s: streaming_mlp(SIZE, ACTIONS, hidden=(8,), sparsity=s, key=key)
    )
    return QLambda(PRESETS[preset], network)


@pytest.mark.parametrize(
    "preset",
    [
        "qrc",
        "gradient-ac",
        *(pytest.param(p, marks=pytest.mark.nightly) for p in ("sarsa-lambda", "stream-q")),
    ],
)
def test_three_engines_one_run(preset):
    agent, seeds = make_agent(preset), np.array([3, 4])
    spaces: Any = (Discrete(ACTIONS), CHOICES)
    if preset == "gradient-ac":
        spaces = (Box(*BOX), gymnasium.spaces.Box(*BOX))
    stream = Runs(agent, Tape(spaces[0]), jnp.arange(2), seeds, np.zeros(2, int))
    records = stream.advance(STEPS)

    env = GymnasiumEnvironment(lambda: GymnasiumTape(spaces[1]))
    host = HostRuns(agent, env, seeds, np.array([0, 1]))
    host_records = host.advance(STEPS // 2), host.advance(STEPS - STEPS // 2)
    host.close()
    joined = jax.tree.map(lambda *parts: np.concatenate(parts, axis=1), *host_records)
    for ours, theirs in zip(*map(jax.tree.leaves, (records, joined)), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)

    for run in range(2):
        tape = {name: rows[run] for name, rows in TAPES.items()}
        online = Online(agent, seed=int(seeds[run]))
        actions = [online.observe(tape["observation"][0])]
        for t in range(STEPS):
            ended = tape["terminated"][t] or tape["truncated"][t]
            arrived = tape["final"][t] if ended else tape["observation"][t + 1]
            action = online.observe(
                arrived, tape["reward"][t], tape["terminated"][t], tape["truncated"][t]
            )
            assert (action is None) == ended
            if ended:
                action = online.observe(tape["observation"][t + 1])
            actions.append(action)
        compiled = jax.tree.map(lambda leaf, run=run: leaf[run], stream.state.agent)
        lockstep = jax.tree.map(lambda leaf, run=run: leaf[run], host.state.agent)
        for other in (lockstep, online.state):
            np.testing.assert_allclose(essence(other), essence(compiled), rtol=2e-5, atol=2e-6)
        assert len({np.asarray(action).tobytes() for action in actions}) > 1
        space = spaces[1]
        assert all(np.asarray(action, space.dtype) in space for action in actions)


def test_online_refuses_what_cannot_be():
    online = Online(make_agent("qrc"))
    with pytest.raises(ValueError, match="is accepted alone"):
        online.observe(np.zeros(SIZE, np.float32), reward=1.0)
    online.observe(np.zeros(SIZE, np.float32))
    with pytest.raises(ValueError, match=r"shape \(6,\)"):
        online.observe(np.zeros(SIZE + 1, np.float32))
    with pytest.raises(ValueError, match="dtype complex128"):
        online.observe(np.zeros(SIZE, complex), 1.0)
    with pytest.raises(ValueError, match=r"observation is inf at \(0,\)"):
        online.observe(np.full(SIZE, 1e200), 1.0)  # too large for float32
    bad = np.zeros(SIZE, np.float32)
    bad[2] = np.nan
    with pytest.raises(ValueError, match=r"observation is nan at \(2,\)"):
        online.observe(bad)
    with pytest.raises(ValueError, match="reward is inf"):
        online.observe(np.zeros(SIZE, np.float32), reward=np.inf)
    with pytest.raises(ValueError, match=r"reward is missing.*call interrupt\(observation\)"):
        online.observe(np.ones(SIZE, np.float32))
    observe = getattr(Online.observe, "__wrapped__", Online.observe)  # without type checks
    for flag in ("False", "", None, 2, 0.5, [False]):
        with pytest.raises(TypeError, match=r"terminated is .*; True or False is accepted"):
            observe(online, np.ones(SIZE, np.float32), 1.0, terminated=flag)
    # None of it has touched the agent.
    assert online.observe(np.ones(SIZE, np.float32), 1.0) in range(ACTIONS)
    assert online.steps == 1


def test_interrupted_host_runs_begin_new_episodes():
    host = HostRuns(
        make_agent("qrc"), GymnasiumEnvironment(GymnasiumTape), np.arange(2), np.arange(2)
    )
    host.advance(5)
    host.interrupt(np.arange(2))
    assert not np.any(host.state.agent.traces.discount)
    assert not np.any(host.state.episode_length)
    again = host.advance(5)
    host.close()
    ended = TAPES["terminated"] | TAPES["truncated"]
    np.testing.assert_array_equal(again.ended, ended[:, :5])


@pytest.mark.parametrize(
    ("preset", "ended"), [("qrc", False), ("qrc", True), ("gradient-ac", True)]
)
def test_online_goes_on_after_a_save_as_if_never_stopped(tmp_path, preset, ended):
    """Also between the end of an episode and the beginning of the next."""
    rng = np.random.default_rng(0)
    world = [(rng.normal(size=SIZE).astype(np.float32), float(rng.normal())) for _ in range(20)]
    agent: Any = make_agent(preset)
    online = Online(agent, seed=5)
    online.observe(world[0][0])
    for observation, reward in world[1:10]:
        online.observe(observation, reward)
    if ended:
        online.observe(world[10][0], world[10][1], terminated=True)
    online.save(tmp_path / "agent.npz")
    restored = Online.load(tmp_path / "agent.npz", agent)
    assert restored.steps == online.steps
    for which in (online, restored):
        if ended:
            which.observe(world[11][0])
        for observation, reward in world[12:]:
            which.observe(observation, reward)
    np.testing.assert_array_equal(essence(online.state), essence(restored.state))
    other = dataclasses.replace(agent.config, lam=0.25)
    with pytest.raises(CheckpointError, match=r"saved with lam = .*; that of agent is 0\.25"):
        Online.load(tmp_path / "agent.npz", dataclasses.replace(agent, config=other))


def test_online_can_go_on_elsewhere():
    online = Online(make_agent("qrc"))
    online.observe(np.ones(SIZE, np.float32))
    online.observe(np.zeros(SIZE, np.float32), 1.0)
    assert online.interrupt(np.ones(SIZE, np.float32)) in range(ACTIONS)
    assert online.state.traces.discount == 0


class Lapses(gymnasium.Env):
    """Begins every second episode with an observation that is no number."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (SIZE,), np.float32)
    action_space = gymnasium.spaces.Discrete(ACTIONS)
    episode = 0

    def reset(self, *, seed=None, options=None):
        self.episode += 1
        value = np.nan if self.episode % 2 == 0 else 0.0
        return np.full(SIZE, value, np.float32), {}

    def step(self, action):
        return np.ones(SIZE, np.float32), 0.0, True, False, {}


def test_host_notices_a_bad_beginning_of_a_later_episode():
    host = HostRuns(make_agent("qrc"), GymnasiumEnvironment(Lapses), np.arange(1), np.arange(1))
    assert host.state.fault_step[0] == -1
    host.advance(3)
    host.close()
    assert host.state.fault_step[0] == 1
