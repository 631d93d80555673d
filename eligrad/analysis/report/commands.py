"""From a configuration back to the command that trains it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from eligrad.agents import AGENTS
from eligrad.agents.registry import EXPLORATION_FRACTION


def commands(configuration: Mapping[str, Any], seeds: Sequence[int]) -> list[str]:
    """Commands that train these seeds, one for each unbroken stretch of them.

    None for a custom agent or environment, changed parameters, or exploration that goes on beyond
    the last step: there is no command for them.
    """
    agent, env, steps = (configuration[name] for name in ("agent", "env", "steps"))
    if agent not in AGENTS or env is None or configuration["env_params"]:
        return []
    if configuration["settings"].get("exploration_steps", 0) > steps:
        return []
    words = ["eligrad", "train", agent, env, "--steps", str(steps)]
    if configuration["max_episode_steps"] is not None:
        words += ["--max-episode-steps", str(configuration["max_episode_steps"])]
    words += [word for name in configuration["info"] for word in ("--info", name)]
    words += _settings(agent, configuration)
    return [
        shlex.join([*words, "--seeds", str(len(stretch)), "--seed", str(stretch[0])])
        for stretch in _stretches(seeds)
    ]


def _settings(agent: str, configuration: Mapping[str, Any]) -> list[str]:
    """Options for what differs from the agent's own settings."""
    settings, steps = dict(configuration["settings"]), configuration["steps"]
    words = []
    if isinstance(settings.get("exploration_steps"), (int, float)):
        explored = settings.pop("exploration_steps")
        fraction = round(explored / steps, 12)  # 0.30000000000000004 was 0.3
        fraction = fraction if fraction * steps == explored else explored / steps
        if fraction != EXPLORATION_FRACTION:
            words += ["--exploration-fraction", repr(fraction)]
    entry = AGENTS[agent]
    # Where there are two defaults, the command does not rely on either.
    own = {k: v for k, v in vars(entry.config).items() if k not in entry.for_vectors}
    for name, value in settings.items():
        option = name.replace("_", "-")
        if name in own and value == own[name]:
            continue
        if isinstance(value, bool):
            words.append(f"--{option}" if value else f"--no-{option}")
        else:
            words += [f"--{option}", str(value)]
    return words


def _stretches(seeds: Sequence[int]) -> list[list[int]]:
    """Numbers that follow each other, together."""
    stretches: list[list[int]] = []
    for seed in sorted(set(seeds)):
        if stretches and seed == stretches[-1][-1] + 1:
            stretches[-1].append(seed)
        else:
            stretches.append([seed])
    return stretches
