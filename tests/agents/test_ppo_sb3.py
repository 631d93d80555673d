"""One update of PPO against that of stable-baselines3, on the same rollout, weights and order.

Not installed for the daily tests: `pip install torch stable-baselines3` to run these.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

WHY = "stable-baselines3, which needs torch, is installed by hand"
torch = pytest.importorskip("torch", reason=WHY)
stable_baselines3 = pytest.importorskip("stable_baselines3", reason=WHY)

import gymnasium  # noqa: E402
from stable_baselines3.common.buffers import RolloutBuffer  # noqa: E402
from stable_baselines3.common.logger import Logger  # noqa: E402

from eligrad.agents import PPO, DiscretePolicy, GaussianPolicy, PPOConfig, from_equinox  # noqa: E402
from eligrad.nets import tanh_mlp  # noqa: E402
from tests.agents import ppo_cases as cases  # noqa: E402

TIME, ENVS, SIZE = 32, 2, 4
CONFIG = PPOConfig(
    gamma=0.9,
    lam=0.8,
    actor_step_size=0.003,
    critic_step_size=0.003,
    clip=0.2,
    value_clip=0.0,
    entropy_bonus=0.02,
    max_gradient_norm=0.0,
    rollout=TIME * ENVS,
    num_envs=ENVS,
    epochs=4,
    minibatch_size=16,
)
SPACES = {
    "gaussian": gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32),
    "discrete": gymnasium.spaces.Discrete(3),
}


class Spaces(gymnasium.Env):
    """Has no more than spaces: nothing is played here."""

    def __init__(self, action_space):
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (SIZE,), np.float32)
        self.action_space = action_space


def network(outputs):
    return from_equinox(lambda key, _: tanh_mlp(SIZE, outputs, output_gain=1.0, key=key))


def make_ours(policy):
    if policy == "gaussian":
        bound = (float("inf"),) * 2
        made = GaussianPolicy(network(2), tuple(-b for b in bound), bound, (2,))
    else:
        made = DiscretePolicy(network(3), 3)
    return PPO(CONFIG, made, network(1))


def make_theirs(policy):
    c = CONFIG
    env = stable_baselines3.common.vec_env.DummyVecEnv([lambda: Spaces(SPACES[policy])] * ENVS)
    model = stable_baselines3.PPO(
        "MlpPolicy",
        env,
        learning_rate=c.actor_step_size,
        n_steps=TIME,
        batch_size=c.minibatch_size,
        n_epochs=c.epochs,
        gamma=c.gamma,
        gae_lambda=c.lam,
        clip_range=c.clip,
        clip_range_vf=None,
        ent_coef=c.entropy_bonus,
        vf_coef=0.5,  # of a mean square; ours is half of one, and nothing else is scaled
        max_grad_norm=float("inf"),
        device="cpu",
    )
    model.set_logger(Logger(folder=None, output_formats=[]))
    return model


def modules(policy):
    """Their layers in the order of our leaves: actor, then critic."""
    extractor = policy.mlp_extractor
    return (
        [extractor.policy_net[0], extractor.policy_net[2], policy.action_net],
        [extractor.value_net[0], extractor.value_net[2], policy.value_net],
    )


def parameters(policy):
    """Their parameters as ours: weights [inputs, outputs] and biases in turn."""
    both = [
        [p.detach().numpy().T for layer in part for p in (layer.weight, layer.bias)]
        for part in modules(policy)
    ]
    if hasattr(policy, "log_std"):
        both[0].append(policy.log_std.detach().numpy())
    return both


def give_weights(policy, networks):
    with torch.no_grad():
        for part, tree in zip(modules(policy), networks, strict=False):
            leaves = iter(jax.tree.leaves(tree))
            for layer in part:
                for parameter in (layer.weight, layer.bias):
                    parameter.copy_(torch.as_tensor(np.array(next(leaves)).T))


def fill(model, rollout):
    """Their buffer with our rollout; a truncation adds what it is bootstrapped from, as they do."""
    policy = model.policy
    buffer = RolloutBuffer(
        TIME,
        policy.observation_space,
        policy.action_space,
        "cpu",
        gae_lambda=CONFIG.lam,
        gamma=CONFIG.gamma,
        n_envs=ENVS,
    )
    starts = np.zeros(ENVS, bool)
    with torch.no_grad():
        for t in range(TIME):
            observation = torch.as_tensor(rollout.observation[t])
            action = torch.as_tensor(rollout.action[t])
            values, log_prob, _ = policy.evaluate_actions(observation, action)
            cut = rollout.truncated[t] & ~rollout.terminated[t]
            beyond = policy.predict_values(torch.as_tensor(rollout.next_observation[t]))
            reward = rollout.reward[t] + CONFIG.gamma * beyond.numpy()[:, 0] * cut
            stored = rollout.action[t].reshape(ENVS, -1)
            buffer.add(rollout.observation[t], stored, reward, starts, values, log_prob)
            starts = rollout.terminated[t] | rollout.truncated[t]
        last = policy.predict_values(torch.as_tensor(rollout.next_observation[-1]))
    buffer.compute_returns_and_advantage(last, starts)
    model.rollout_buffer = buffer


@pytest.mark.parametrize("policy", ["gaussian", "discrete"])
def test_one_update(policy, monkeypatch):
    ours, theirs = make_ours(policy), make_theirs(policy)
    state = ours.init(jax.random.key(0), jnp.zeros((ENVS, SIZE)))
    give_weights(theirs.policy, state.networks)
    monkeypatch.setattr(cases, "SIZE", SIZE)
    rollout = cases.rollout(CONFIG, policy)
    # Their last bootstrap is the observation after the rollout, also if an episode was cut there.
    assert not (rollout.truncated[-1] & ~rollout.terminated[-1]).any()
    fill(theirs, rollout)
    key = jax.random.key(7)
    # Theirs are in the order of environments, and then of time.
    orders = [
        np.asarray(jax.random.permutation(k, CONFIG.rollout))
        for k in jax.random.split(key, CONFIG.epochs)
    ]
    remaining = iter([order % ENVS * TIME + order // ENVS for order in orders])
    monkeypatch.setattr(np.random, "permutation", lambda count: next(remaining))
    first = parameters(theirs.policy)
    first = [[p.copy() for p in part] for part in first]
    theirs.train()
    assert next(remaining, None) is None
    state, told = jax.jit(ours.learn)(state, cases.as_jax(rollout), key)
    errors = [
        cases.distance(cases.leaves(tree), part, begun)
        for tree, part, begun in zip(state.networks, parameters(theirs.policy), first, strict=False)
    ]
    print(policy, "actor and critic apart, over the distance moved:", errors)
    assert max(errors) < 1e-4
    logged = theirs.logger.name_to_value
    for name, number in {
        "train/explained_variance": told["explained_variance"],
        "train/clip_fraction": told["clip_fraction"],
        "train/policy_gradient_loss": told["policy_loss"],
        "train/entropy_loss": -told["entropy"],
        "train/value_loss": 2 * told["critic_loss"],
    }.items():
        assert logged[name] == pytest.approx(float(number), rel=1e-3, abs=1e-5), name
