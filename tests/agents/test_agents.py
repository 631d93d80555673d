"""The agents as programs: transformations, networks, optimisers, refusals, exploration."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from eligrad import normalize
from eligrad.agents import (
    PRESETS,
    TITLES,
    Network,
    QLambda,
    QLambdaConfig,
    default_network,
    from_equinox,
)
from eligrad.agents.streaming import (
    MOST_COMPARED,
    best_action,
    epsilon_greedy,
    epsilon_greedy_probabilities,
)
from eligrad.envs.spaces import Box, Discrete
from eligrad.nets import MLP, Affine, layer_norm, streaming_mlp
from eligrad.optim import obgd
from tests.agents.stream import record

pytestmark = pytest.mark.usefixtures("quickest_compilation")

KEY = jax.random.key(0)
INPUTS, ACTIONS, STEPS = 5, 3, 12
NET = from_equinox(lambda key, s: streaming_mlp(INPUTS, ACTIONS, hidden=(4,), sparsity=s, key=key))
STREAM = record(STEPS, (INPUTS,), np.float32, seed=1)
BASE = QLambdaConfig(
    step_size=0.05, sparsity=0.4, epsilon_start=0.5, epsilon_end=0.1, exploration_steps=8
)


def run(agent, init_key):
    """The agent's final state after the recorded stream, and its actions."""

    def step(state, inputs):
        transition, act_key, update_key = inputs
        state, action = agent.act(state, act_key)
        state, _ = agent.update(state, transition, update_key)
        return state, action

    inputs = (STREAM.transitions, STREAM.act_keys, STREAM.update_keys)
    return jax.lax.scan(step, agent.init(init_key, jnp.asarray(STREAM.first)), inputs)


def numbers(agent):
    """With all settings as arrays, so that agents that differ only in them share a program."""
    return jax.tree.map(jnp.float32, agent)


alone = jax.jit(run)
together = jax.jit(jax.vmap(run))


def _one_step(agent):
    """The state before the first update, and after it."""
    state = agent.init(jax.random.key(5), jnp.asarray(STREAM.first))
    state, _ = agent.act(state, STREAM.act_keys[0])
    transition = jax.tree.map(lambda x: jnp.asarray(x[0]), STREAM.transitions)
    return state, agent.update(state, transition, STREAM.update_keys[0])[0]


def assert_close(a, b, tolerance=2e-6):
    assert jax.tree.structure(a) == jax.tree.structure(b)
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance)


# Transformations.


def test_jit_changes_nothing():
    agent = QLambda(BASE, NET)
    assert_close(jax.jit(lambda: _one_step(agent))(), _one_step(agent))


def test_seeds_in_a_vmap_are_the_seeds_alone():
    agent, keys = numbers(QLambda(BASE, NET)), jax.random.split(jax.random.key(1), 3)
    runs = together(jax.tree.map(lambda x: jnp.broadcast_to(x, (3,)), agent), keys)
    for i, key in enumerate(keys):
        assert_close(jax.tree.map(lambda x, i=i: x[i], runs), alone(agent, key))


@pytest.mark.parametrize("preset", ["qrc", "stream-q"])
def test_settings_in_a_vmap_are_the_settings_alone(preset):
    """Every number of the settings may differ from run to run of one program."""
    rng = np.random.default_rng(0)
    ranges = {
        "lam": (0.0, 1.0),
        "gamma": (0.5, 1.0),
        "step_size": (0.01, 0.1),
        "h_scale": (0.1, 1.0),
        "beta": (0.0, 1.0),
        "sparsity": (0.0, 0.9),
        "epsilon_start": (0.5, 1.0),
        "epsilon_end": (0.0, 0.5),
        "exploration_steps": (1.0, 12.0),
        "kappa": (1.0, 3.0),
    }
    assert set(ranges) == {f.name for f in dataclasses.fields(BASE) if not f.metadata}
    rows = [
        {name: np.float32(rng.uniform(*bounds)) for name, bounds in ranges.items()}
        for _ in range(3)
    ]
    rows[0] |= {"lam": np.float32(0.0), "beta": np.float32(0.0)}
    agents = [numbers(QLambda(dataclasses.replace(PRESETS[preset], **row), NET)) for row in rows]
    keys = jax.random.split(jax.random.key(2), 3)
    runs = together(jax.tree.map(lambda *leaves: jnp.stack(leaves), *agents), keys)
    for i, (agent, key) in enumerate(zip(agents, keys, strict=True)):
        assert_close(jax.tree.map(lambda x, i=i: x[i], runs), alone(agent, key), 1e-5)


# Optimisers.


def test_an_optimizer_by_name_is_the_same_one_given():
    key = jax.random.key(3)
    named = dataclasses.replace(BASE, optimizer="adam")
    expected = alone(numbers(QLambda(named, NET)), key)
    assert_close(alone(numbers(QLambda(BASE, NET, optimizer=optax.adam)), key), expected)


def test_any_optax_optimizer_works():
    def optimizer(step_size):
        return optax.chain(optax.clip_by_global_norm(0.5), optax.adamw(step_size))

    agent = QLambda(BASE, NET, optimizer=optimizer)
    start = agent.init(jax.random.key(3), jnp.asarray(STREAM.first))
    state, _ = alone(agent, jax.random.key(3))
    for before, after in ((start.w, state.w), (start.theta, state.theta)):
        moved = jax.tree.map(lambda a, b: np.abs(a - b).max(), before, after)
        assert all(np.isfinite(m) and m > 1e-3 for m in jax.tree.leaves(moved))


# Networks.


def _weights(seed, *shapes):
    rng = np.random.default_rng(seed)
    return [jnp.asarray(rng.normal(0, 0.3, shape), jnp.float32) for shape in shapes]


def _seed_of(key):
    return int(jax.random.key_data(key)[-1])


def _plain_network():
    """A dictionary of arrays and a function."""

    def init(key):
        shapes = [(INPUTS, 4), (4,), (4, ACTIONS), (ACTIONS,)]
        return dict(zip(("w1", "b1", "w2", "b2"), _weights(_seed_of(key), *shapes), strict=True))

    def apply(params, observation):
        hidden = jnp.tanh(observation @ params["w1"] + params["b1"])
        return hidden @ params["w2"] + params["b2"]

    return Network(init, apply)


def test_a_dictionary_and_flax_work_alike():
    nn = pytest.importorskip("flax.linen")
    plain = _plain_network()

    class Values(nn.Module):
        @nn.compact
        def __call__(self, x):
            x = nn.tanh(nn.Dense(4)(x))
            return nn.Dense(ACTIONS)(x)

    def init(key):
        w1, b1, w2, b2 = plain.init(key).values()
        given = {"Dense_0": {"kernel": w1, "bias": b1}, "Dense_1": {"kernel": w2, "bias": b2}}
        own = Values().init(key, jnp.zeros(INPUTS))["params"]
        return jax.tree.map(lambda fresh, ours: ours.reshape(fresh.shape), own, given)

    flax = Network(init, lambda params, x: Values().apply({"params": params}, x))
    results = []
    for network in (plain, flax):
        # The keys that initialise must be known, so the beginning is not compiled.
        state, actions = run(QLambda(BASE, network), jax.random.key(4))
        results.append((jax.tree.leaves(state.w), jax.tree.leaves(state.theta), actions))
    by_size = [
        [sorted(leaves, key=np.size) for leaves in (w, theta)] + [actions]
        for w, theta, actions in results
    ]
    assert_close(by_size[0], by_size[1])


@pytest.mark.parametrize(
    ("shape", "parameters"),
    [
        ((6,), 6 * 128 + 128 + 128 * 128 + 128 + 128 * 4 + 4),
        ((10, 10, 4), 9 * 4 * 16 + 16 + 64 * 16 * 128 + 128 + 128 * 4 + 4),
    ],
)
def test_default_networks(shape, parameters):
    network = default_network(shape, 4)
    params = jax.eval_shape(network.init, jax.random.key(0), 0.9)
    assert sum(leaf.size for leaf in jax.tree.leaves(params)) == parameters


def test_an_init_that_requires_a_second_argument_gets_the_sparsity():
    def make(init):
        return Network(init, lambda params, x: jnp.zeros(ACTIONS)).make_params(KEY, 0.25)

    assert make(lambda key: 1.0) == 1.0
    assert make(lambda key, sparsity: sparsity) == 0.25
    assert make(lambda key, scale=3.0: scale) == 3.0
    assert make(lambda *arguments: len(arguments)) == 1

    def module(*sparsity):
        return streaming_mlp(INPUTS, ACTIONS, hidden=(4,), sparsity=(*sparsity, 0.5)[0], key=KEY)

    for given, sparsity in (
        (from_equinox(lambda key: module()), 0.5),
        (from_equinox(lambda key, sparsity: module(sparsity)), 0.25),
    ):
        weight = given.make_params(KEY, 0.25).layers[1].weight
        assert np.mean(np.asarray(weight) == 0) == sparsity


# What h is.


class _Headless(eqx.Module):
    """A module that does not say where its last layer is."""

    inner: MLP

    def __call__(self, observation):
        return self.inner(observation)


def test_the_parameters_of_h_on_features_are_a_linear_head_of_zeros():
    agent = QLambda(dataclasses.replace(BASE, h="features"), NET)
    state = agent.init(KEY, jnp.asarray(STREAM.first))
    assert [leaf.shape for leaf in jax.tree.leaves(state.theta)] == [(4, ACTIONS), (ACTIONS,)]
    assert not any(leaf.any() for leaf in jax.tree.leaves(state.theta))
    # While h is 0, w moves as Q(λ) does.
    plain = QLambda(dataclasses.replace(BASE, rule="td"), NET)
    (_, ours), (_, theirs) = _one_step(agent), _one_step(plain)
    assert_close(ours.w, theirs.w)
    assert any(leaf.any() for leaf in jax.tree.leaves(ours.theta))


def test_an_episode_is_inspected_with_the_h_of_the_features():
    agent = QLambda(dataclasses.replace(BASE, h="features"), NET)
    state, _ = alone(agent, KEY)
    observations, actions = STREAM.transitions.next_observation[:4], np.array([0, 2, 1, 1])
    seen = normalize.normalize(state.normalizer.observations, jnp.asarray(observations))
    h = jax.vmap(lambda x: state.theta(state.w.features(x)))(seen)
    inspected = agent.inspect(state, observations, actions, np.zeros(3, np.float32))
    assert np.abs(inspected.h).max() > 1e-3
    np.testing.assert_allclose(inspected.h, h[np.arange(3), actions[:3]], rtol=1e-5)


@pytest.mark.parametrize("regularize", ["parameters", "head", "output"])
def test_a_network_by_hand_says_where_its_head_is(regularize):
    """And is then treated as a module that says it: a dictionary of the same weights."""
    config = dataclasses.replace(BASE, regularize=regularize, h="network")
    net = from_equinox(lambda key: streaming_mlp(INPUTS, ACTIONS, hidden=(4,), sparsity=0, key=key))

    def with_features(params, observation):
        first, last = (Affine(2, 2, init=lambda *_: jnp.zeros(()), key=KEY) for _ in range(2))
        first = eqx.tree_at(lambda a: (a.weight, a.bias), first, params["first"])
        last = eqx.tree_at(lambda a: (a.weight, a.bias), last, params["last"])
        features = jax.nn.leaky_relu(layer_norm(first(observation)))
        return last(features), features

    def init(key):
        first, last = net.init(key).layers
        return {"first": (first.weight, first.bias), "last": (last.weight, last.bias)}

    by_hand = Network(
        init,
        lambda params, observation: with_features(params, observation)[0],
        head=lambda params: params["last"],
        with_features=with_features,
    )
    for h in ("network", "features"):
        agents = (QLambda(dataclasses.replace(config, h=h), n) for n in (net, by_hand))
        (a, _), (b, _) = (run(agent, jax.random.key(4)) for agent in agents)
        assert_close(jax.tree.leaves((a.w, a.theta)), jax.tree.leaves((b.w, b.theta)))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"regularize": "head"}, r"regularize is 'head'.*head=.*layer head"),
        ({"h": "features"}, r"h is 'features'.*with_features=.*layer head"),
    ],
)
def test_a_network_that_does_not_say_where_its_head_is(changes, message):
    module = from_equinox(
        lambda key: _Headless(streaming_mlp(INPUTS, ACTIONS, hidden=(4,), sparsity=0, key=key))
    )
    for network in (module, _plain_network()):
        agent = QLambda(dataclasses.replace(BASE, **changes), network)
        with pytest.raises(ValueError, match=message):
            agent.init(KEY, jnp.asarray(STREAM.first))
    agent = QLambda(dataclasses.replace(BASE, **changes), module)
    with pytest.raises(ValueError, match=message):
        agent.check_spaces(Box(-1.0, 1.0, (INPUTS,)), Discrete(ACTIONS))


def test_features_are_a_vector():
    network = dataclasses.replace(NET, with_features=lambda w, x: (jnp.zeros(3), jnp.zeros((2, 2))))
    agent = QLambda(dataclasses.replace(BASE, h="features"), network)
    with pytest.raises(ValueError, match=r"features of shape \(2, 2\); a vector"):
        agent.init(KEY, jnp.asarray(STREAM.first))


def test_observations_without_a_default_network():
    with pytest.raises(ValueError, match=r"shape \(3, 4\).*network="):
        default_network((3, 4), 2)


# A further loss.


def test_the_gradient_of_an_auxiliary_loss_joins_the_update():
    network = _plain_network()

    def loss(params, observation, seen):
        # From the features of q to the observation that followed: all of its arguments matter.
        features = jnp.tanh(observation @ params["w1"] + params["b1"])
        return jnp.sum((jnp.sum(features) - seen.next_observation) ** 2) + seen.reward

    before, plain = _one_step(QLambda(BASE, network))
    _, joined = _one_step(QLambda(BASE, network, auxiliary_loss=loss))
    arrived = normalize.normalize(
        normalize.update(
            normalize.update(normalize.init_stats((INPUTS,)), jnp.asarray(STREAM.first)),
            jnp.asarray(STREAM.transitions.next_observation[0]),
        ),
        jnp.asarray(STREAM.transitions.next_observation[0]),
    )
    features = np.tanh(np.asarray(before.w["b1"]))  # the first observation normalises to 0
    slope = 2 * np.sum(features.sum() - np.asarray(arrived)) * (1 - features**2)
    step = np.asarray(joined.w["b1"] - plain.w["b1"])
    np.testing.assert_allclose(step, -0.05 * slope, rtol=1e-4)
    assert_close([joined.w["w2"], joined.theta], [plain.w["w2"], plain.theta])


def test_the_bound_of_obgd_shortens_an_auxiliary_loss_with_the_rest():
    """The trace's norm, which the loss has no part in, is what shortens both."""
    config = dataclasses.replace(BASE, rule="td", optimizer="obgd", kappa=50.0)
    steps = {}
    for slope in (0.0, 1.0, 2.0):
        agent = QLambda(config, NET, auxiliary_loss=lambda w, *_, k=slope: k * jnp.sum(_flat(w)))
        before, after = _one_step(agent)
        steps[slope] = np.asarray(_flat(after.w) - _flat(before.w))
    joined = steps[1.0] - steps[0.0]
    assert (joined < -1e-4).all()
    assert (joined > -0.9 * BASE.step_size).all()
    np.testing.assert_allclose(steps[2.0] - steps[0.0], 2 * joined, rtol=1e-3)


def _flat(tree):
    return jnp.concatenate([jnp.ravel(leaf) for leaf in jax.tree.leaves(tree)])


def test_this_library_s_optimisers_may_be_given_too():
    key = jax.random.key(3)
    named = dataclasses.replace(BASE, rule="td", optimizer="obgd")
    given = QLambda(dataclasses.replace(BASE, rule="td"), NET, optimizer=lambda s: obgd(s, 2.0))
    assert_close(alone(numbers(given), key), alone(numbers(QLambda(named, NET)), key))


# Refusals.


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"lam": 1.2}, r"lam is 1\.2.*\[0, 1\]"),
        ({"lam": float("nan")}, "lam is nan"),
        ({"gamma": -0.1}, r"gamma is -0\.1"),
        ({"step_size": -1e-3}, r"step_size is -0\.001.*\[0, ∞\)"),
        ({"step_size": float("inf")}, r"step_size is inf.*\[0, ∞\)"),
        ({"h_scale": -1.0}, r"h_scale is -1\.0"),
        ({"beta": -1.0}, r"beta is -1\.0"),
        ({"sparsity": 90.0}, r"sparsity is 90\.0"),
        ({"epsilon_start": 1.1}, r"epsilon_start is 1\.1"),
        ({"epsilon_end": -0.01}, r"epsilon_end is -0\.01"),
        ({"exploration_steps": -5}, "exploration_steps is -5"),
        ({"kappa": -2.0}, r"kappa is -2\.0"),
        ({"rule": "tdcr"}, "rule is 'tdcr'.*did you mean 'td"),
        ({"target": "expectde"}, "target is 'expectde'.*did you mean 'expected'"),
        ({"trace_cut": "Watkins"}, "trace_cut is 'Watkins'.*did you mean 'watkins'"),
        ({"optimizer": "adm"}, "optimizer is 'adm'.*did you mean 'adam'"),
        ({"regularize": "outputs"}, "regularize is 'outputs'.*did you mean 'output'"),
        ({"h": "feature"}, "h is 'feature'.*did you mean 'features'"),
        ({"rule": "td", "h": "features"}, "h is 'features' and rule 'td', which has no h"),
    ],
)
def test_settings_that_make_no_sense_are_refused_by_name(changes, message):
    config = dataclasses.replace(BASE)
    for name, value in changes.items():
        # Past the type checker, which the tests have on and users have not.
        object.__setattr__(config, name, value)
    agent = QLambda(config, NET)
    with pytest.raises(ValueError, match=message):
        agent.init(jax.random.key(0), jnp.asarray(STREAM.first))


def test_a_bad_setting_in_a_batch_is_refused_where_it_is_known():
    config = dataclasses.replace(BASE, lam=np.array([0.5, 1.5], np.float32))
    with pytest.raises(ValueError, match=r"lam is 1\.5"):
        config.check()


def test_every_preset_is_valid_and_has_a_title():
    assert set(PRESETS) == set(TITLES)
    for config in PRESETS.values():
        config.check()


# Exploration.


def test_epsilon_is_linear_then_constant():
    config = dataclasses.replace(
        BASE, epsilon_start=0.9, epsilon_end=0.1, exploration_steps=200_000
    )
    epsilon = jax.jit(jax.vmap(QLambda(config, NET).epsilon))
    steps = np.array([0, 1, 50_000, 100_000, 199_999, 200_000, 200_001, 2**31 - 1], np.int32)
    expected = [0.9, 0.9 - 0.8 / 200_000, 0.7, 0.5, 0.1 + 0.8 / 200_000, 0.1, 0.1, 0.1]
    np.testing.assert_allclose(epsilon(steps), expected, rtol=0, atol=1e-7)


def test_the_first_step_after_the_first_is_one_further():
    """By environment step: the schedule has moved once when the second action is chosen."""
    state, after = _one_step(QLambda(BASE, NET))
    assert (state.step, after.step) == (0, 1)


@pytest.mark.parametrize("target", ["max", "sarsa", "expected"])
def test_exploration_stays_at_its_end_when_no_more_steps_are_counted(target):
    """An update at the last step that is counted is one at any step after the schedule."""
    settings = {"target": target, "epsilon_start": 1.0, "epsilon_end": 0.0}
    agent = QLambda(dataclasses.replace(BASE, **settings), NET)
    state = agent.init(jax.random.key(5), jnp.asarray(STREAM.first))

    def after_the_update_at(step):
        transition = jax.tree.map(lambda x: jnp.asarray(x[0]), STREAM.transitions)
        moved = state._replace(step=jnp.int32(step))
        # Several keys, since an action drawn at random may be the best one.
        return jax.vmap(lambda key: agent.update(moved, transition, key)[0])(STREAM.update_keys)

    last, before = after_the_update_at(2**31 - 1), after_the_update_at(2**31 - 2)
    assert (last.step == 2**31 - 1).all()
    jax.tree.map(np.testing.assert_array_equal, last, before)


@pytest.mark.parametrize("actions", [1, 2, 3, 18, MOST_COMPARED, MOST_COMPARED + 1])
def test_the_best_action_is_that_of_argmax(actions):
    rng = np.random.default_rng(actions)
    rows = rng.integers(-2, 3, size=(200, actions)).astype(np.float32)  # many ties
    rows[rng.random(rows.shape) < 0.05] = np.nan
    rows[rng.random(rows.shape) < 0.05] = -np.inf
    assert actions < 3 or np.isnan(rows).any(axis=1).any()
    found = jax.jit(jax.vmap(best_action))(jnp.asarray(rows))
    np.testing.assert_array_equal(found, np.argmax(rows, axis=1))
    assert found.dtype == jnp.int32


def test_ties_go_to_the_first_index():
    for q, best in (([0.5, 1.0, 1.0], 1), ([2.0, 2.0, 2.0], 0), ([-1.0, 0.0, 0.0], 1)):
        choice = epsilon_greedy(jax.random.key(0), jnp.asarray(q), jnp.zeros(()))
        assert (choice.action, choice.greedy) == (best, True)


def test_a_draw_that_hits_the_best_action_is_greedy():
    q, keys = jnp.asarray([0.0, 1.0, 1.0]), jax.random.split(jax.random.key(6), 900)
    choice = jax.vmap(lambda key: epsilon_greedy(key, q, jnp.ones(())))(keys)
    np.testing.assert_array_equal(choice.greedy, choice.action == 1)
    # Four standard deviations of a binomial of 900 and 1/3.
    np.testing.assert_allclose(np.bincount(choice.action, minlength=3), 300, atol=57)


def test_probabilities_are_those_of_the_choice():
    q, epsilon, n = jnp.asarray([0.3, 0.1, 0.9, 0.9]), jnp.asarray(0.4), 2000
    keys = jax.random.split(jax.random.key(7), n)
    chosen = jax.vmap(lambda key: epsilon_greedy(key, q, epsilon).action)(keys)
    probabilities = epsilon_greedy_probabilities(q, epsilon)
    np.testing.assert_allclose(probabilities, [0.1, 0.1, 0.7, 0.1], rtol=1e-6)
    np.testing.assert_allclose(np.bincount(chosen, minlength=4) / n, probabilities, atol=0.04)


# Looking without learning, and leaving in between.


def test_greedy_action_uses_the_statistics_and_changes_nothing():
    agent = QLambda(BASE, _plain_network())
    _, state = _one_step(agent)
    before = jax.tree.map(np.array, state)
    raw = np.random.default_rng(0).normal(0, 3, (50, INPUTS)).astype(np.float32)
    actions = [int(a) for a in jax.vmap(lambda x: agent.greedy_action(state, x))(raw)]
    assert_close(jax.tree.map(np.array, state), before, tolerance=0)
    stats = state.normalizer.observations
    mean, variance = np.asarray(stats.mean, np.float64), np.asarray(normalize.variance(stats))
    expected, unnormalised = (
        [int(jnp.argmax(agent.network.apply(state.w, jnp.asarray(x, jnp.float32)))) for x in rows]
        for rows in ((raw - mean) / np.sqrt(variance + 1e-8), raw)
    )
    assert actions == expected
    assert actions != unnormalised


def test_an_interrupted_agent_starts_a_new_episode_with_what_it_has_learned():
    agent = QLambda(dataclasses.replace(BASE, target="sarsa"), NET)
    _, state = _one_step(agent)
    other = jnp.asarray(STREAM.first) + 1.0
    assert state.planned
    assert state.traces.discount > 0
    left = agent.interrupt(state, other)
    assert not left.planned
    assert left.traces.discount == 0
    assert left.normalizer.observations.samples == state.normalizer.observations.samples + 1
    np.testing.assert_array_equal(
        left.observation, normalize.normalize(left.normalizer.observations, other)
    )
    assert_close((left.w, left.theta, left.step), (state.w, state.theta, state.step), tolerance=0)
