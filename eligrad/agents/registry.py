"""The agents by name: title, settings and builder of each. A new agent is one `register` call.

The command line, the facade, sweeps, figures and reports all read this registry. Settings are one
frozen dataclass; a number among them may be an array with a value for each run. They become JSON
only where a file is written (`to_json`, `from_json`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from eligrad._base import checks as check
from eligrad._base.errors import Mistakes, UnknownName, did_you_mean
from eligrad._base.lazy import imported
from eligrad.agents.settings import (
    GradientPPOConfig,
    PPOConfig,
    QLambdaConfig,
    StreamACConfig,
)

if TYPE_CHECKING:
    from eligrad.agents.protocol import Agent

EXPLORATION_FRACTION = 0.2
"""Share of the steps over which ε falls, by default."""

Builder = Callable[..., Any]
"""`build(config, observation_space, action_space, network)` makes the agent; `network` is None for
the default."""


@dataclasses.dataclass(frozen=True)
class Entry:
    """An entry of the registry."""

    name: str
    title: str
    """The name in figures."""
    config: Any
    """Its settings, with their defaults: an instance of its settings class."""
    builder: Builder | str
    """The builder, or the place that it is imported from, such as `"package.module:make"`."""
    vectors: Any = None
    """Its settings for observations that are vectors, if others than `config`."""

    def defaults(self, observation_shape: Sequence[int] | None, changes: Mapping[str, Any]) -> Any:
        """The settings to which changes are made; another optimiser's step size is in `config`."""
        if self.vectors is None or observation_shape is None or len(observation_shape) != 1:
            return self.config
        own = changes.get("optimizer", self.vectors.optimizer) == self.vectors.optimizer
        return self.vectors if own else self.config

    @property
    def for_vectors(self) -> dict[str, Any]:
        """The settings of `vectors` that are others than those of `config`."""
        config, vectors = vars(self.config), self.vectors or self.config
        return {name: value for name, value in vars(vectors).items() if value != config[name]}

    @property
    def build(self) -> Builder:
        """The builder, imported when it is first needed."""
        return imported(self.builder)


AGENTS: dict[str, Entry] = {}
"""All agents by name; `register` adds to it."""
PRESETS: dict[str, Any] = {}
"""The settings of each, by name."""
TITLES: dict[str, str] = {}
"""The title of each, by name."""


def register(
    name: str, *, title: str, config: Any, build: Builder | str, vectors: Any = None
) -> None:
    """Adds an agent to the command line, the facade, sweeps, `Online` and reports.

    Args:
        name: what users type, such as `"stream-ac"`.
        title: the name in figures.
        config: its settings with their defaults: a frozen dataclass, registered as a pytree, whose
            fields that shape the program are static, with a method `check`.
        build: makes the agent: `build(config, observation_space, action_space, network)`. It
            raises ValueError for spaces that the agent cannot act in. `network` is whatever the
            user gave as `network=`, or None. A place `"package.module:make"` is imported when the
            agent is first built.
        vectors: its settings for observations that are vectors, if they are others. A user who
            names another optimizer than theirs gets `config` all the same.
    """
    if name in AGENTS:
        raise ValueError(f"the agent {name!r} is registered already; choose another name")
    for setting, value in [*vars(config).items(), *vars(vectors or config).items()]:
        if np.ndim(value):
            raise ValueError(
                f"the setting {setting} of {name!r} is {value}; a number, a word or a truth value "
                "is accepted, since a list gives each run its own (sizes of layers are the "
                "network's: pass one as `network`)"
            )
    AGENTS[name] = Entry(name, title, config, build, vectors)
    PRESETS[name], TITLES[name] = config, title


def get(name: str) -> Entry:
    """The agent of that name."""
    if name not in AGENTS:
        raise UnknownName("agent", name, AGENTS)
    return AGENTS[name]


def title_of(name: str | None) -> str:
    """Returns the title of an agent, or for an agent that is not registered its name."""
    if name is None:
        return "an agent"
    return AGENTS[name].title if name in AGENTS else name


def build(name: str, config: Any, env: Any, network: Any = None) -> Agent:
    """The agent of that name and these settings, for the spaces of an environment."""
    entry = get(name)
    try:
        agent = entry.build(config, env.observation_space, env.action_space, network)
    except ValueError as error:
        raise ValueError(f"{name} does not fit {env.name!r}: {error}") from error
    check_fit(agent, env)
    return agent


def check_fit(agent: Agent, env: Any) -> None:
    """Raises ValueError if the agent cannot act in the environment."""
    try:
        agent.check_spaces(env.observation_space, env.action_space)
    except ValueError as error:
        raise ValueError(f"the agent does not fit {env.name!r}: {error}") from error


def make_settings(
    name: str,
    changes: Mapping[str, Any],
    *,
    runs: int = 1,
    steps: int | None = None,
    observation_shape: Sequence[int] | None = None,
) -> Any:
    """The settings of an agent with some of them changed, checked by name and value.

    Args:
        name: of the agent.
        changes: by name; a number may be a list with one value for each run.
        runs: how many there are.
        steps: those of each run. An agent whose ε falls over `exploration_steps` then gets them
            from `exploration_fraction`, one of the changes (0.2 if absent), unless they are given.
        observation_shape: of the environment, if it is known: the defaults of some agents are
            others where observations are vectors.
    """
    default, changes = get(name).defaults(observation_shape, changes), dict(changes)
    static, known = static_settings(default), [f.name for f in dataclasses.fields(default)]
    explores, mistakes = "exploration_steps" in known, Mistakes()
    fraction = changes.pop("exploration_fraction", None) if explores else None
    if fraction is not None:
        if "exploration_steps" in changes:
            raise ValueError(
                f"exploration_fraction is {fraction} and exploration_steps "
                f"{changes['exploration_steps']}; one of the two is accepted"
            )
        try:
            check.within("exploration_fraction", fraction, 0.0, 1.0)
        except (ValueError, TypeError) as error:
            mistakes.note(error)
            fraction = None
    beside = ["seeds", "info", "loggers", *(["exploration_fraction"] if explores else [])]
    sound = dict[str, Any]()
    for setting, value in changes.items():
        with mistakes.noted():
            if setting not in known:
                others = {*known, *(name for name in beside if did_you_mean(setting, [name]))}
                others -= {setting}
                here = names_here(setting, {*known, *beside})
                raise UnknownName(f"setting of {name}", setting, others, here)
            if np.ndim(value):
                value = _for_each_run(setting, value, None if setting in static else runs)
            sound[setting] = value
    if explores and steps is not None:
        share = EXPLORATION_FRACTION if fraction is None else fraction
        with mistakes.noted():
            if np.ndim(share):
                share = _for_each_run("exploration_fraction", share, runs)
            sound = {"exploration_steps": share * steps} | sound
    _check_values(default, sound, mistakes)
    mistakes.report()
    return dataclasses.replace(default, **sound)


def _for_each_run(setting: str, values: Any, runs: int | None) -> np.ndarray:
    """The values of a setting as an array, if there is one for each run; None: none may be."""
    if len(values) != runs:
        several = "" if runs is None else f", or a list with one for each of the {runs} runs"
        raise ValueError(f"{setting} is {values}; one value is accepted{several}")
    return np.asarray(values)


def _check_values(default: Any, changes: Mapping[str, Any], mistakes: Mistakes) -> None:
    """Notes all mistakes in the values: after each, what caused it is left out."""

    def check(changes: Mapping[str, Any]) -> Exception | None:
        try:
            dataclasses.replace(default, **changes).check()
        except (ValueError, TypeError) as error:
            return error

    while error := check(changes):
        mistakes.note(error)
        if not changes:
            break
        fewer = ({k: v for k, v in changes.items() if k != name} for name in changes)
        changes = next((each for each in fewer if str(check(each)) != str(error)), {})


_STEP_SIZES = ("step_size", "actor_step_size", "critic_step_size")
_NAMES_ELSEWHERE: dict[str, tuple[str, ...]] = {
    "learning_rate": _STEP_SIZES,
    "lr": _STEP_SIZES,
    "alpha": _STEP_SIZES,
    "gae_lambda": ("lam",),
    "lambda": ("lam",),
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
    "info_keywords": ("info",),
    "sink": ("logger",),
    "sinks": ("loggers",),
}
"""What settings are called in stable-baselines3, in papers, and in earlier versions."""


def names_here(name: str, accepted: Collection[str]) -> list[str]:
    """The accepted names of what is called `name` in other libraries or in earlier versions."""
    return [here for here in _NAMES_ELSEWHERE.get(name, ()) if here in accepted]


def static_settings(config: Any) -> set[str]:
    """Names of the static settings: they shape the program, and are the same for all its runs."""
    return {f.name for f in dataclasses.fields(config) if f.metadata.get("static")}


def to_json(config: Any) -> dict[str, Any]:
    """Settings as JSON values; a list where runs differ."""
    static = static_settings(config)
    return {
        name: value if name in static else np.asarray(value, np.float64).tolist()
        for name, value in vars(config).items()
    }


def of_runs(config: Any, runs: int | Sequence[int]) -> Any:
    """The settings of one run, or of some runs, by their places."""
    own = {name: values[runs] for name, values in per_run(config).items()}
    return dataclasses.replace(config, **{k: v if np.ndim(v) else v.item() for k, v in own.items()})


def per_run(config: Any) -> dict[str, np.ndarray]:
    """The settings in which runs differ, [runs]."""
    static = static_settings(config)
    varying = {k: v for k, v in vars(config).items() if k not in static and np.ndim(v)}
    return {name: np.asarray(values) for name, values in varying.items()}


_Q = "eligrad.agents.q_lambda:make_q_lambda"
_AC = "eligrad.agents.stream_ac:StreamAC.make"
_PPO, _GPPO = "eligrad.agents.ppo:PPO.make", "eligrad.agents.gradient_ppo:GradientPPO.make"
_STREAM_Q = QLambdaConfig(rule="td", beta=0.0, optimizer="obgd", step_size=1.0)
_QRC_VECTORS = QLambdaConfig(optimizer="obgd", step_size=1.0)
_GRADIENT_AC = StreamACConfig(rule="tdrc", beta=1.0, regularize="output")

register(
    "qrc", title="QRC(λ)", config=QLambdaConfig(regularize="output"), build=_Q, vectors=_QRC_VECTORS
)
for _name, _title, _config, _build in (
    ("qc", "QC(λ)", QLambdaConfig(rule="tdc", beta=0.0), _Q),
    ("gq2", "GQ2(λ)", QLambdaConfig(rule="gtd2", beta=0.0), _Q),
    ("q-lambda", "Q(λ)", QLambdaConfig(rule="td", beta=0.0, sparsity=0.0), _Q),
    ("sarsa-lambda", "Gradient SARSA(λ)", QLambdaConfig(target="sarsa"), _Q),
    ("expected-sarsa-lambda", "Gradient Expected SARSA(λ)", QLambdaConfig(target="expected"), _Q),
    ("stream-q", "StreamQ", _STREAM_Q, _Q),
    ("stream-ac", "Stream AC(λ)", StreamACConfig(), _AC),
    ("gradient-ac", "Gradient AC(λ)", _GRADIENT_AC, _AC),
    ("ppo", "PPO", PPOConfig(), _PPO),
    ("gradient-ppo", "Gradient PPO", GradientPPOConfig(), _GPPO),
):
    register(_name, title=_title, config=_config, build=_build)
