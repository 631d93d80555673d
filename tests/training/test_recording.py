"""Recorded episodes: every number against another program, and nothing of a run is touched."""

from __future__ import annotations

import ctypes.util
import dataclasses
import json
import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from eligrad import normalize
from eligrad._base.files import read_json
from eligrad.engines.trained import read_agent
from eligrad.envs import Box, Discrete, Environment, Step, make
from eligrad.envs.minatar.render import render
from eligrad.envs.wrappers import TimeLimit
from eligrad.training import prepare, saved, train
from eligrad.training.evaluation import evaluate
from eligrad.training.recording import record, record_episode
from tests.engines import tiny, tiny_ppo
from tests.training.painted import NAME as PAINTED

pytestmark = pytest.mark.usefixtures("quickest_compilation")

BREAKOUT = "MinAtar/Breakout-v1"


def normalised(stats, observations, clip=np.inf):
    """Observations as an agent with these statistics sees them, in NumPy and double precision."""
    n = int(stats.samples)
    mean = np.float64(stats.mean) + np.float64(stats.mean_rest)
    variance = np.float64(stats.population_variance) + np.float64(stats.population_variance_rest)
    seen = (np.float64(observations) - mean) / np.sqrt(variance * n / (n - 1) + 1e-8)
    return np.clip(seen, -clip, clip)


def outputs(network, params, seen):
    """What a network says to one observation after another."""
    apply = jax.jit(network.apply)
    return np.stack([np.asarray(apply(params, jnp.float32(row))) for row in seen])


def scaled(state, rewards, clip=np.inf):
    """Rewards as the agent sees them."""
    stats = state.normalizer.rewards.stats
    n = int(stats.samples)
    deviation = np.sqrt(np.float64(stats.population_variance) * n / (n - 1))
    return np.clip(rewards / deviation, -clip, clip)


def one(states, run):
    """The state of one run out of all."""
    return jax.tree.map(lambda leaf: leaf[run], states)


@pytest.fixture(scope="module")
def breakout(tmp_path_factory, quickest_compilation):
    """Two seeds of QRC(λ), with a discount each; the folder, the file, what training returned."""
    base = tmp_path_factory.mktemp("breakout")
    options = {"steps": 400, "seeds": [3, 7], "gamma": [0.9, 0.8], "chunk": 200}
    options |= {"step_size": 1e-3, "epsilon_end": 0.3}
    session = prepare("qrc", BREAKOUT, out=base / "run", **options)
    result = session.run()
    saved.save(session, base / "saved.npz")
    return base, result


def test_values_h_and_errors_of_actions(breakout):
    base, result = breakout
    recording = record_episode(base / "run", seed=7, episode=5)
    state, network = one(result.state.agent, 1), result.agent.network
    seen = normalised(state.normalizer.observations, recording.observations)
    q, h = (outputs(network, params, seen) for params in (state.w, state.theta))
    steps = np.arange(len(recording))
    # The best action is the one taken.
    np.testing.assert_array_equal(recording.actions, q[:-1].argmax(axis=1))
    np.testing.assert_allclose(recording.values, q[:-1].max(axis=1), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(
        recording.auxiliary, h[steps, recording.actions], rtol=1e-4, atol=1e-6
    )
    following = 0.8 * q[1:].max(axis=1)
    assert recording.terminated
    following[-1] = 0.0
    delta = scaled(state, recording.rewards) + following - q[:-1].max(axis=1)
    np.testing.assert_allclose(recording.td_errors, delta, rtol=1e-4, atol=1e-5)
    assert recording.discount == pytest.approx(0.8)
    np.testing.assert_array_equal(recording.frames, render(recording.observations))
    assert recording.action_names == ("noop", "left", "right")
    assert "seed 7, after 400 steps" in recording.title


def test_the_episode_is_that_of_evaluate(breakout):
    base, result = breakout
    first = jax.tree.map(lambda leaf: leaf[:1], result.state.agent)
    agent = dataclasses.replace(
        result.agent, config=dataclasses.replace(result.agent.config, gamma=0.9)
    )
    # Drawn actions, so that their random numbers must agree, too.
    recording = record_episode(base / "run", seed=3, episode=2, greedy=False, max_steps=5000)
    wanted = evaluate(agent, make(BREAKOUT), first, episodes=1, seed=2, greedy=False)
    assert recording.rewards.sum() == wanted[0, 0]
    assert recording.terminated


@pytest.mark.nightly
def test_a_saved_file_plays_as_its_folder_does(breakout):
    base, _ = breakout
    of_folder, of_file = (record_episode(base / name, seed=3) for name in ("run", "saved.npz"))
    for name, value in vars(of_folder).items():
        np.testing.assert_array_equal(getattr(of_file, name), value, err_msg=name)


def test_best_is_the_seed_with_the_highest_last_returns(breakout):
    base, result = breakout
    rows = result.summary["seeds"]
    best = max(rows, key=lambda row: row["return_last"])["seed"]
    assert read_agent(base / "run").seed == best
    assert read_agent(base / "saved.npz").seed == best


def test_a_run_stays_as_it_is_even_if_damaged(tmp_path, breakout):
    """A training in progress owns its folder: its unfinished files and its old checkpoints too."""
    base, _ = breakout
    run = tmp_path / "run"
    run.mkdir()
    for file in (base / "run").glob("*.*"):
        (run / file.name).write_bytes(file.read_bytes())
    (run / ".config.json.1.partial").write_text("half")
    newest = max(run.glob("checkpoint-*.npz"))
    newest.write_bytes(newest.read_bytes()[:-100])
    before = {file: file.read_bytes() for file in run.iterdir()}
    assert read_agent(run, 3).step == 200
    assert {file: file.read_bytes() for file in run.iterdir()} == before
    for file in run.glob("checkpoint-*.npz"):
        file.unlink()
    with pytest.raises(FileNotFoundError, match="no checkpoint yet; the first is written at step"):
        read_agent(run, 3)


def test_errors_are_for_people(tmp_path, breakout):
    base, _ = breakout
    with pytest.raises(ValueError, match=r'seed is 4; "best", or one of \[3, 7\], is accepted'):
        read_agent(base / "run", 4)
    with pytest.raises(FileNotFoundError, match="there is no run"):
        read_agent(tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError, match=r"is not a run folder: it has no config\.json"):
        read_agent(tmp_path)
    with pytest.raises(ValueError, match="not the save of an agent; such a file, or the folder"):
        read_agent(next((base / "run").glob("checkpoint-*.npz")))
    with pytest.raises(ValueError, match="max_steps is 0"):
        record_episode(base / "run", max_steps=0)
    config = read_json(base / "run" / "config.json")
    config["plan"]["agent"] = None
    (tmp_path / "config.json").write_text(json.dumps(config))
    checkpoint = next((base / "run").glob("checkpoint-*.npz"))
    (tmp_path / checkpoint.name).write_bytes(checkpoint.read_bytes())
    with pytest.raises(ValueError, match="made in Python"):
        read_agent(tmp_path)


def begun(agent, env):
    """A state with statistics of some random observations and rewards, without any training."""
    random = np.random.default_rng(0)
    state = agent.init(jax.random.key(1), jnp.asarray(random.normal(size=4), jnp.float32))
    stats, scale = state.normalizer
    for _ in range(20):
        stats = normalize.update(stats, jnp.asarray(random.normal(size=4), jnp.float32))
        reward = jnp.float32(random.normal())
        scale = normalize.update_reward_scale(scale, reward, jnp.asarray(False), 0.9)
    return state._replace(normalizer=type(state.normalizer)(stats, scale), step=jnp.int32(120))


@pytest.mark.parametrize(
    "target", ["max", *(pytest.param(t, marks=pytest.mark.nightly) for t in ("sarsa", "expected"))]
)
def test_each_target_has_its_own_error(target):
    agent = tiny.agent(4, 2, target=target, gamma=0.9)
    env = make(PAINTED, render_mode="rgb_array", max_episode_steps=6)
    state = begun(agent, env)
    recording = record(agent, state, env, greedy=False, episode=1)
    q = outputs(
        agent.network,
        state.w,
        normalised(state.normalizer.observations, recording.observations),
    )
    steps = np.arange(len(recording))
    value = q[steps, recording.actions]
    epsilon = 1.0 - 0.9 * 120 / 200
    following = {
        "max": q[1:].max(axis=1),
        "expected": epsilon * q[1:].mean(axis=1) + (1 - epsilon) * q[1:].max(axis=1),
        # The last action is not taken any more; all others are in the recording.
        "sarsa": np.append(q[steps[1:], recording.actions[1:]], np.nan),
    }[target]
    delta = scaled(state, recording.rewards) + 0.9 * following - value
    if target == "sarsa":
        last = recording.td_errors[-1] - scaled(state, recording.rewards)[-1] + value[-1]
        assert np.min(np.abs(last - 0.9 * q[-1])) < 1e-5
        delta[-1] = recording.td_errors[-1]
    # Cut off after six steps, and so bootstrapped from where it really ended.
    assert (len(recording), recording.terminated, recording.truncated) == (6, False, True)
    assert len(set(recording.actions.tolist())) == 2
    np.testing.assert_allclose(recording.td_errors, delta, rtol=1e-4, atol=1e-5)


def test_pictures_of_gymnasium_belong_to_their_steps():
    agent = tiny.agent(4, 2)
    env = make(PAINTED, render_mode="rgb_array")
    recording = record(agent, begun(agent, env), env)
    assert recording.terminated
    counts = recording.frames[:, 0, 0, 0]
    # The picture after the end would be that of the next episode.
    assert counts.tolist() == [*range(len(recording)), len(recording) - 1]
    short = record(agent, begun(agent, env), env, max_steps=4)
    assert (len(short), short.terminated, short.truncated) == (4, False, False)
    assert short.frames[:, 0, 0, 0].tolist() == [0, 1, 2, 3, 4]
    np.testing.assert_array_equal(short.td_errors, recording.td_errors[:4])


@pytest.mark.parametrize(
    "preset", [pytest.param("ppo", marks=pytest.mark.nightly), "gradient-ppo", "gradient-ac"]
)
def test_values_h_and_errors_of_states(preset, tmp_path):
    settings = tiny_ppo.SETTINGS.get(preset, {})
    result = train(preset, PAINTED, steps=64, seeds=2, out=tmp_path / "run", **settings)
    recording = record_episode(tmp_path / "run", seed=1)
    state = one(result.state.agent, 1)
    if preset == "gradient-ac":
        w, theta, clip = state.w, state.theta, np.inf
    else:
        (_, w, theta), clip = state.networks, 10.0
    seen = normalised(state.normalizer.observations, recording.observations, clip=clip)
    v = outputs(result.agent.critic, w, seen)[:, 0]
    np.testing.assert_allclose(recording.values, v[:-1], rtol=1e-4, atol=1e-5)
    following = 0.99 * v[1:]
    following[-1] *= not recording.terminated
    delta = scaled(state, recording.rewards, clip=clip) + following - v[:-1]
    np.testing.assert_allclose(recording.td_errors, delta, rtol=1e-4, atol=1e-5)
    if preset == "ppo":
        assert recording.auxiliary is None
    else:
        h = outputs(result.agent.critic, theta, seen)[:-1, 0]
        np.testing.assert_allclose(recording.auxiliary, h, rtol=1e-4, atol=1e-6)
    assert not recording.of_actions


class Stairs(Environment):
    """Three steps down; the picture's first pixel says how far."""

    name = "Stairs"
    observation_space = Box(0.0, 1.0, (4,))
    action_space = Discrete(2)

    def reset(self, key, params):
        return jnp.int32(0), jnp.ones(4)

    def step(self, key, state, action, params):
        down, no = state + 1, jnp.asarray(False)
        return Step(down, jnp.ones(4), jnp.float32(0.0), down == 3, no)

    def render(self, state, params):
        return jnp.zeros((2, 5, 3), jnp.uint8).at[0, 0].set(state.astype(jnp.uint8))


@pytest.mark.parametrize(("limit", "seen"), [(None, [0, 1, 2, 3]), (2, [0, 1, 2])])
def test_a_world_in_jax_draws_itself_up_to_its_end(limit, seen):
    env = Stairs() if limit is None else TimeLimit(Stairs(), limit)
    agent = tiny.agent()
    state = agent.init(jax.random.key(0), jnp.ones(4))
    recording = record(agent, state, env)
    assert recording.frames[:, 0, 0, 0].tolist() == seen
    assert (recording.terminated, recording.truncated) == (limit is None, limit is not None)


def test_what_cannot_be_drawn_says_so(tmp_path):
    agent = tiny.agent()
    with pytest.raises(ValueError, match=r"'Probe/OffPolicy-v0' .* it renders nothing"):
        record(agent, None, make("Probe/OffPolicy-v0"))
    train("qrc", "tests.training.painted:Silent-v0", steps=20, out=tmp_path / "run")
    with pytest.raises(ValueError, match=r"cannot be drawn: there is nothing to see"):
        record_episode(tmp_path / "run")
    env = make("tests.training.painted:Silent-v0")
    with pytest.raises(ValueError, match="cannot be drawn"):
        record(agent, begun(agent, env), env)


def film_of_hopper(program, **variables):
    """MuJoCo in a process of its own: where it draws is settled when it is imported."""
    pytest.importorskip("mujoco")
    hopper = "from eligrad.envs import make\nfrom eligrad.training.recording import record\n"
    hopper += "env = make('Hopper-v4', render_mode='rgb_array')\n"
    kept = {k: v for k, v in os.environ.items() if k not in ("DISPLAY", "WAYLAND_DISPLAY")}
    return subprocess.run(
        [sys.executable, "-c", hopper + program],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env=kept | variables,
    )


@pytest.mark.nightly
@pytest.mark.skipif(ctypes.util.find_library("EGL") is None, reason="there is no EGL to draw with")
def test_mujoco_is_drawn_without_a_screen():
    program = (
        "import jax, jax.numpy as jnp\n"
        "from tests.engines import tiny_ppo\n"
        "agent = tiny_ppo.agent('ppo', env)\n"
        "state = agent.init(jax.random.key(0), jnp.zeros((1, 11)))\n"
        "frames = record(agent, state, env, max_steps=3).frames\n"
        "print(frames.shape, (frames.std(axis=(1, 2, 3)) > 10).all())\n"
        "print((frames[0] != frames[3]).any())\n"
    )
    result = film_of_hopper(program, MUJOCO_GL="egl")
    assert result.stdout == "(4, 480, 480, 3) True\nTrue\n", result.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a window needs no DISPLAY")
def test_mujoco_without_anything_to_draw_with_says_what_to_do():
    result = film_of_hopper("record(None, None, env)", MUJOCO_GL="glfw")
    said = result.stderr.splitlines()
    (told,) = [line for line in said if line.startswith("ValueError: 'Hopper-v4' cannot be drawn")]
    assert told.count("set the environment variable MUJOCO_GL to egl") == 1
