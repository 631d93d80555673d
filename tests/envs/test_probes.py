"""The probes: their answers, what they detect, and the same transitions in JAX and Gymnasium."""

import functools
from typing import NamedTuple

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from eligrad.envs import probes
from eligrad.envs.adapters.to_gymnasium import GymnasiumFromJax
from eligrad.envs.core import step_autoreset
from eligrad.envs.names import PROBES
from eligrad.envs.probes_gymnasium import make_probe

pytestmark = pytest.mark.usefixtures("quick_compilation")

NAMES = list(PROBES)
DISCRETE = [name for name in NAMES if name != "Probe/Continuous-v0"]


@functools.cache
def jax_probe(name):
    """One instance of each, so that it is compiled once."""
    return make_probe(name).jax_env


def rows(env):
    """The number of each observation that is acted on."""
    return {row.tobytes(): i for i, row in enumerate(env.observations)}


class Stream(NamedTuple):
    """A stream of episodes: what was acted on, and what came of it."""

    observation: np.ndarray
    action: np.ndarray
    reward: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    next_observation: np.ndarray
    following: np.ndarray
    """What is acted on next: the next episode's first observation after an end."""


def random_actions(env, steps, seed):
    rng = np.random.default_rng(seed)
    if env.action_space.shape == ():
        return rng.integers(env.action_space.n, size=steps).astype(np.int32)
    return rng.uniform(-1, 1, (steps, *env.action_space.shape)).astype(np.float32)


@functools.cache
def engine(env):
    """`step_autoreset`, all in one scan."""
    params = env.default_params()

    def body(carry, action):
        key, state, observation = carry
        key, now = jax.random.split(key)
        t = step_autoreset(env, now, state, action, params)
        seen = (observation, action, t.reward, t.terminated, t.truncated, t.next_observation)
        return (key, t.state, t.observation), Stream(*seen, t.observation)

    @jax.jit
    def run(key, actions):
        key, first = jax.random.split(key)
        return jax.lax.scan(body, (key, *env.reset(first, params)), actions)[1]

    return run


def jax_stream(env, actions, seed):
    return Stream(*map(np.asarray, engine(env)(jax.random.key(seed), actions)))


def gymnasium_stream(env, actions, seed):
    """Through Gymnasium's `reset` and `step`, in a Python loop."""
    observation, _ = env.reset(seed=seed)
    rows = []
    for action in actions:
        final, reward, terminated, truncated, _ = env.step(action)
        following = env.reset()[0] if terminated or truncated else final
        rows.append((observation, action, reward, terminated, truncated, final, following))
        observation = following
    return Stream(*map(np.array, zip(*rows, strict=True)))


def assert_same(a, b):
    for field, x, y in zip(Stream._fields, a, b, strict=True):
        np.testing.assert_array_equal(x, y, err_msg=field)


# The same transitions, whichever way.


@pytest.mark.parametrize("name", NAMES)
def test_jax_and_gymnasium_yield_the_same_transitions(name):
    env = jax_probe(name)
    actions = random_actions(env, 60, seed=1)
    assert_same(
        jax_stream(env, actions, seed=7), gymnasium_stream(GymnasiumFromJax(env), actions, seed=7)
    )


class PlainTrace(gym.Env):
    """The trace probe in plain Python, from its description."""

    def reset(self, *, seed=None, options=None):
        self.choice, self.walked = None, 0
        return self.observe(), {}

    def observe(self):
        observation = [0.0] * 21
        if self.choice is None:
            observation[0] = 1.0
        elif self.walked < 10:
            observation[1 + 10 * self.choice + self.walked] = 1.0
        return observation

    def step(self, action):
        if self.choice is None:
            self.choice = int(action)
            return self.observe(), 0.0, False, False, {}
        self.walked += 1
        ended = self.walked == 10
        reward = {0: -1.0, 1: 1.0}[self.choice] if ended else 0.0
        return self.observe(), reward, ended, False, {}


class PlainTruncation(gym.Env):
    """The truncation probe in plain Python; told where each episode begins."""

    rings = ((0, 1, 2, 3), (4, 5, 6, 7))

    def __init__(self, beginnings):
        self.beginnings = iter(beginnings)

    def reset(self, *, seed=None, options=None):
        self.place, self.left = int(next(self.beginnings)), 3
        return self.observe(), {}

    def observe(self):
        return [float(i == self.place) for i in range(8)]

    def step(self, action):
        ring = self.rings[self.place in self.rings[1]]
        reward = 1.0 if ring is self.rings[1] else 0.0
        self.place = ring[(ring.index(self.place) + 1) % 4]
        self.left -= 1
        return self.observe(), reward, False, self.left == 0, {}


class PlainOffPolicy(gym.Env):
    """The off-policy probe in plain Python; told where each episode begins."""

    def __init__(self, beginnings):
        self.beginnings = iter(beginnings)

    def reset(self, *, seed=None, options=None):
        self.home = self.place = "AB"[int(next(self.beginnings))]
        return self.observe(), {}

    def observe(self):
        return [float(self.place == place) for place in ("A", "B", "junction", "detour")]

    def step(self, action):
        way = {
            ("A", 0): ("out", 0.5),
            ("B", 0): ("out", 0.5),
            ("A", 1): ("junction", 0.0),
            ("B", 1): ("junction", 0.0),
            ("junction", 0): ("detour", 0.0),
            ("junction", 1): ("out", 1.0),
            ("detour", 0): ("out", -3.0 if self.home == "A" else 3.0),
            ("detour", 1): ("out", -3.0 if self.home == "A" else 3.0),
        }
        self.place, reward = way[self.place, int(action)]
        return self.observe(), reward, self.place == "out", False, {}


@pytest.mark.parametrize(
    ("probe", "plain"),
    [
        ("Trace", lambda beginnings: PlainTrace()),
        ("Truncation", PlainTruncation),
        ("OffPolicy", PlainOffPolicy),
    ],
)
@pytest.mark.parametrize("seed", [0, 1])
def test_probes_match_plain_python_ones(probe, plain, seed):
    env = jax_probe(f"Probe/{probe}-v0")
    actions = random_actions(env, 200, seed)
    ours = jax_stream(env, actions, seed)
    ended = ours.terminated | ours.truncated
    beginnings = np.concatenate([ours.observation[:1], ours.following[ended]]).argmax(1)
    assert ended.sum() > 10
    assert_same(ours, gymnasium_stream(plain(beginnings), actions, seed))


def test_a_truncated_episode_of_three_steps():
    """Final observation, discount and reset, in both worlds."""
    env, gamma = jax_probe("Probe/Truncation-v0"), 0.9
    actions = np.zeros(6, np.int32)
    for stream in (
        jax_stream(env, actions, seed=3),
        gymnasium_stream(GymnasiumFromJax(env), actions, seed=3),
    ):
        np.testing.assert_array_equal(stream.truncated, [False, False, True] * 2)
        discount = gamma * (1.0 - stream.terminated)
        np.testing.assert_array_equal(discount, [gamma] * 6)
        first, second = stream.observation[[0, 3]].argmax(1)
        ring = 4 * (first // 4)
        # Three places on, round the ring: the real final observation …
        assert stream.next_observation[2].argmax() == ring + (first + 3) % 4
        # … which is not what the next episode begins with, while no other step shows a break.
        np.testing.assert_array_equal(stream.following[2], stream.observation[3])
        assert second != stream.next_observation[2].argmax()
        np.testing.assert_array_equal(stream.following[[0, 1]], stream.next_observation[[0, 1]])


# The answers.


@functools.cache
def model_of(env):
    """All transitions `(observation, action, reward, terminated, next observation)`, by search."""
    params, key = env.default_params(), jax.random.key(0)
    reset = jax.jit(env.reset)
    frontier = [reset(k, params) for k in jax.random.split(key, 40)]
    index, known, model = rows(env), set(), []
    step = jax.jit(env.step)
    while frontier:
        state, observation = frontier.pop()
        label = str((state, observation))
        if label in known:
            continue
        known.add(label)
        for action in range(env.action_space.n):
            s = step(key, state, jnp.int32(action), params)
            here = index[np.asarray(observation).tobytes()]
            there = index.get(np.asarray(s.observation).tobytes(), 0)
            assert s.terminated or np.asarray(s.observation).tobytes() in index
            model.append((here, action, float(s.reward), bool(s.terminated), there))
            if not (s.terminated or s.truncated):
                frontier.append((s.state, s.observation))
    return model


@pytest.mark.parametrize("name", DISCRETE)
@pytest.mark.parametrize("gamma", [0.6, 0.95])
def test_answers_are_the_optimal_values(name, gamma):
    """By value iteration on what the environment does; what looks alike is averaged."""
    env = jax_probe(name)
    model = model_of(env)
    q = np.zeros((len(env.observations), env.action_space.n))
    for _ in range(600):
        sums, counts = np.zeros_like(q), np.zeros_like(q)
        for here, action, reward, terminated, there in model:
            sums[here, action] += reward + gamma * (1 - terminated) * q[there].max()
            counts[here, action] += 1
        q = sums / counts
    np.testing.assert_allclose(env.action_values(gamma), q, atol=1e-6)
    np.testing.assert_allclose(env.values(gamma), q.max(1), atol=1e-6)
    for row, best in zip(q, env.optimal_actions, strict=True):
        np.testing.assert_array_equal(
            np.flatnonzero(row > row.max() - 1e-9), range(len(row)) if best is None else [best]
        )


def test_continuous_answers():
    env = probes.Continuous()
    grid = jnp.linspace(-1.0, 1.0, 401)
    key, params = jax.random.key(0), env.default_params()
    for i, observation in enumerate(env.observations):

        def reward(a, i=i):
            return env.step(key, jnp.int32(i), a[None], params).reward

        rewards = jax.vmap(reward)(grid)
        best = float(grid[rewards.argmax()])
        np.testing.assert_allclose(best, env.optimal_actions[i], atol=1e-6)
        np.testing.assert_allclose(best, observation[0] / 2, atol=1e-6)
        np.testing.assert_allclose(rewards.max(), env.values(0.9)[i], atol=1e-9)
        assert rewards.min() < -0.2


# What they detect: a table learns the right answers, and with one fault it does not.


def learn(stream, env, gamma, lam, *, fault=None, cut="watkins", step_size=None):
    """Tabular Q(lambda), with at most one thing broken."""
    q = np.zeros((len(env.observations), env.action_space.n))
    visits = np.zeros_like(q)
    trace = np.zeros_like(q)

    index = rows(env)

    def row(observation):
        # The observation after an end has no row of its own, and its value does not count.
        return 0 if fault == "ignores observations" else index.get(observation.tobytes(), 0)

    for o, a, r, terminated, truncated, final, following in zip(*stream, strict=True):
        here, action = row(o), 0 if fault == "ignores actions" else a
        visits[here, action] += 1
        discount = gamma * (1 - terminated)
        if fault == "bootstraps past the end":
            discount = gamma
        if fault == "takes truncation for termination":
            discount *= 1 - truncated
        if fault == "never bootstraps":
            discount = 0.0
        bootstrap = following if fault == "bootstraps from the next episode" else final
        greedy = q[here, action] == q[here].max()
        if cut == "watkins" and not greedy:
            trace[:] = 0
        trace[here, action] += 1
        delta = r + discount * q[row(bootstrap)].max() - q[here, action]
        rate = step_size or 1 / np.sqrt(visits[here, action] + 3)
        q += rate * delta * trace
        trace *= gamma * lam
        if terminated or truncated or (cut == "after" and not greedy):
            trace[:] = 0
    return q


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("Reward", "bootstraps past the end"),
        ("Observation", "ignores observations"),
        ("Discount", "never bootstraps"),
        ("Action", "ignores actions"),
        ("Policy", "ignores observations"),
        ("Truncation", "takes truncation for termination"),
        ("Truncation", "bootstraps from the next episode"),
    ],
)
def test_one_fault_shows_and_none_does_not(name, fault):
    env, gamma = jax_probe(f"Probe/{name}-v0"), 0.7
    stream = jax_stream(env, random_actions(env, 2000, seed=0), seed=0)
    answers = env.action_values(gamma)
    np.testing.assert_allclose(learn(stream, env, gamma, lam=0.0), answers, atol=0.1)
    assert np.abs(learn(stream, env, gamma, lam=0.0, fault=fault) - answers).max() > 0.3


def test_one_step_learning_cannot_bridge_the_delay():
    env, gamma = jax_probe("Probe/Trace-v0"), 0.95
    episodes, length = env.length, env.length + 1
    actions = random_actions(env, episodes * length, seed=0)
    actions[0], actions[length] = 0, 1
    stream = jax_stream(env, actions, seed=0)
    assert stream.terminated.sum() == episodes

    # Only the first action is a choice; greedy or not does not matter behind it.
    one_step = learn(stream, env, gamma, lam=0.0, cut="never", step_size=1.0)
    np.testing.assert_array_equal(one_step[0], [0.0, 0.0])
    head = Stream(*(column[: 2 * length] for column in stream))
    with_trace = learn(head, env, gamma, lam=0.9, cut="never", step_size=1.0)
    assert with_trace[0, 1] > 0 > with_trace[0, 0]


@pytest.mark.parametrize("cut", ["watkins", "after", "never"])
def test_uncut_traces_show(cut):
    env, gamma, lam = jax_probe("Probe/OffPolicy-v0"), 0.9, 0.9
    stream = jax_stream(env, random_actions(env, 20_000, seed=0), seed=0)
    q = learn(stream, env, gamma, lam, cut=cut, step_size=0.02)
    # What was learned fluctuates with the step size: look at going from A less going from B.
    biased = -3 * (gamma * lam) ** 2
    difference = q[env.A, 1] - q[env.B, 1]
    if cut == "never":
        np.testing.assert_allclose(difference, biased, atol=0.5)
        assert q[env.A].argmax() == 0
    else:
        np.testing.assert_allclose(difference, 0.0, atol=0.25)
        np.testing.assert_array_equal(q[:3].argmax(1), env.optimal_actions[:3])
