"""A network of one's own, and a second loss on its features: predict the reward, too.

    python examples/auxiliary_loss.py --steps 20000

The network is a dictionary of arrays with two heads: action values, which the agent learns by
QRC(λ), and a prediction of the next reward, which shapes the same features. The agent adds the
gradient of `auxiliary_loss` to its own update of w; the auxiliary function h has parameters of
its own and is not touched.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import tyro

from eligrad.agents import PRESETS, Network, QLambda
from eligrad.engines import Runs
from eligrad.envs import make
from eligrad.nets import layer_norm, sparse_uniform

env = make("MinAtar/Breakout-v1")
inputs, hidden, actions = int(np.prod(env.observation_space.shape)), 64, env.action_space.n


def init(key, sparsity):
    """Weights; the second argument is the agent's setting of that name."""
    keys = jax.random.split(key, 3)
    return {
        "features": sparse_uniform(keys[0], (inputs, hidden), sparsity=sparsity),
        "values": sparse_uniform(keys[1], (hidden, actions), sparsity=sparsity),
        "reward": sparse_uniform(keys[2], (hidden, 1), sparsity=sparsity),
    }


def features(params, observation):
    return jax.nn.leaky_relu(layer_norm(jnp.ravel(observation) @ params["features"]))


def action_values(params, observation):
    return features(params, observation) @ params["values"]


def reward_loss(params, observation, seen):
    """Half the squared error of the reward predicted from the features."""
    (predicted,) = features(params, observation) @ params["reward"]
    return 0.5 * (predicted - seen.reward) ** 2


def train(steps, loss=None, seeds=4):
    """The parameters w of all seeds after training, and the mean return of its second half."""
    config = dataclasses.replace(PRESETS["qrc"], exploration_steps=steps // 2)
    agent = QLambda(config, Network(init, action_values), auxiliary_loss=loss)
    runs = Runs(agent, env, env.default_params(), np.arange(seeds), np.arange(seeds))
    records = runs.advance(steps)
    late = np.asarray(records.ended)[:, steps // 2 :]
    returns = np.asarray(records.episode_return)[:, steps // 2 :]
    return runs.state.agent.w, float(returns[late].mean())


def main(steps: int = 20_000) -> None:
    for name, loss in (("plain", None), ("with reward prediction", reward_loss)):
        _, mean = train(steps, loss)
        print(f"{name}: mean return of the second half, 4 seeds: {mean:.2f}")


if __name__ == "__main__":
    tyro.cli(main)
