"""QRC(λ) in one file: `eligrad.rules` and plain JAX, to copy into an agent of your own.

    python examples/qrc_from_rules.py --steps 200000

CartPole is written out below. The networks q and h are dictionaries of arrays. There is no replay
buffer, no target network and no batch: each transition is used once, when it comes. All of training
is one function of a random key, so `jax.vmap` trains several seeds at once.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import tyro

from eligrad import rules

GAMMA, LAMBDA = 0.99, 0.8
STEP_SIZE = 0.01  # of w and of theta
EPSILON_END, EXPLORED = 0.05, 0.3  # ε falls from 1 over that share of the steps
HIDDEN = 64
TIME_LIMIT = 500


# The task: keep a pole upright on a cart that is pushed left (0) or right (1).


def reset(key):
    return jax.random.uniform(key, (4,), minval=-0.05, maxval=0.05)


def cartpole(state, action):
    """The state 20 ms later, and whether the pole fell or the cart left the track."""
    _, speed, angle, spin = state
    force = jnp.where(action == 1, 10.0, -10.0)
    sine, cosine = jnp.sin(angle), jnp.cos(angle)
    push = (force + 0.05 * spin**2 * sine) / 1.1
    turn = (9.8 * sine - cosine * push) / (0.5 * (4 / 3 - 0.1 * cosine**2 / 1.1))
    pull = push - 0.05 * turn * cosine / 1.1
    state = state + 0.02 * jnp.stack([speed, pull, spin, turn])
    return state, (jnp.abs(state[0]) > 2.4) | (jnp.abs(state[2]) > 12 * jnp.pi / 180)


# The networks: one value for each action. h is the same function as q, of parameters of its own.


def init(key):
    key_in, key_out = jax.random.split(key)
    return {
        "in": jax.random.normal(key_in, (5, HIDDEN)),
        "out": 0.1 * jax.random.normal(key_out, (HIDDEN, 2)) / jnp.sqrt(HIDDEN),
    }


def q(params, state):
    scaled = state / jnp.array([2.4, 3.0, 0.21, 3.0])  # all of about the same size
    hidden = jnp.append(scaled, 1.0) @ params["in"]
    hidden = (hidden - hidden.mean()) / jnp.sqrt(hidden.var() + 1e-5)
    return jax.nn.leaky_relu(hidden) @ params["out"]


def q_of_pair(params, pair):
    state, action = pair
    return q(params, state)[action]


def q_max(params, state):
    return rules.greedy_value(q(params, state))


# The agent: one step of acting and learning.


class Carry(NamedTuple):
    w: dict
    theta: dict
    traces: rules.Traces
    state: jax.Array
    age: jax.Array  # steps since the episode began


def step(steps, carry, inputs):
    w, theta, traces, s_tm1, age = carry
    t, key = inputs
    explore_key, action_key, reset_key = jax.random.split(key, 3)

    epsilon = jnp.maximum(1.0 - t / (EXPLORED * steps), EPSILON_END)
    greedy_action = jnp.argmax(q(w, s_tm1))
    random_action = jax.random.randint(action_key, (), 0, 2)
    explore = jax.random.uniform(explore_key) < epsilon
    a_tm1 = jnp.where(explore, random_action, greedy_action)

    s_t, terminated = cartpole(s_tm1, a_tm1)
    truncated = age + 1 >= TIME_LIMIT
    ended = terminated | truncated
    # A fallen pole has no future, so its discount is 0. The time limit only hides the future: there
    # the discount stays, we bootstrap from s_t as ever, and the traces end by `reset`.
    discount_t = jnp.where(terminated, 0.0, GAMMA)
    r_t = jnp.float32(1.0 - GAMMA)  # for each step, scaled so that values lie between 0 and 1

    cut = rules.trace_cut("after", a_tm1 == greedy_action, ended)
    learned = rules.backward_step(
        rules.TDRC, traces, w, theta, (s_tm1, a_tm1), r_t, discount_t, s_t,
        value_fn=q_of_pair, bootstrap_fn=q_max, auxiliary_fn=q_of_pair,
        lam=LAMBDA, values="action", rho_tm1=cut.rho_tm1, reset=cut.reset,
    )  # fmt: skip
    # Updates are to be added. They are plain pytrees: any optimiser may take them from here.
    w, theta = jax.tree.map(lambda p, u: p + STEP_SIZE * u, (w, theta), tuple(learned.update))

    carry = Carry(
        w, theta, learned.traces,
        state=jnp.where(ended, reset(reset_key), s_t),
        age=jnp.where(ended, 0, age + 1),
    )  # fmt: skip
    return carry, jnp.where(ended, age + 1, 0)  # the return of an episode, where one ended


@partial(jax.jit, static_argnums=0)
def train(steps, key):
    """All of training; returns the return of an episode at the step where it ended, else 0."""
    w_key, theta_key, reset_key, stream_key = jax.random.split(key, 4)
    w, theta = init(w_key), init(theta_key)
    carry = Carry(w, theta, rules.TDRC.init(w, theta), reset(reset_key), jnp.int32(0))
    inputs = (jnp.arange(steps), jax.random.split(stream_key, steps))
    return jax.lax.scan(partial(step, steps), carry, inputs)[1]


def main(steps: int = 200_000, seeds: int = 4) -> tuple[float, float]:
    """Trains, and returns the mean return of the first and of the last tenth of the steps."""
    keys = jax.random.split(jax.random.key(0), seeds)
    returns = np.asarray(jax.vmap(partial(train, steps))(keys))
    early, late = returns[:, : steps // 10], returns[:, -(steps // 10) :]
    for name, part in (("early", early), ("late", late)):
        means = [f"{each[each > 0].mean():.0f}" for each in part]
        print(f"mean return of {name} episodes, for each seed: {', '.join(means)}")
    return early[early > 0].mean(), late[late > 0].mean()


if __name__ == "__main__":
    tyro.cli(main)
