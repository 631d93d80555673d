"""PPO in flax whose critic learns by TDRC(λ).

    python examples/flax_ppo.py --steps 60000

Three networks: the policy, the value function v with parameters w, and the auxiliary function h
with parameters theta. The critic does not regress on returns that were computed before the update:
along each sequence of a minibatch, `TDRC.loss` computes the TD(λ) errors from the present v, and
its gradient goes through all of them. This is the paper's Gradient PPO, without normalisation.
CartPole is that of gymnax, which brings flax: pip install 'eligrad[gymnax]'.
"""

from functools import partial
from typing import NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import tyro
from flax.linen.initializers import orthogonal

from eligrad import rules
from eligrad.envs import make, step_autoreset

GAMMA, LAMBDA, CLIP = 0.99, 0.95, 0.2
ENVS, TIME, EPOCHS = 8, 128, 4  # a rollout has ENVS × TIME transitions
SEQUENCE, MINIBATCH = 32, 8  # transitions in a sequence, sequences in a minibatch


class MLP(nn.Module):
    outputs: int
    output_gain: float

    @nn.compact
    def __call__(self, x):
        for _ in range(2):
            x = nn.tanh(nn.Dense(64, kernel_init=orthogonal(2**0.5))(x))
        return nn.Dense(self.outputs, kernel_init=orthogonal(self.output_gain))(x)


env = make("gymnax/CartPole-v1")
env_params = env.default_params()
policy = MLP(env.action_space.n, 0.01)
critic = MLP(1, 1.0)  # v and h: one architecture, two sets of parameters
optimizer = optax.multi_transform(  # each network has a step size and a clipped norm of its own
    {
        name: optax.chain(optax.clip_by_global_norm(0.5), optax.adam(step_size, eps=1e-5))
        for name, step_size in {"policy": 3e-4, "w": 3e-3, "theta": 3e-3}.items()
    },
    {"policy": "policy", "w": "w", "theta": "theta"},
)


def value(params, obs):
    return critic.apply(params, obs)[..., 0]


class Transition(NamedTuple):
    """Leading axes [time, environments] in a rollout, [sequences, time] in a minibatch."""

    obs_tm1: jax.Array
    a_tm1: jax.Array
    log_prob_tm1: jax.Array  # of that action, under the policy that took it
    r_t: jax.Array
    terminated_t: jax.Array
    truncated_t: jax.Array
    obs_t: jax.Array  # where the action led, not the first observation of the next episode
    return_t: jax.Array  # of the episode, where this step ended one; else 0


def step(params, carry, key):
    """One step of all environments."""
    state, obs_tm1, return_tm1 = carry
    action_key, *env_keys = jax.random.split(key, 1 + ENVS)
    log_probs = nn.log_softmax(policy.apply(params["policy"], obs_tm1))
    a_tm1 = jax.random.categorical(action_key, log_probs)
    env_step = jax.vmap(partial(step_autoreset, env), in_axes=(0, 0, 0, None))
    now = env_step(jnp.stack(env_keys), state, a_tm1, env_params)
    return_t, ended = return_tm1 + now.reward, now.terminated | now.truncated
    transition = Transition(
        obs_tm1, a_tm1, rules.taken(log_probs, a_tm1), 0.1 * now.reward,  # moderate values
        now.terminated, now.truncated, now.next_observation, jnp.where(ended, return_t, 0.0),
    )  # fmt: skip
    return (now.state, now.observation, jnp.where(ended, 0.0, return_t)), transition


def loss(params, batch):
    """One loss for all three networks; no parameter is in two of its terms."""
    # Termination is a discount of 0. A truncated transition keeps its discount.
    discount_t = jnp.where(batch.terminated_t, 0.0, GAMMA)
    v_tm1, v_t = value(params["w"], batch.obs_tm1), value(params["w"], batch.obs_t)
    h_tm1 = value(params["theta"], batch.obs_tm1)
    critic_loss = jax.vmap(partial(rules.TDRC.loss, lam=LAMBDA, theta=params["theta"]))(
        v_tm1, batch.r_t, discount_t, v_t, h_tm1, truncated_t=batch.truncated_t
    )

    # The policy's advantage is the same TD(λ) error, also known as GAE.
    delta_t = jax.lax.stop_gradient(rules.td_error(v_tm1, batch.r_t, discount_t, v_t))
    d_tm1 = jax.vmap(partial(rules.lambda_errors, lam=LAMBDA))(
        delta_t, discount_t, truncated_t=batch.truncated_t
    )
    advantage = (d_tm1 - d_tm1.mean()) / (d_tm1.std() + 1e-8)
    log_probs = nn.log_softmax(policy.apply(params["policy"], batch.obs_tm1))
    ratio = jnp.exp(rules.taken(log_probs, batch.a_tm1) - batch.log_prob_tm1)
    clipped = jnp.clip(ratio, 1.0 - CLIP, 1.0 + CLIP)
    return jnp.mean(critic_loss - jnp.minimum(ratio * advantage, clipped * advantage))


def update(carry, key):
    """A rollout, and some epochs of learning from it."""
    params, moments, envs = carry
    step_key, order_key = jax.random.split(key)
    envs, rollout = jax.lax.scan(partial(step, params), envs, jax.random.split(step_key, TIME))
    # What one environment did stays together and in order.
    sequences = jax.tree.map(
        lambda x: jnp.swapaxes(x, 0, 1).reshape(-1, SEQUENCE, *x.shape[2:]), rollout
    )

    def descend(carry, rows):
        params, moments = carry
        gradient = jax.grad(loss)(params, jax.tree.map(lambda x: x[rows], sequences))
        updates, moments = optimizer.update(gradient, moments, params)
        return (optax.apply_updates(params, updates), moments), None

    keys, count = jax.random.split(order_key, EPOCHS), ENVS * TIME // SEQUENCE
    orders = jnp.stack([jax.random.permutation(key, count) for key in keys])
    (params, moments), _ = jax.lax.scan(descend, (params, moments), orders.reshape(-1, MINIBATCH))
    return (params, moments, envs), rollout.return_t


def main(steps: int = 60_000, seed: int = 0) -> list[float]:
    """Trains, and returns the mean return of episodes in each tenth of training."""
    *keys, env_key, stream_key = jax.random.split(jax.random.key(seed), 5)
    inits = {"policy": policy.init, "w": critic.init, "theta": critic.init}
    blank = jnp.zeros(env.observation_space.shape)
    params = {name: init(key, blank) for (name, init), key in zip(inits.items(), keys, strict=True)}
    begun = jax.vmap(env.reset, in_axes=(0, None))(jax.random.split(env_key, ENVS), env_params)
    carry = (params, optimizer.init(params), (*begun, jnp.zeros(ENVS)))
    keys = jax.random.split(stream_key, steps // (ENVS * TIME))
    _, returns = jax.lax.scan(update, carry, keys)
    means = [float(part[part > 0].mean()) for part in np.array_split(np.asarray(returns), 10)]
    print("mean return in each tenth of training:", np.round(means))
    return means


if __name__ == "__main__":
    tyro.cli(main)
