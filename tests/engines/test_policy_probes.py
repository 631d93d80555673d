"""Agents with a policy solve every probe; told less than the truth, they do not."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from eligrad import normalize
from eligrad.agents import RolloutAgent
from eligrad.agents.policies import over_batch
from eligrad.engines import Rollouts, Runs
from eligrad.envs import probes
from tests.agents.test_probes import NUMBER, PROBES, ROWS, AnyProbe
from tests.engines import tiny_ppo as tiny
from tests.engines.tiny import nightly

pytestmark = [
    pytest.mark.usefixtures("quick_compilation"),
]

SEEDS, STEPS = 2, 4096
GAMMA = 0.8
COMMON: dict[str, Any] = {
    "gamma": GAMMA,
    "rollout": 128,
    "minibatch_size": 64,
    "epochs": 4,
    "actor_step_size": 0.02,
    "critic_step_size": 0.02,
    "entropy_bonus": 0.001,
}
# Rewards have noise, and ObGD's steps are as long as κ lets them be.
STREAM: dict[str, Any] = {"gamma": GAMMA, "entropy_bonus": 0.001, "critic_kappa": 5.0}
SETTINGS = {
    "ppo": COMMON,
    "gradient-ppo": COMMON | {"h_step_size": 0.02, "sequence": 16},
    "stream-ac": STREAM,
    "gradient-ac": STREAM,
}


class Lying(AnyProbe):
    """Any probe, told as it is or as if every cut were an end."""

    def default_params(self):
        return super().default_params(), np.bool_(False)

    def reset(self, key, params):
        return super().reset(key, params[0])

    def step(self, key, state, action, params):
        stepped = super().step(key, state, action, params[0])
        return stepped._replace(terminated=stepped.terminated | (stepped.truncated & params[1]))


class Learned(NamedTuple):
    """What became of the runs of one lesson, [seeds, observations, …]."""

    values: np.ndarray
    """In units of the reward as the environment pays it."""
    policy: np.ndarray
    """Probabilities of actions, or the likeliest one of continuous ones."""


# `OffPolicy` is for those who learn off-policy. Others find what beats its greedy policy: to go
# from B only, which makes straying pay.
LESSONS = {name: (NUMBER[name], np.bool_(False)) for name in PROBES if name != "OffPolicy"} | {
    "Truncation, told as an end": (NUMBER["Truncation"], np.bool_(True))
}


def train(agent, env, params, seeds):
    """The agents of all runs, and their states after the last step."""
    engine: Any = Rollouts if isinstance(agent, RolloutAgent) else Runs
    runs = engine(agent, env, params, seeds, 100 + seeds)
    runs.advance(STEPS)
    return runs.agents, runs.state.agent


@jax.jit
@jax.vmap
def read(agent, state, rows):
    """Values and distributions of one run at raw observations."""
    of_rollouts = isinstance(agent, RolloutAgent)
    seen = normalize.normalize(
        state.normalizer.observations, rows, clip=10.0 if of_rollouts else None
    )
    scale = jnp.sqrt(normalize.variance(state.normalizer.rewards.stats) + 1e-8)
    actor, critic = state.networks[:2] if of_rollouts else (state.actor, state.w)
    values = over_batch(agent.critic.apply, 1)(critic, seen)[:, 0]
    return scale * values, over_batch(agent.policy, 1)(actor, seen)


@functools.cache
def learned(preset, rule=None, **changes):
    """All discrete probes and the lie, in one program."""
    env = Lying()
    settings = SETTINGS[preset] | ({"rule": rule} if rule else {}) | changes
    agent = tiny.agent(preset, env, **settings)
    repeated = [params for params in LESSONS.values() for _ in range(SEEDS)]
    params = jax.tree.map(lambda *each: np.stack(each), *repeated)
    trained = train(agent, env, params, np.tile(np.arange(SEEDS), len(LESSONS)))
    values, policy = read(*trained, jnp.asarray(ROWS)[params[0]])
    by_lesson = jax.tree.map(
        lambda x: np.asarray(x).reshape(len(LESSONS), SEEDS, *x.shape[1:]),
        (values, jax.nn.softmax(policy.logits)),
    )
    return {
        name: Learned(*(x[place, :, : len(probe(name).observations)] for x in by_lesson))
        for place, name in enumerate(LESSONS)
    }


def probe(lesson):
    return PROBES[lesson.partition(",")[0]]


def solved(lesson, became: Learned):
    """For each seed, whether its policy is right; where there is none, whether its values are."""
    known = probe(lesson)
    right = [
        became.policy[:, row, best] > 0.9
        for row, best in enumerate(known.optimal_actions)
        if best is not None
    ]
    if not right:
        right = [np.abs(became.values - known.values(GAMMA)).max(axis=1) < 0.2]
    return np.all(right, axis=0)


AGENTS = [
    nightly("ppo", None),
    ("gradient-ppo", "tdrc"),
    nightly("gradient-ppo", "td"),
    nightly("gradient-ppo", "tdc"),
    ("gradient-ac", "tdrc"),
    nightly("stream-ac", "td"),
]


@pytest.mark.parametrize(("preset", "rule"), AGENTS)
def test_probes_are_solved(preset, rule):
    became = learned(preset, rule)
    honest = [name for name in LESSONS if "," not in name]
    failed = {name: became[name] for name in honest if not solved(name, became[name]).all()}
    assert not failed


@pytest.mark.parametrize(("preset", "rule"), [AGENTS[0], nightly(*AGENTS[1]), *AGENTS[2:]])
def test_who_takes_a_cut_for_an_end_fails(preset, rule):
    lie = "Truncation, told as an end"
    assert not solved(lie, learned(preset, rule)[lie]).any()


@pytest.mark.nightly
def test_policies_of_gtd2():
    """Its values circle around the right ones for long: what it is known for.

    It learns through h alone, which must keep up: with h as slow as for the other rules, four of
    eight seeds solve Trace; five times as fast, all of them.
    """
    became = learned("gradient-ppo", "gtd2", h_step_size=0.1)
    for name in ("Action", "Policy", "Trace"):
        assert solved(name, became[name]).all(), name


@pytest.mark.parametrize(
    ("preset", "rule"),
    [
        ("gradient-ppo", "tdrc"),
        ("gradient-ac", "tdrc"),
        *map(nightly, ("ppo", "gradient-ppo", "stream-ac"), (None, "gtd2", "td")),
    ],
)
def test_continuous_actions(preset, rule):
    env = probes.Continuous()
    agent = tiny.agent(preset, env, **SETTINGS[preset], **({"rule": rule} if rule else {}))
    trained = train(agent, env, (), np.arange(SEEDS))
    rows = jnp.broadcast_to(jnp.asarray(env.observations), (SEEDS, 3, 1))
    _, policy = read(*trained, rows)
    best = np.reshape(env.optimal_actions, (1, 3, 1))
    assert np.abs(policy.mean - best).max() < 0.1
