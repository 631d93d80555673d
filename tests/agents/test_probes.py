"""Every agent solves every probe that it should; and for each probe, a flawed one does not."""

import dataclasses
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from eligrad import normalize
from eligrad.agents import PRESETS, QLambda, QLambdaConfig, StreamingAgent, from_equinox
from eligrad.engines.stream import Runs
from eligrad.envs import probes
from eligrad.envs.core import Environment, Step
from eligrad.envs.spaces import Box, Discrete
from eligrad.nets import MLP

# One worker for all: what was learned is kept between tests.
pytestmark = [
    pytest.mark.usefixtures("quick_compilation"),
]

SEEDS, STEPS = 3, 4000
ON_POLICY = {"sarsa-lambda", "expected-sarsa-lambda"}


# All probes in one program, so that each agent is compiled once.


PROBES = {
    probe.name.removeprefix("Probe/").removesuffix("-v0"): probe
    for probe in (
        probes.Reward(),
        probes.Observation(),
        probes.Discount(),
        probes.Action(),
        probes.Policy(),
        probes.Trace(),
        probes.Truncation(),
        probes.OffPolicy(),
    )
}
NUMBER = {name: np.int32(i) for i, name in enumerate(PROBES)}
NOISE = np.array([0.3, 0.3, 0.0, 0.3, 0.3, 0.0, 0.0, 0.3], np.float32)
"""Of the last reward of an episode."""
WIDTH = max(probe.observations.shape[1] for probe in PROBES.values())


class AnyProbe(Environment):
    """The probe whose number is the parameter, its observations filled up with zeros.

    Rewards that can be the same from the first episode on get some noise: agents divide them by
    the deviation of the returns so far, and that of a constant is 0.
    """

    name = "AnyProbe"
    observation_space = Box(-1.0, 1.0, (WIDTH,))
    action_space = Discrete(2)

    def default_params(self):
        return np.int32(0)

    def reset(self, key, params):
        begun = [probe.reset(key, ()) for probe in PROBES.values()]
        padded = jnp.stack([_pad(observation) for _, observation in begun])
        return tuple(state for state, _ in begun), padded[params]

    def step(self, key, state, action, params):
        def one(number, probe):
            def step(state):
                stepped = probe.step(key, state[number], action, ())
                return stepped._replace(
                    state=(*state[:number], stepped.state, *state[number + 1 :]),
                    observation=_pad(stepped.observation),
                )

            return step

        branches = [one(number, probe) for number, probe in enumerate(PROBES.values())]
        stepped = Step(*jax.lax.switch(params, branches, state))
        noise = jnp.asarray(NOISE)[params] * jax.random.normal(key)
        reward = jnp.where(stepped.terminated, stepped.reward + noise, stepped.reward)
        return stepped._replace(reward=reward)


def _pad(observation):
    return jnp.pad(observation, (0, WIDTH - observation.size))


# What an agent can get wrong.


class Flaws(NamedTuple):
    blind: Any = False
    bootstraps_beyond_the_end: Any = False
    truncation_is_termination: Any = False
    bootstraps_from_next_episode: Any = False
    never_cuts: Any = False


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Flawed(StreamingAgent):
    """An agent told less than the truth."""

    agent: QLambda
    flaws: Flaws

    def see(self, observation):
        return jnp.where(self.flaws.blind, jnp.zeros_like(observation), observation)

    def init(self, key, observation):
        return self.agent.init(key, self.see(observation))

    def act(self, state, key):
        return self.agent.act(state, key)

    def sampled_action(self, state, observation, key):
        return self.agent.sampled_action(state, self.see(observation), key)

    def update(self, state, transition, key):
        flaws, e = self.flaws, transition
        ended = e.terminated | e.truncated
        terminated = jnp.where(flaws.truncation_is_termination, ended, e.terminated)
        arrived = jnp.where(flaws.bootstraps_from_next_episode, e.observation, e.next_observation)
        transition = e._replace(
            terminated=terminated & ~flaws.bootstraps_beyond_the_end,
            truncated=ended,
            next_observation=self.see(arrived),
            observation=self.see(e.observation),
        )
        state = state._replace(greedy=state.greedy | flaws.never_cuts)
        return self.agent.update(state, transition, key)

    def interrupt(self, state, observation):
        return self.agent.interrupt(state, self.see(observation))

    def greedy_action(self, state, observation):
        return self.agent.greedy_action(state, self.see(observation))

    def action_values(self, state, observation):
        """In units of the reward as the environment pays it."""
        seen = normalize.normalize(state.normalizer.observations, self.see(observation))
        scale = jnp.sqrt(normalize.variance(state.normalizer.rewards.stats) + 1e-8)
        return scale * self.agent.network.apply(state.w, seen)


# Lessons.


class Lesson(NamedTuple):
    """A probe, how to learn from it, and what to get wrong about it."""

    probe: str
    settings: dict[str, float]
    flaws: Flaws = Flaws()


RANDOMLY = {
    "step_size": 0.02,
    "gamma": 0.8,
    "lam": 0.8,
    "epsilon_start": 1.0,
    "epsilon_end": 1.0,
}
LESSONS = {
    name: Lesson(name, RANDOMLY)
    for name in ("Reward", "Observation", "Discount", "Action", "Policy")
} | {
    "Truncation": Lesson("Truncation", RANDOMLY | {"step_size": 0.03}),
    "OffPolicy": Lesson("OffPolicy", RANDOMLY | {"step_size": 0.003, "gamma": 0.95, "lam": 0.9}),
    "Trace": Lesson(
        "Trace",
        {
            "step_size": 0.001,
            "gamma": 0.95,
            "lam": 0.9,
            # Mostly greedy, since the traces of a greedy target end where it is strayed from.
            "epsilon_start": 0.2,
            "epsilon_end": 0.2,
        },
    ),
}


def _wrong(probe, flaws=None, **settings):
    lesson = LESSONS[probe]
    return lesson._replace(
        settings=lesson.settings | settings, flaws=Flaws(**{flaws: True}) if flaws else Flaws()
    )


WRONG = {
    "Reward, bootstrapping beyond the end": _wrong("Reward", "bootstraps_beyond_the_end"),
    "Observation, blind": _wrong("Observation", "blind"),
    "Discount, of no future": _wrong("Discount", gamma=0.0),
    "Action, not learning": _wrong("Action", step_size=0.0),
    "Policy, blind": _wrong("Policy", "blind"),
    "Trace, with none": _wrong("Trace", lam=0.0),
    "Truncation, taken for termination": _wrong("Truncation", "truncation_is_termination"),
    "Truncation, bootstrapped elsewhere": _wrong("Truncation", "bootstraps_from_next_episode"),
    "OffPolicy, with traces uncut": _wrong("OffPolicy", "never_cuts"),
}


def _zeros(key, shape):
    return jnp.zeros(shape)


NETWORK = from_equinox(
    lambda key, sparsity: MLP(
        WIDTH,
        2,
        hidden=(),
        activation=jnp.tanh,
        normalize=False,
        init=_zeros,
        output_init=_zeros,
        key=key,
    )
)
"""Linear, so that every rule is known to converge; the deep ones are tested step by step."""


VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "qrc-output": ("qrc", {"regularize": "output"}),
    "qrc-features": ("qrc", {"regularize": "output", "h": "features"}),
    "qrc-obgd": ("qrc", {"optimizer": "obgd"}),
    "qrc-output-obgd": ("qrc", {"regularize": "output", "optimizer": "obgd"}),
    "q-lambda-trace-adam": ("q-lambda", {"optimizer": "trace-adam"}),
    "qrc-output-trace-adam": ("qrc", {"regularize": "output", "optimizer": "trace-adam"}),
}


def _agent(name, lesson):
    preset, changes = VARIANTS.get(name, (name, {}))
    settings = {"sparsity": 0.0, "exploration_steps": 1.0} | lesson.settings | changes
    optimizer = settings.get("optimizer", PRESETS[preset].optimizer)
    if optimizer == "trace-adam":
        settings["step_size"] = 0.01
    if optimizer == "obgd" and lesson.probe != "OffPolicy":
        # Bounded at every step, so that kappa alone decides how far it goes. Such steps find a
        # median and not a mean, and that of the detour's ±3 could be anywhere in between.
        settings |= {"step_size": 1.0, "kappa": 20.0 if preset == "stream-q" else 5.0}
    config = dataclasses.replace(PRESETS[preset], **settings)
    return Flawed(
        QLambda(jax.tree.map(np.float32, config), NETWORK), jax.tree.map(np.bool_, lesson.flaws)
    )


@functools.cache
def learned(preset):
    """The action values of all probes' observations, by lesson; [seeds, observations, actions]."""
    lessons = LESSONS | (WRONG if preset == "qrc" else {})
    repeated = [lesson for lesson in lessons.values() for _ in range(SEEDS)]
    agents = jax.tree.map(lambda *leaves: np.stack(leaves), *[_agent(preset, r) for r in repeated])
    numbers = np.array([NUMBER[lesson.probe] for lesson in repeated])
    seeds = np.tile(np.arange(SEEDS), len(lessons))
    runs = Runs(agents, AnyProbe(), numbers, seeds, 100 + seeds)
    runs.advance(STEPS)
    return _read(runs, lessons, numbers)


def _read(runs, lessons, numbers):
    def table(agent, state, number):
        return jax.vmap(lambda o: agent.action_values(state, o))(jnp.asarray(ROWS)[number])

    values = jax.jit(jax.vmap(table))(runs.agents, runs.state.agent, numbers)
    by_lesson = np.asarray(values).reshape(len(lessons), SEEDS, *values.shape[1:])
    return {
        name: rows[:, : len(PROBES[lesson.probe].observations)]
        for rows, (name, lesson) in zip(by_lesson, lessons.items(), strict=True)
    }


ROWS = np.zeros((len(PROBES), WIDTH, WIDTH), np.float32)
for _table, _probe in zip(ROWS, PROBES.values(), strict=True):
    _height, _width = _probe.observations.shape
    _table[:_height, :_width] = _probe.observations


def solved(probe, values, gamma):
    """For each seed, whether the greedy policy is right, and the values are where they matter."""
    exact = probe.action_values(gamma)
    gap = np.abs(values - exact[None]).max(axis=(1, 2))
    right = np.ones(len(values), bool)
    for row, best in enumerate(probe.optimal_actions):
        if best is not None:
            margin = values[:, row, best] - values[:, row, 1 - best]
            right &= margin > (exact[row, best] - exact[row, 1 - best]) / 4
    if all(best is None for best in probe.optimal_actions):
        right &= gap < 0.35
    return right


NOT_ASKED = {
    **dict.fromkeys(ON_POLICY, ("OffPolicy",)),
    # Clipped errors find a median, too; and with corrections take longer than these steps.
    "q-lambda-trace-adam": ("OffPolicy",),
    "qrc-output-trace-adam": ("OffPolicy", "Truncation"),
}
# Each takes seconds to compile: in daily tests, one of every optimiser.
DAILY = ("qrc", "stream-q")


@pytest.mark.parametrize(
    "preset",
    [
        name if name in DAILY else pytest.param(name, marks=pytest.mark.nightly)
        for name, config in PRESETS.items()
        if isinstance(config, QLambdaConfig)  # PPO's: tests/engines/test_policy_probes.py
    ]
    + [pytest.param(name, marks=pytest.mark.nightly) for name in VARIANTS],
)
def test_probes_are_solved(preset):
    values = learned(preset)
    failed = {
        name: values[name]
        for name, lesson in LESSONS.items()
        if name not in NOT_ASKED.get(preset, ())
        and not solved(PROBES[name], values[name], lesson.settings["gamma"]).all()
    }
    assert not failed


@pytest.mark.parametrize("name", WRONG)
def test_a_flawed_agent_fails(name):
    lesson = WRONG[name]
    gamma = LESSONS[lesson.probe].settings["gamma"]
    assert not solved(PROBES[lesson.probe], learned("qrc")[name], gamma).any()
