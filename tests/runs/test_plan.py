"""What is decided before training: chunks, seeds, parameters."""

from __future__ import annotations

import pickle
import re

import numpy as np
import pytest

from eligrad._base.errors import UnknownName
from eligrad.agents import PRESETS, registry
from eligrad.envs import make
from eligrad.envs.registry import change_params
from eligrad.runs import plan
from tests.engines import tiny


@pytest.mark.parametrize(
    ("steps", "chunk"), [(1_000_000, 1000), (12_345, 823), (7, 7), (1009, 1000), (900, 900)]
)
def test_chunks_fill_the_total_where_they_can(steps, chunk):
    assert plan.chunk_for(steps) == chunk


@pytest.mark.parametrize(
    ("steps", "chunk", "every"), [(1_000_000, 1000, 50_000), (7, 7, 7), (30_500, 1000, 2000)]
)
def test_about_twenty_checkpoints(steps, chunk, every):
    assert plan.checkpoint_every_for(steps, chunk) == every


def test_environments_have_seeds_of_their_own():
    seeds = list(range(1000))
    ours, later = plan.env_seeds(seeds), plan.env_seeds(seeds, start_step=5)
    assert len({*seeds, *ours.tolist(), *later.tolist()}) == 3000
    assert ours.min() >= 0
    assert ours.max() < 2**31
    assert plan.env_seeds([7])[0] == ours[7]


@pytest.mark.parametrize("seeds", [[0.5], [1, -1], [2**31], ["1"]])
def test_seeds_are_whole_numbers(seeds):
    with pytest.raises(ValueError, match="numbers from 0 to 2³¹ - 1 are accepted"):
        plan.each_seed(seeds)


def test_parameters_of_an_environment_change_by_name():
    env = make("MinAtar/Breakout-v1")
    changed = change_params(env, {"sticky_probability": 0, "ramping": False})
    assert changed == (0.0, False)
    assert change_params(env, {}) == env.default_params()


@pytest.mark.parametrize(
    ("default", "kind", "values"),
    [
        (7, "a whole number", (1.5, 10**30, 2**40, 1e30, np.nan, None)),
        (0.5, "a number", (1e300, "x", None)),
        (True, "True or False", (2, 0.5)),
    ],
)
def test_parameters_that_cannot_be_held_are_refused(default, kind, values):
    class Adjustable(tiny.Breaks):
        def default_params(self):
            return {"size": default}

    for value in values:
        message = f"size of env_params is {re.escape(repr(value))}; {kind}.*, like its default"
        with pytest.raises(ValueError, match=message):
            change_params(Adjustable("reward", -1), {"size": value})


def test_names_of_others_lead_to_settings_that_there_are():
    ours = {name for config in PRESETS.values() for name in vars(config)}
    ours |= {"seeds", "info", "loggers", "logger"}  # arguments and options of `train`
    for others, here in registry._NAMES_ELSEWHERE.items():
        assert others not in ours
        assert set(here) <= ours


def test_an_unknown_name_says_the_same_after_a_pipe():
    with pytest.raises(UnknownName) as caught:
        registry.make_settings("ppo", {"n_steps": 5})
    assert str(caught.value) == "unknown setting of ppo 'n_steps'; here that is 'rollout'"
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
