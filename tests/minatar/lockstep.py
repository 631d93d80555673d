"""Plays the original game and ours side by side, through all outcomes of its random calls.

All of them, or a sample where a step has more than `limit` (Freeway draws sixteen numbers at once).

The original's `RandomState` is replaced by `ScriptedRandom`, which answers each call from a
script and remembers where in the code the call came from. One step is then played once for every
possible script; ours is given the same outcomes as uniform numbers, and must show the same
observation, reward and end.
"""

from __future__ import annotations

import copy
import functools
import itertools
import math
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import minatar
import numpy as np

from eligrad.envs.minatar.base import Game, MinAtarState, Params

LOW, HIGH = 0.0, 0.9999


class Site(NamedTuple):
    """Where a random call of the original belongs in our vector of uniform numbers."""

    index: int
    probability: float | None = None
    """For `rand() < p`: the p, so that a walk follows natural odds. None for `randint`."""


STICKY = {("act", 0): Site(0)}
Sites = dict[tuple[str, int], Site]
"""(function that drew, number of its draw) -> place in `[sticky, *draws]`."""


class Draw(NamedTuple):
    site: tuple[str, int]
    outcome: int
    outcomes: int
    is_rand: bool


class ScriptedRandom:
    """Stands in for NumPy's `RandomState`: answers from a script.

    After its end, every outcome is equally likely if there is an `rng`, else the first one comes.
    """

    def __init__(
        self, script: tuple[int, ...] = (), rng: np.random.Generator | None = None
    ) -> None:
        self.script = script
        self.rng = rng
        self.log: list[Draw] = []
        self.count: dict[str, int] = {}

    def _draw(self, outcomes: int, caller: str, is_rand: bool) -> int:
        position = len(self.log)
        if position < len(self.script):
            outcome = self.script[position]
        else:
            outcome = 0 if self.rng is None else int(self.rng.integers(outcomes))
        number = self.count.get(caller, 0)
        self.count[caller] = number + 1
        self.log.append(Draw((caller, number), outcome, outcomes, is_rand))
        return outcome

    def rand(self, size: int | None = None) -> Any:
        caller = sys._getframe(1).f_code.co_name
        values = [(LOW, HIGH)[self._draw(2, caller, True)] for _ in range(size or 1)]
        return values[0] if size is None else np.array(values)

    def randint(self, low: int, high: int | None = None, size: int | None = None) -> Any:
        caller = sys._getframe(1).f_code.co_name
        low, high = (0, low) if high is None else (low, high)
        values = [low + self._draw(high - low, caller, False) for _ in range(size or 1)]
        return values[0] if size is None else np.array(values)

    def __deepcopy__(self, memo: dict[int, Any]) -> ScriptedRandom:
        """Returns itself: code that copies a game sets the random numbers of the copy."""
        return self

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"the original called RandomState.{name}, which is not scripted")


def uniform_of(draw: Draw) -> float:
    """The uniform number that stands for an outcome."""
    return (LOW, HIGH)[draw.outcome] if draw.is_rand else (draw.outcome + 0.5) / draw.outcomes


class Outcome(NamedTuple):
    env: Any
    reward: float
    terminal: bool
    uniforms: np.ndarray
    probability: float


def set_random(env: Any, random: Any) -> None:
    env.random = random
    env.env.random = random


def restart(env: Any, uniforms: np.ndarray, sites: Sites, rng: np.random.Generator) -> None:
    """Resets the original under random outcomes, written into `uniforms` (the game's own)."""
    random = ScriptedRandom(rng=rng)
    set_random(env, random)
    env.reset()
    for draw in random.log:
        uniforms[sites[draw.site].index - 1] = uniform_of(draw)


def outcomes(
    env: Any, action: int, sites: Sites, num_draws: int, limit: int, rng: np.random.Generator
) -> Iterator[Outcome]:
    """Every way the original's step can go; `limit` random ones where there are more than that."""
    script: tuple[int, ...] | None = ()
    for _ in range(limit):
        if script is None:
            return
        random = ScriptedRandom(script)
        trial = copy.deepcopy(env)
        set_random(trial, random)
        reward, terminal = trial.act(action)
        uniforms, probability = np.full(1 + num_draws, 0.5, np.float32), 1.0
        for draw in random.log:
            site = {**STICKY, **sites}[draw.site]
            uniforms[site.index] = uniform_of(draw)
            p = env.sticky_action_prob if draw.site == ("act", 0) else site.probability
            low = 1 / draw.outcomes if p is None else p
            probability *= low if draw.outcome == 0 or p is None else 1 - low
        yield Outcome(trial, float(reward), bool(terminal), uniforms, probability)
        if math.prod(draw.outcomes for draw in random.log) <= limit:
            script = successor(random.log)
        else:
            script = tuple(int(rng.integers(draw.outcomes)) for draw in random.log)


def successor(log: list[Draw]) -> tuple[int, ...] | None:
    """The next script in the order of an odometer, or None after the last."""
    for position in reversed(range(len(log))):
        if log[position].outcome + 1 < log[position].outcomes:
            return (*(d.outcome for d in log[:position]), log[position].outcome + 1)
    return None


Policy = Callable[[Any, np.random.Generator], int]
"""From the original's environment to one of its six actions' index in the minimal set."""


def random_policy(env: Any, rng: np.random.Generator) -> int:
    return int(rng.integers(len(env.minimal_action_set())))


def lookahead_policy(depth: int = 6, rollouts: int = 4) -> Policy:
    """Survives: tries each action, continues at random, keeps the longest with most reward."""

    def policy(env: Any, rng: np.random.Generator) -> int:
        actions = env.minimal_action_set()
        scores = np.zeros(len(actions))
        for choice, action in enumerate(actions):
            for _ in range(rollouts):
                trial = copy.deepcopy(env)
                set_random(trial, np.random.RandomState(int(rng.integers(2**31))))
                trial.sticky_action_prob = 0.0
                for ahead in range(depth):
                    move = action if ahead == 0 else actions[int(rng.integers(len(actions)))]
                    reward, terminal = trial.act(move)
                    scores[choice] += 0.1 * reward + 1.0
                    if terminal:
                        break
        return int(rng.choice(np.flatnonzero(scores == scores.max())))

    return policy


@functools.cache
def compiled(game_class: type[Game]) -> tuple[Callable[..., Any], ...]:
    """A step of many draws from one state, a beginning and a look; compiled once for all tests."""
    game = game_class()
    return (
        jax.jit(jax.vmap(game.step_with_draws, in_axes=(0, None, None, None))),
        jax.jit(game.begin),
        jax.jit(game.observe),
    )


def lockstep(
    game: Game,
    name: str,
    sites: Sites,
    *,
    transitions: int,
    policy: Policy = random_policy,
    sticky: float = 0.1,
    ramping: bool = True,
    limit: int = 64,
    seed: int = 0,
    on_step: Callable[[Any, MinAtarState], None] = lambda env, state: None,
    edit: Callable[[Any, MinAtarState], MinAtarState] | None = None,
) -> int:
    """Compares at least `transitions` transitions; returns how many.

    `on_step` sees both games after each followed step (to record what was visited). `edit` may
    change the original in place before a step and must return our state changed alike (to reach
    rare situations); it is called after each followed step.
    """
    rng = np.random.default_rng(seed)
    params = Params(np.float32(sticky), np.bool_(ramping))
    step, begin, observe = compiled(type(game))

    uniforms = np.full(game.num_first_draws, 0.5, np.float32)
    env = minatar.Environment(name, sticky_action_prob=sticky, difficulty_ramping=ramping)
    restart(env, uniforms, sites, rng)
    state = MinAtarState(begin(uniforms), np.int32(0))
    np.testing.assert_array_equal(observe(state.game), env.state(), err_msg="first observation")

    compared = 0
    for frame in itertools.count():
        choice = policy(env, rng)
        action = env.minimal_action_set()[choice]
        branches = list(outcomes(env, action, sites, game.num_draws, limit, rng))
        batch = np.stack([b.uniforms for b in branches])
        padded = np.resize(batch, (limit, batch.shape[1]))
        ours = jax.tree.map(np.asarray, step(padded, state, np.int32(choice), params))
        for i, branch in enumerate(branches):
            where = (name, f"frame {frame}", f"action {action}", branch.uniforms)
            differs = ours.observation[i] != branch.env.state()
            assert not differs.any(), (*where, "cells", np.argwhere(differs))
            assert float(ours.reward[i]) == branch.reward, where
            assert bool(ours.terminated[i]) == branch.terminal, where
            assert not ours.truncated[i], where
            assert int(ours.state.last_action[i]) == branch.env.last_action, where
        compared += len(branches)

        weights = np.array([b.probability for b in branches])
        followed = int(rng.choice(len(branches), p=weights / weights.sum()))
        env = branches[followed].env
        state = jax.tree.map(lambda leaf, i=followed: leaf[i], ours.state)
        if branches[followed].terminal:
            uniforms = np.full(game.num_first_draws, 0.5, np.float32)
            restart(env, uniforms, sites, rng)
            state = MinAtarState(begin(uniforms), state.last_action)
            np.testing.assert_array_equal(observe(state.game), env.state(), err_msg="restart")
        on_step(env, state)
        if edit is not None:
            state = edit(env, state)
        if compared >= transitions:
            return compared
    raise AssertionError("unreachable")
