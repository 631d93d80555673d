"""Agents with the methods of stable-baselines3: learn, predict, evaluate, save, load.

    agent = QRC("MinAtar/Breakout-v1", lam=0.8, seeds=8).learn(1_000_000, progress_bar=True)
    action, _ = agent.best().predict(observation)
    agent.save("breakout.npz")

One object holds all its seeds, trained as one program. A second `learn` continues the training.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypedDict, TypeVar, Unpack

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from eligrad._base.checks import whole_number
from eligrad.agents import registry
from eligrad.engines.sharding import spread
from eligrad.engines.trained import environment_of
from eligrad.envs import Environment, HostEnvironment
from eligrad.envs.registry import as_environment, change_params, plain_params
from eligrad.runs.plan import CHUNK, Plan, chunk_for, each_seed, grown
from eligrad.runs.summary import best_run
from eligrad.training import Callback, Session, prepare, saved
from eligrad.training.evaluation import LIMIT, evaluate
from eligrad.training.playing import choose
from eligrad.training.session import as_callbacks

Env = str | Environment | HostEnvironment | Callable[..., Any]
L = TypeVar("L", bound="Learner")
Number = float | Sequence[float] | np.ndarray
"""A setting: one number, or one for each seed."""


class Learner:
    """An agent and its environment; `seeds` of them, each independent of the others.

    Args:
        env: a name for `eligrad.envs.make`, an environment, or a Gymnasium class or a function that
            makes one.
        seeds: how many, or a list of them.
        network: your own network, which returns a value for each action. Agents with a policy take
            two, `(policy, critic)`: a logit for each action, or a mean for each of its entries (of
            Stream AC and Gradient AC then as many numbers for deviations); and one value.
        max_episode_steps: truncate episodes after this many steps.
        env_params: changes of a JAX environment's numbers, by name.
        info: numbers in the `info` of a Gymnasium environment, by name. The mean of each over a
            chunk is the metric `info_NAME`.
        settings: those of the agent's settings class, by name; a number may be a list with a value
            for each seed. ε of a streaming agent falls over the share `exploration_fraction` of the
            steps of the first `learn`, unless `exploration_steps` is given.
    """

    preset: ClassVar[str]
    _remembered: tuple[Any, Any] | None

    def __init__(
        self,
        env: Env,
        *others: Any,
        seeds: int | Sequence[int] | np.ndarray = 1,
        network: Any = None,
        max_episode_steps: int | None = None,
        env_params: dict[str, Any] | None = None,
        info: Sequence[str] = (),
        **settings: Any,
    ) -> None:
        if others:
            name, *rest = (f"{each!r}" for each in (env, *others))
            raise TypeError(
                f"{type(self).__name__}({', '.join((name, *rest))}): the environment is the only "
                "argument without a name. There are no policy classes here: give the environment "
                "first, and a network of your own as network="
            )
        self._env, self._network, self._settings = env, network, settings
        self._options: dict[str, Any] = {
            "seeds": each_seed(seeds),
            "max_episode_steps": max_episode_steps,
            "env_params": plain_params(env_params),
            "info": info,
        }
        self._session: Session | None = None
        self._run, self._remembered, self._predictions = 0, None, 0
        # Checked now, not at the first `learn`.
        self._environment = as_environment(env, max_episode_steps, info)
        config = registry.make_settings(
            self.preset,
            settings,
            runs=len(self._options["seeds"]),
            observation_shape=self._environment.observation_space.shape,
        )
        if env_params:
            change_params(self._environment, self._options["env_params"])
        registry.build(self.preset, config, self._environment, network)

    def learn(
        self: L,
        total_timesteps: int | float,
        *,
        progress_bar: bool = False,
        callback: Callback | Sequence[Callback] | None = None,
        out: str | Path | None = None,
        loggers: Sequence[str] = (),
    ) -> L:
        """Trains every seed for `total_timesteps` more steps.

        Args:
            total_timesteps: environment steps of each seed. Agents that learn from rollouts end
                with a whole one.
            progress_bar: whether to draw one.
            callback: one or several; each gets the `Session` after each chunk. One that returns
                False ends training; numbers that one returns in a dict become metrics.
            out: a new folder for metrics, checkpoints and a curve; only in the first call.
            loggers: "tensorboard", "wandb" or both, to be named with `out`.
        """
        steps = whole_number("total_timesteps", total_timesteps)
        callbacks = as_callbacks(callback)
        if self._session is None:
            options: dict[str, Any] = {**self._options, **self._settings, "network": self._network}
            self._session = prepare(
                self.preset, self._env, steps=steps, out=out, loggers=loggers, **options
            )
        elif out is not None or loggers:
            raise ValueError(
                f"out is {out} and loggers are {list(loggers)}; they are accepted in the first "
                "call of learn, and this agent has learned already"
            )
        else:
            self._session.plan = _longer(self._session.plan, self._session.step + steps)
        self._session.show_progress, self._session.callbacks = progress_bar, callbacks
        self._session.run()
        return self

    @property
    def session(self) -> Session:
        """The training session: engine, plan, metrics."""
        if self._session is None:
            raise RuntimeError(f"this {type(self).__name__} has not learned yet: call learn first")
        return self._session

    @property
    def num_timesteps(self) -> int:
        """Environment steps that each seed has taken."""
        return 0 if self._session is None else self._session.step

    @property
    def episodes(self) -> pd.DataFrame:
        """All episodes so far: run, seed, step, return, length."""
        return self.session.tables().episodes.to_pandas()

    def best(self: L) -> L:
        """Makes the seed with the highest mean return of its last episodes act in `predict`."""
        session = self.session
        self._run = best_run(session.tables(), session.plan.seeds, session.step)
        return self

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = True,
    ) -> tuple[np.ndarray, Any]:
        """Returns the action for an observation, or the actions for a batch, and `state`.

        The first seed acts, or the one that `best` chose. Its statistics do not change.

        Args:
            observation: one as the environment returns it, or an array of one or of a batch along
                the first axis.
            state: returned as it is; here for callers of stable-baselines3.
            episode_start: ignored; here for callers of stable-baselines3.
            deterministic: whether to take the best action; if not, one is drawn as in training.
        """
        del episode_start
        session = self.session
        host = session.env if isinstance(session.env, HostEnvironment) else None
        try:
            observation = np.asarray(observation if host is None else host.as_array(observation))
        except ValueError as error:
            if isinstance(observation, tuple) and isinstance(observation[-1], dict):
                raise ValueError(
                    "observation is a pair (observation, info), as reset returns it; its first "
                    "part is accepted"
                ) from error
            raise
        space = session.env.observation_space
        batch = observation.ndim == len(space.shape) + 1
        rows = observation if batch else observation[None]
        if rows.shape[1:] != space.shape:
            raise ValueError(
                f"observation has shape {observation.shape}; {space.shape}, or a batch of "
                "those, is accepted"
            )
        if rows.dtype.kind == "f" and not np.isfinite(rows).all():
            raise ValueError(f"observation is {observation}; finite numbers are accepted")
        agent, agent_state = self._acting()
        self._predictions += 1
        key = jax.random.fold_in(jax.random.key(session.step), self._predictions)
        actions = np.asarray(_act(agent, agent_state, jnp.asarray(rows), key, deterministic))
        if host is not None and np.any(host.first_action):
            actions = actions + host.first_action
        return (actions if batch else actions.squeeze(axis=0)), state

    def _acting(self) -> tuple[Any, Any]:
        """The agent that acts and its state, taken from all runs once for each step."""
        session, moment = self.session, (self.session.step, self._run)
        if self._remembered is None or self._remembered[0] != moment:
            every = (spread(session.agent, session.engine.count), session.engine.state.agent)
            one = jax.tree.map(lambda leaf: jnp.asarray(leaf)[self._run], every)
            self._remembered = (moment, one)
        return self._remembered[1]

    def evaluate(
        self,
        episodes: int = 10,
        *,
        deterministic: bool = True,
        seed: int = 0,
        max_steps: int = LIMIT,
    ) -> pd.DataFrame:
        """Plays whole episodes with every seed, without learning.

        Args:
            episodes: how many for each seed.
            deterministic: whether to take the best action; if not, one is drawn as in training.
            seed: decides the random numbers of the environment.
            max_steps: an episode that has not ended by then is cut off, with a warning that says
                how many ended.

        Returns:
            A data frame with the columns seed, episode and return.
        """
        session = self.session
        returns = evaluate(
            session.agent,
            session.env,
            session.engine.state.agent,
            episodes=episodes,
            seed=seed,
            greedy=deterministic,
            params=change_params(session.env, session.plan.env_params),
            max_steps=max_steps,
        )
        return pd.DataFrame(
            {
                "seed": np.repeat(session.plan.seeds, returns.shape[1]),
                "episode": np.tile(np.arange(returns.shape[1]), len(returns)),
                "return": returns.ravel(),
            }
        )

    def save(self, path: str | Path) -> None:
        """Writes everything to one file: networks, traces, statistics, simulators, metrics."""
        saved.save(self.session, path, learner=self.preset)

    @classmethod
    def load(cls: type[L], path: str | Path, *, env: Env | None = None, network: Any = None) -> L:
        """Loads what `save` wrote, or a copy of the agent in a run folder.

        A custom network or environment must be given again.
        """
        plan, preset = saved.read_plan(path), saved.preset_of(path)
        if preset not in (cls.preset, None):
            title = registry.title_of(preset)
            raise ValueError(
                f"{path} holds {title}; load it with eligrad.load, or with its own class"
            )
        if (plan.agent is None) != (network is not None):
            own = "eligrad's own network: pass no other"
            which = "a custom network: pass network= again" if network is None else own
            raise ValueError(f"{path} holds an agent with {which}")
        agent = None
        if network is not None:
            env = environment_of(plan, Path(path).expanduser(), env)
            runs = len(plan.seeds)
            config = registry.make_settings(cls.preset, plan.to_json()["settings"], runs=runs)
            agent = registry.build(cls.preset, config, env, network)
        learner = cls.__new__(cls)
        learner._session = session = saved.load(path, agent=agent, env=env)
        learner._env = learner._environment = session.env
        learner._network, learner._options, learner._settings = network, {}, {}
        learner._run, learner._remembered, learner._predictions = 0, None, 0
        return learner

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self._environment.name!r}, num_timesteps={self.num_timesteps})"
        )


def _longer(plan: Plan, steps: int) -> Plan:
    """Returns the plan with more steps, and larger chunks if the first `learn` was short."""
    if plan.rollout == 1 and plan.chunk < CHUNK // 2:
        chunk = chunk_for(steps)
        plan = dataclasses.replace(plan, chunk=chunk, checkpoint_every=chunk)
    return grown(plan, steps)


@functools.partial(jax.jit, static_argnums=4)
def _act(agent: Any, state: Any, rows: Any, key: Any, deterministic: bool) -> Any:
    keys = jax.random.split(key, len(rows))
    return jax.vmap(lambda row, key: choose(agent, state, row, key, deterministic))(rows, keys)


# What editors and type checkers know of the arguments; a test holds it to the settings classes.


class Arguments(TypedDict, total=False):
    """Arguments of every learner."""

    seeds: int | Sequence[int] | np.ndarray
    network: Any
    max_episode_steps: int | None
    env_params: dict[str, Any] | None
    info: Sequence[str]
    lam: Number
    gamma: Number


class GradientArguments(TypedDict, total=False):
    """Arguments of every learner with an h."""

    beta: Number
    rule: str
    regularize: Literal["parameters", "head", "output"]
    h: Literal["network", "features"]


class StreamingArguments(Arguments, GradientArguments, total=False):
    """Arguments of every streaming learner."""

    h_scale: Number
    sparsity: Number


class QLambdaArguments(StreamingArguments, total=False):
    """Arguments of QRC(λ) and the other streaming agents with action values."""

    step_size: Number
    epsilon_start: Number
    epsilon_end: Number
    exploration_steps: Number
    exploration_fraction: float
    kappa: Number
    optimizer: str
    target: Literal["max", "sarsa", "expected"]
    trace_cut: Literal["after", "watkins"]


class StreamACArguments(StreamingArguments, total=False):
    """Arguments of Stream AC(λ) and Gradient AC(λ)."""

    actor_step_size: Number
    critic_step_size: Number
    actor_kappa: Number
    critic_kappa: Number
    entropy_bonus: Number


class RolloutArguments(Arguments, total=False):
    """Arguments of PPO and Gradient PPO."""

    actor_step_size: Number
    critic_step_size: Number
    clip: Number
    entropy_bonus: Number
    max_gradient_norm: Number
    target_kl: Number
    anneal_steps: Number
    rollout: int
    num_envs: int
    epochs: int
    minibatch_size: int


class PPOArguments(RolloutArguments, total=False):
    """Arguments of PPO."""

    value_clip: Number


class GradientPPOArguments(RolloutArguments, GradientArguments, total=False):
    """Arguments of Gradient PPO."""

    h_step_size: Number
    sequence: int
    advantage: Literal["fresh", "stale"]
    importance_sampling: bool


class StreamingLearner(Learner):
    """A learner of a streaming agent; its settings are those of `QLambdaConfig`."""

    if TYPE_CHECKING:

        def __init__(self, env: Env, **arguments: Unpack[QLambdaArguments]) -> None: ...


class QRC(StreamingLearner):
    """QRC(λ): gradient Q-learning with regularised corrections, which learns from single steps.

    Its defaults for images are `optimizer="sgd"`, `step_size=1e-4` and `regularize="output"`.
    Those for vectors are `optimizer="obgd"`, `step_size=1.0` and `regularize="parameters"`; they
    hold unless another optimizer is named.
    """

    preset = "qrc"


class QC(StreamingLearner):
    """QC(λ): QRC(λ) without regularisation."""

    preset = "qc"


class GQ2(StreamingLearner):
    """GQ2(λ): the action-value form of GTD2(λ)."""

    preset = "gq2"


class QLambda(StreamingLearner):
    """Watkins' Q(λ), the semi-gradient baseline."""

    preset = "q-lambda"


class SarsaLambda(StreamingLearner):
    """Gradient SARSA(λ); semi-gradient SARSA(λ) with rule="td"."""

    preset = "sarsa-lambda"


class ExpectedSarsaLambda(StreamingLearner):
    """Gradient Expected SARSA(λ)."""

    preset = "expected-sarsa-lambda"


class StreamQ(StreamingLearner):
    """StreamQ: Q(λ) with steps bounded by ObGD."""

    preset = "stream-q"


class StreamACLearner(Learner):
    """A learner of a streaming agent with a policy; its settings are those of `StreamACConfig`."""

    if TYPE_CHECKING:

        def __init__(self, env: Env, **arguments: Unpack[StreamACArguments]) -> None: ...


class StreamAC(StreamACLearner):
    """Stream AC(λ): actor and critic with traces, whose steps ObGD bounds."""

    preset = "stream-ac"


class GradientAC(StreamACLearner):
    """Gradient AC(λ): Stream AC(λ) with a gradient TD(λ) critic."""

    preset = "gradient-ac"


class PPO(Learner):
    """Proximal policy optimisation."""

    preset = "ppo"

    if TYPE_CHECKING:

        def __init__(self, env: Env, **arguments: Unpack[PPOArguments]) -> None: ...


class GradientPPO(Learner):
    """PPO with a gradient TD(λ) critic."""

    preset = "gradient-ppo"

    if TYPE_CHECKING:

        def __init__(self, env: Env, **arguments: Unpack[GradientPPOArguments]) -> None: ...


def learner(name: str) -> type[Learner]:
    """The class of a registered agent, also of one of your own: `learner("my-agent")(env)`."""
    title = registry.get(name).title
    for family in (StreamingLearner, StreamACLearner, Learner):
        for known in family.__subclasses__():
            if getattr(known, "preset", None) == name:
                return known
    return type(title, (Learner,), {"preset": name, "__doc__": f"{title}."})


def load(path: str | Path, *, env: Env | None = None, network: Any = None) -> Learner:
    """Loads what any `save` wrote, or a copy of the agent in a run folder, in its own class.

    A custom network or environment must be given again.
    """
    name = saved.preset_of(path)
    if name is None:
        raise ValueError(f"{path} holds a custom agent; load it with its class, such as QRC.load")
    return learner(name).load(path, env=env, network=network)
