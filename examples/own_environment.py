"""An environment of your own: describe it, check it, train on it, watch the result.

    python examples/own_environment.py --steps 50000

A spacecraft must come to rest at a dock. It has momentum, so it must begin to brake in time. The
environment is two pure functions in JAX, `reset` and `step`. Numbers that one may want to change
are in `Params`: runs that differ in them share one compiled program.
"""

from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import tyro

import eligrad
from eligrad.envs import Box, Discrete, Environment, Step, TimeLimit, check_env
from eligrad.envs.animation import save_gif


class Params(NamedTuple):
    thrust: float = 0.02  # change of velocity by one action
    gust: float = 0.003  # how strongly chance pushes
    safe_speed: float = 0.05  # docking faster than this is a crash


class State(NamedTuple):
    position: jax.Array  # the dock is at 0, the edges are at -1 and 1
    velocity: jax.Array


class Docking(Environment[State]):
    name = "Docking"
    observation_space = Box(-2.0, 2.0, (2,))
    action_space = Discrete(3)  # push left, drift, push right

    def default_params(self):
        return Params()

    def reset(self, key, params):
        side, distance = jax.random.uniform(key, (2,))
        position = jnp.where(side < 0.5, -1.0, 1.0) * (0.4 + 0.5 * distance)
        state = State(position, jnp.zeros(()))
        return state, self.observe(state)

    def step(self, key, state, action, params):
        push = params.thrust * (action - 1) + params.gust * jax.random.normal(key)
        velocity = jnp.clip(state.velocity + push, -0.2, 0.2)
        position = jnp.clip(state.position + velocity, -1.0, 1.0)
        arrived = state.position * position <= 0  # at the dock, or past it
        docked = arrived & (jnp.abs(velocity) <= params.safe_speed)
        lost = jnp.abs(position) >= 1.0
        after = State(position, velocity)
        return Step(
            state=after,
            observation=self.observe(after),
            reward=jnp.where(docked, 1.0, jnp.where(arrived | lost, -1.0, -0.01)),
            terminated=arrived | lost,
            truncated=jnp.zeros((), bool),  # nothing cuts an episode off in here
        )

    def observe(self, state):
        return jnp.stack([state.position, 5.0 * state.velocity])

    def render(self, state, params):  # for the GIF below, and for `eligrad play`
        picture = np.full((40, 240, 3), (15, 20, 40), np.uint8)
        picture[:, 118:122] = (80, 200, 120)
        column = round(120 + 110 * float(state.position))
        picture[14:26, max(column - 5, 0) : column + 5] = (230, 230, 240)
        return picture


def film(agent, env, seed=0):
    """Pictures of one episode, played greedily."""
    key, params = jax.random.key(seed), env.default_params()
    state, observation = env.reset(key, params)
    pictures, ended = [env.render(state, params)], False
    while not ended:
        key, step_key = jax.random.split(key)
        action, _ = agent.predict(np.asarray(observation))
        step = env.step(step_key, state, jnp.asarray(action), params)
        state, observation = step.state, step.observation
        pictures.append(env.render(state, params))
        ended = step.terminated | step.truncated
    return np.stack(pictures)


def main(steps: int = 50_000, out: Path = Path("docking.gif")) -> tuple[float, float]:
    """Trains, writes a GIF, and returns the mean return of early and of greedy late episodes."""
    env = TimeLimit(Docking(), max_steps=100)  # truncates: that is not part of the task
    check_env(env)  # says in plain words what is wrong, before anything is trained
    agent = eligrad.QRC(env, seeds=2, step_size=3e-4).learn(steps, progress_bar=True)
    episodes = agent.episodes  # a DataFrame
    early = episodes["return"][episodes["step"] <= steps / 10].mean()
    late = agent.evaluate(episodes=20)["return"].mean()
    print(f"mean return: {early:.2f} in the first tenth of the steps, {late:.2f} after training")
    save_gif(out, film(agent.best(), env))
    print(f"an episode is in {out}")
    return float(early), float(late)


if __name__ == "__main__":
    tyro.cli(main)
