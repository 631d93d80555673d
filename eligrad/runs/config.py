"""What is to be trained, checked before anything is compiled, in a form that JSON can hold."""

from __future__ import annotations

import dataclasses
import json
import math
import operator
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from eligrad._base.checks import MOST_STEPS, whole_number
from eligrad._damaged import DamagedFileError
from eligrad.agents import (
    PPO,
    PRESETS,
    TITLES,
    ActorCriticConfig,
    DiscretePolicy,
    GaussianPolicy,
    GradientPPO,
    GradientPPOConfig,
    Network,
    QLambda,
    QLambdaConfig,
    default_network,
    ppo_network,
)
from eligrad.envs import Discrete, HostEnvironment, make
from eligrad.envs.names import UnknownName, module_of
from eligrad.runs.fit import Agent, World, check_observations, number_of_actions

CHUNK = 1000
"""Steps between two looks at the clock, the signals and the progress bar."""
CHECKPOINTS = 20
"""Checkpoints over a run, unless told otherwise."""
EXPLORATION_FRACTION = 0.2
"""Share of the steps over which ε falls, unless told otherwise."""
_STEP_SIZES = ("step_size", "actor_step_size", "critic_step_size")
_NAMES_OF_OTHERS: dict[str, tuple[str, ...]] = {
    "learning_rate": _STEP_SIZES,
    "lr": _STEP_SIZES,
    "alpha": _STEP_SIZES,
    "gae_lambda": ("lam",),
    "lambda_": ("lam",),
    "exploration_initial_eps": ("epsilon_start",),
    "exploration_final_eps": ("epsilon_end",),
    "n_steps": ("rollout",),
    "n_envs": ("num_envs",),
    "n_epochs": ("epochs",),
    "batch_size": ("minibatch_size",),
    "clip_range": ("clip",),
    "clip_range_vf": ("value_clip",),
    "ent_coef": ("entropy_bonus",),
    "max_grad_norm": ("max_gradient_norm",),
    "seed": ("seeds",),
}
"""What settings are called in stable-baselines3 and in papers, for those who come from there."""

Config = QLambdaConfig | ActorCriticConfig


@dataclasses.dataclass(frozen=True)
class Plan:
    """A run in numbers and names: what `config.json` says, and enough to begin it again."""

    agent: str | None
    """A name of `PRESETS`; None for an agent that was made by hand."""
    settings: dict[str, Any]
    """All fields of the agent's config; a list where there is a value for each entry of `seeds`."""
    env: str | None
    """A name for `eligrad.envs.make`; None for an environment that was made by hand."""
    max_episode_steps: int | None
    env_params: dict[str, Any]
    """Where the numbers of a JAX environment differ from its own."""
    seeds: list[int]
    """One for each run."""
    steps: int
    """Environment steps of each seed."""
    chunk: int
    checkpoint_every: int
    """Steps, a multiple of `chunk`."""

    def __post_init__(self) -> None:
        for name in ("steps", "chunk", "checkpoint_every"):
            whole_number(name, getattr(self, name))
        for name in ("steps", "chunk"):
            if getattr(self, name) % self.rollout:
                raise ValueError(
                    f"{name} is {getattr(self, name)}; a multiple of rollout, which is "
                    f"{self.rollout}, is accepted"
                )
        if self.checkpoint_every % self.chunk:
            raise ValueError(
                f"checkpoint_every is {self.checkpoint_every}; a multiple of chunk, which is "
                f"{self.chunk}, is accepted"
            )
        if not self.seeds or len(set(self._runs())) < len(self.seeds):
            raise ValueError(f"seeds are {self.seeds}; different ones, at least 1, are accepted")
        if not all(0 <= seed <= MOST_STEPS for seed in self.seeds):
            raise ValueError(f"seeds are {self.seeds}; numbers from 0 to 2³¹ - 1 are accepted")

    @property
    def rollout(self) -> int:
        """Steps that an agent learns from at once."""
        return self.settings.get("rollout", 1)

    def part(self, runs: Sequence[int]) -> Plan:
        """The plan of some of the runs, by their places."""
        settings = {
            name: [value[run] for run in runs] if isinstance(value, list) else value
            for name, value in self.settings.items()
        }
        seeds = [self.seeds[run] for run in runs]
        return dataclasses.replace(self, settings=settings, seeds=seeds)

    def _runs(self) -> list[tuple[Any, ...]]:
        """What makes each run: its seed, and those settings of which each has its own."""
        each = [value for value in self.settings.values() if isinstance(value, list)]
        return list(zip(self.seeds, *each, strict=True))


def plan_in_file(content: Any, path: Path) -> Plan:
    """The plan that a file holds; one that makes no sense is refused with the file's name."""
    try:
        plan = Plan(**content)
        if plan.agent is not None:
            make_settings(plan.agent, plan.settings, len(plan.seeds))
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
        raise DamagedFileError(
            f"the plan in {path} is damaged, or of a later eligrad: {error}"
        ) from error
    return plan


def world_of(plan: Plan, path: Path, given: Any = None) -> World:
    """The environment of a plan that a file holds, or the one given in its place.

    A file may name a module, but not have it imported: whoever trusts it does that first.
    """
    if given is not None:
        return make_world(given, None if isinstance(given, World) else plan.max_episode_steps)
    if plan.env is None:
        raise ValueError(f"the environment of {path} was made by hand: pass env= again")
    module = module_of(plan.env)
    if module is not None and module not in sys.modules:
        raise ValueError(
            f"the environment of {path} is {plan.env!r}: to make it, the code of {module!r} would "
            f"be run. If you trust that, import it first; a command does it with --import {module}"
        )
    return make_world(plan.env, plan.max_episode_steps)


def chunk_for(steps: int, rollout: int = 1) -> int:
    """A rollout, for an agent that learns from those.

    Else about `CHUNK` steps, so that chunks fill the total: another size is compiled once more.
    """
    if rollout > 1:
        return rollout
    fitting = (n for n in range(CHUNK // 2, CHUNK + 1) if steps % n == 0)
    return max(fitting, default=min(steps, CHUNK))


def whole_rollouts(steps: int, rollout: int) -> int:
    """The steps with the last rollout complete."""
    return rollout * math.ceil(steps / rollout)


def checkpoint_every_for(steps: int, chunk: int) -> int:
    """So many chunks that there are about `CHECKPOINTS`."""
    return chunk * math.ceil(steps / chunk / CHECKPOINTS)


def grown(plan: Plan, steps: int | float) -> Plan:
    """The plan with another total of steps; more of them are saved more seldom, not more often."""
    steps = whole_rollouts(whole_number("steps", steps), plan.rollout)
    if steps == plan.steps:
        return plan
    every = max(plan.checkpoint_every, checkpoint_every_for(steps, plan.chunk))
    return dataclasses.replace(plan, steps=steps, checkpoint_every=every)


def each_seed(seeds: Any) -> list[int]:
    """The seeds of a number of runs, or those in a list."""
    if isinstance(seeds, Sequence | np.ndarray) and np.ndim(seeds):
        return [operator.index(seed) for seed in seeds]
    return list(range(whole_number("seeds", seeds)))


def env_seeds(seeds: Sequence[int], begun_at: int = 0) -> np.ndarray:
    """Seeds for the environments: theirs alone, whatever the agents' are."""
    sequences = (np.random.SeedSequence((seed, begun_at)) for seed in seeds)
    return np.array([sequence.generate_state(1)[0] >> 1 for sequence in sequences], np.int64)


def make_settings(preset: str, changes: dict[str, Any], runs: int = 1) -> dict[str, Any]:
    """The settings of a named agent with some of them changed, checked by name and value."""
    if preset not in PRESETS:
        raise UnknownName("agent", preset, PRESETS)
    settings = dict(vars(PRESETS[preset]))
    for name, value in changes.items():
        if name not in settings:
            known = (*settings, "seeds")
            here = [here for here in _NAMES_OF_OTHERS.get(name, ()) if here in known]
            raise UnknownName(f"setting of {preset}", name, known, here)
        if np.ndim(value) and (name in static_settings(PRESETS[preset]) or len(value) != runs):
            raise ValueError(
                f"{name} is {value}; one value is accepted, or for a number a list with one for "
                f"each of the {runs} runs"
            )
        settings[name] = np.asarray(value) if np.ndim(value) else value
    return settings_of(type(PRESETS[preset])(**settings))


def static_settings(config: Config) -> set[str]:
    """Names of the settings that shape the program, of which all runs have the same."""
    return {f.name for f in dataclasses.fields(config) if f.metadata.get("static")}


def settings_of(config: Config) -> dict[str, Any]:
    """A config as JSON values, once it is found to make sense."""
    config.check()
    static = static_settings(config)
    return {
        name: value if name in static else np.asarray(value, np.float64).tolist()
        for name, value in vars(config).items()
    }


def make_world(env: Any, max_episode_steps: int | None) -> World:
    """The environment of a name, or of a Gymnasium class; one that is made already is passed on."""
    if isinstance(env, str):
        return make(env, max_episode_steps=max_episode_steps)
    if isinstance(env, type) and issubclass(env, World):
        raise TypeError(f"env is the class {env.__name__}; an object of it is accepted")
    if not isinstance(env, World):
        if not callable(env):
            raise TypeError(
                f"env is {env!r}; a name, an environment of eligrad, or a Gymnasium class or a "
                "function that makes one is accepted: every seed has a copy of its own"
            )
        from eligrad.envs.adapters.gymnasium import GymnasiumEnvironment

        builder: Any = env
        return GymnasiumEnvironment(builder, max_episode_steps=max_episode_steps)
    if max_episode_steps is not None:
        raise ValueError(
            f"max_episode_steps is {max_episode_steps}, but {env!r} is made already: it is for "
            "environments given by name (eligrad.envs.make takes it)"
        )
    return env


def make_config(preset: str, settings: dict[str, Any]) -> Any:
    """The config of a named agent with these settings, as `settings_of` gives them."""
    arrays = {k: np.asarray(v) if isinstance(v, list) else v for k, v in settings.items()}
    return type(PRESETS[preset])(**arrays)


def make_agent(
    preset: str, settings: dict[str, Any], env: World, networks: Sequence[Network] = ()
) -> Agent:
    """The agent of this name and settings, with the default networks for this environment.

    Or with others: one of action values, or for PPO that of the policy and the critic's.
    """
    config = make_config(preset, settings)
    shape = tuple(env.observation_space.shape)
    if isinstance(config, QLambdaConfig):
        (values,) = networks or [default_network(shape, number_of_actions(env))]
        return QLambda(config, values)
    policy, critic = networks or [None, ppo_network(shape, 1, output_gain=1.0)]
    agent: Any = GradientPPO if isinstance(config, GradientPPOConfig) else PPO
    return agent(config, _make_policy(env, policy), critic)


def _make_policy(env: World, network: Network | None) -> DiscretePolicy | GaussianPolicy:
    space, shape = env.action_space, tuple(env.observation_space.shape)
    if isinstance(space, Discrete):
        return DiscretePolicy(network or ppo_network(shape, space.n, output_gain=0.01), space.n)
    low, high = (
        tuple(np.broadcast_to(bound, space.shape).astype(float).ravel().tolist())
        for bound in (space.low, space.high)
    )
    network = network or ppo_network(shape, len(low), output_gain=0.01)
    return GaussianPolicy(network, low, high, space.shape)


def make_params(env: World, changes: dict[str, Any]) -> Any:
    """The numbers of a JAX environment with some of them changed, by their path."""
    if isinstance(env, HostEnvironment):
        if changes:
            raise ValueError(f"env_params are {changes}, but {env.name!r} is no JAX environment")
        return ()
    leaves, structure = jax.tree_util.tree_flatten_with_path(env.default_params())
    named = {jax.tree_util.keystr(p, simple=True, separator="/"): leaf for p, leaf in leaves}
    for name, value in changes.items():
        if name not in named:
            raise UnknownName(f"parameter of {env.name}", name, named)
        named[name] = np.asarray(value, np.asarray(named[name]).dtype).tolist()
    params = jax.tree.unflatten(structure, list(named.values()))
    check_observations(env, params)
    return params


def plain_params(changes: dict[str, Any] | None) -> dict[str, Any]:
    """Changed numbers of an environment as a file can hold them; what it cannot hold is refused."""
    plain = {name: np.asarray(value).tolist() for name, value in (changes or {}).items()}
    for name, value in plain.items():
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError):
            raise ValueError(
                f"{name} of env_params is {value}; finite numbers are accepted"
            ) from None
    return plain


def title(plan: Plan, env: World) -> str:
    """Agent and environment as a figure names them."""
    return f"{TITLES[plan.agent] if plan.agent else 'an agent'} on {env.name}"
