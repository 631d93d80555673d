"""What an agent makes of a world that was watched, and what is written down of it.

The raw stream of a simulator is enough to do all of it again in NumPy: normalisation, actions,
updates, and the columns of the table of chunks.
"""

from __future__ import annotations

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from eligrad.agents import Rollout
from eligrad.engines.dispatch import split_step_key
from eligrad.envs.adapters.gymnasium import GymnasiumEnvironment
from eligrad.training import train
from tests.agents import ppo_cases as cases
from tests.engines import tiny_ppo as tiny

pytestmark = [
    pytest.mark.usefixtures("quickest_compilation"),
]

LOW, HIGH = np.array([-1.0, -0.5], np.float32), np.array([1.0, 1.5], np.float32)


class Push(gymnasium.Env):
    """A point pushed about, which writes down all that happens to it."""

    copies: list[Push]

    def __init__(self):
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float32)
        self.action_space = gymnasium.spaces.Box(LOW, HIGH, (2,), np.float32)
        self.firsts, self.rows, self.lengths = [], [], []
        self.copies.append(self)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.steps = self.np_random.uniform(-0.5, 0.5), 0
        self.firsts.append(self._observe())
        return self.firsts[-1], {}

    def step(self, action):
        self.place += 0.3 * action[0] + 0.1 * action[1] * self.place
        self.steps += 1
        terminated, truncated = abs(self.place) > 1, self.steps >= 7
        self.rows.append((action, 2.0 - self.place**2, terminated, truncated, self._observe()))
        return self._observe(), self.rows[-1][1], terminated, truncated, {}

    def _observe(self):
        return np.array([5 + self.place, 0.1 * np.sin(3 * self.place)], np.float32)


class NormalizedTransition:
    """Mean and deviation of all that was seen, kept by keeping all of it."""

    def __init__(self):
        self.samples = []

    def deviation(self):
        return np.sqrt(np.var(self.samples, axis=0, ddof=1) + 1e-8)

    def normal(self, x):
        return np.clip((x - np.mean(self.samples, axis=0)) / self.deviation(), -10, 10)


def streams(copies):
    """What simulators wrote down, in columns [time, copies], and the first observations."""
    steps = len(copies[0].rows)
    first = np.array([copy.firsts[0] for copy in copies])
    columns = [
        np.array([[copy.rows[t][field] for copy in copies] for t in range(steps)])
        for field in range(5)
    ]
    following = columns[4].copy()
    for e, copy in enumerate(copies):
        ended = [t for t in range(steps) if columns[2][t, e] or columns[3][t, e]]
        for t, observation in zip(ended, copy.firsts[1:], strict=True):
            following[t, e] = observation
    return first, columns, following


def play_again(agent, copies, seed, rollouts):
    """All updates and what was told of them, from the streams alone."""
    config = jax.tree.map(float, agent.config)
    envs, time = config.num_envs, config.rollout // config.num_envs
    first, (sent, reward, terminated, truncated, arrived), following = streams(copies)
    key = jax.random.key(seed)
    networks = agent.init(jax.random.fold_in(key, 0), jnp.asarray(first)).networks
    learner = cases.learner(config, "gaussian", networks)
    seen, returns, trace = NormalizedTransition(), NormalizedTransition(), np.zeros(envs)
    seen.samples += [*first]
    x, told = seen.normal(first), []
    for number in range(rollouts):
        act_key, learn_key = split_step_key(key, jnp.int32(number + 1))
        noise = np.asarray(agent.policy.noise(act_key, (time, envs)), np.float64)
        *layers, log_std = learner.networks["actor"]
        rows = []
        for t in range(time):
            now = number * time + t
            mean = [cases.numpy_ppo.forward(layers, row)[0] for row in x]
            action = mean + np.exp(log_std) * noise[t]
            stretched = (LOW + HIGH) / 2 + (HIGH - LOW) / 2 * action
            np.testing.assert_allclose(sent[now], np.clip(stretched, LOW, HIGH), atol=1e-4)
            trace = config.gamma * trace * ~(terminated[now] | truncated[now]) + reward[now]
            returns.samples += [*trace]
            seen.samples += [*following[now]]
            scaled = np.clip(reward[now] / returns.deviation(), -10, 10)
            rows.append((x, action, scaled, terminated[now], truncated[now]))
            rows[-1] += (seen.normal(arrived[now]),)
            x = seen.normal(following[now])
        rollout = Rollout(*map(np.array, zip(*rows, strict=True)))
        told.append(learner.learn(rollout, cases.minibatches(config, learn_key)))
    return networks, learner, told


@pytest.fixture(
    scope="module",
    params=["ppo", pytest.param("gradient-ppo", marks=pytest.mark.nightly)],
)
def watched(request):
    """Two rollouts of an agent in two simulators; and what they come to once more."""
    Push.copies = []
    env = GymnasiumEnvironment(Push)
    Push.copies.clear()  # one was built to look at it
    agent = tiny.agent(request.param, env, num_envs=2, entropy_bonus=0.01)
    result = train(agent, env, steps=64, seeds=[5])
    copies = Push.copies.copy()
    return agent, env, copies, result, *play_again(agent, copies, 5, 2)


def test_the_parameters_are_those_of_the_stream(watched):
    *_, result, networks, learner, _ = watched
    for name, params in learner.networks.items():
        if params:
            ours = [leaf[0] for leaf in cases.leaves(getattr(result.state.agent.networks, name))]
            first = cases.leaves(getattr(networks, name))
            assert cases.distance(ours, params, first) < 1e-3, name


def test_the_table_says_what_happened(watched):
    """Every diagnostic, in each chunk of one rollout."""
    *_, result, _, learner, told = watched
    chunks = result.chunks.to_pandas()
    assert list(chunks["step"]) == [32, 64]
    for row, tells in zip(chunks.to_dict("records"), told, strict=True):
        for name, number in tells.items():
            assert row[name] == pytest.approx(number, rel=2e-3, abs=1e-4), name
    expected = {
        "policy_loss", "critic_loss", "entropy", "approximate_kl", "clip_fraction", "applied",
        "explained_variance", "lambda_error", "actor_gradient_norm", "critic_gradient_norm",
    }  # fmt: skip
    if learner.rule:
        expected |= {"abs_h", "pbe", "auxiliary_gradient_norm", *cases.numpy_ppo.HEALTH}
    assert expected <= set(chunks.columns)


def test_the_table_knows_where_time_went(watched):
    chunks = watched[3].chunks.to_pandas()
    for name in ("rollout_seconds", "update_seconds"):
        assert (chunks[name] > 0).all()
    assert (chunks["rollout_seconds"] + chunks["update_seconds"] <= chunks["seconds"]).all()


def test_episodes_are_those_of_the_stream(watched):
    """Each at the step at which it ended; step t of simulator e is 2 t + e, counted from 1."""
    _, (_, reward, terminated, truncated, _), _ = streams(watched[2])
    expected = []
    for e in range(2):
        begun = 0
        for t in np.flatnonzero(terminated[:, e] | truncated[:, e]):
            expected.append((2 * t + e + 1, reward[begun : t + 1, e].sum(), t + 1 - begun))
            begun = t + 1
    episodes = watched[3].episodes
    assert list(episodes["step"].to_numpy()) == [step for step, *_ in sorted(expected)]
    for name, place in (("return", 1), ("length", 2)):
        np.testing.assert_allclose(
            episodes[name].to_numpy(), [row[place] for row in sorted(expected)], rtol=1e-5
        )
    kinds = terminated & ~truncated, truncated & ~terminated
    assert all(kind.any() for kind in kinds)


def test_a_chunk_of_several_rollouts_has_their_mean(watched):
    agent, env, _, result, *_ = watched
    (row,) = train(agent, env, steps=64, seeds=[5], chunk=64).chunks.to_pylist()
    each = result.chunks.to_pandas()
    for name in ("lambda_error", "approximate_kl", "explained_variance", "applied"):
        assert row[name] == pytest.approx(each[name].mean(), rel=1e-4), name


@pytest.mark.nightly
def test_jax_environments_tell_the_same_but_for_the_time():
    """Collecting and learning are one program there."""
    env = tiny.Drift()
    result = train(tiny.agent("gradient-ppo", env), env, steps=32, seeds=2)
    assert {"pbe", "abs_h", "explained_variance", "clip_fraction"} <= set(
        result.chunks.column_names
    )
    assert np.isfinite(result.chunks["pbe"].to_numpy()).all()
