"""Parts of a step as one kernel: faster on CPUs, with the results of the plain program."""

from __future__ import annotations

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from eligrad._base import kernels
from eligrad.agents import QLambda, QLambdaConfig, default_network
from eligrad.agents.protocol import Transition
from eligrad.engines import Online
from eligrad.engines.stream import Runs
from eligrad.envs import Box, make
from eligrad.nets import AtariCNN, layer_norm
from tests.contract import registered

pytestmark = pytest.mark.skipif(jax.default_backend() != "cpu", reason="for CPUs")

with registered() as own_agents:
    Mean, MeanConfig = own_agents.Mean, own_agents.MeanConfig


def calls(function, *arguments):
    """How often the compiled program calls a kernel that is not inlined."""
    return jax.jit(function).lower(*arguments).compile().as_text().count("xla_cpu_small_call=")


def train(steps, chunk, **settings):
    env = make("MinAtar/Breakout-v1")
    network = default_network(env.observation_space.shape, env.action_space.n)
    agent = QLambda(QLambdaConfig(exploration_steps=500, **settings), network)
    runs = Runs(agent, env, env.default_params(), np.arange(1), np.arange(1))
    records = [runs.advance(chunk) for _ in range(steps // chunk)]
    return runs, np.concatenate([np.asarray(r.metrics["td_error"][0]) for r in records])


@pytest.mark.parametrize("h", ["network", "features"])
def test_a_thousand_steps_are_those_of_the_plain_program(h, monkeypatch):
    runs, errors = train(1000, 250, h=h)
    monkeypatch.setattr(kernels, "available", lambda: False)
    plain, expected = train(1000, 250, h=h)
    assert np.abs(expected).max() > 0.1
    np.testing.assert_allclose(errors, expected, rtol=1e-3, atol=1e-4)
    for one, other in zip(
        *(jax.tree.leaves((r.state.agent.w, r.state.agent.theta)) for r in (runs, plain)),
        strict=True,
    ):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=2e-5)


def test_kernels_are_in_use_for_one_run_alone(monkeypatch):
    def norm(x):
        return layer_norm(x)

    def norm_of_one_run(x):
        with kernels.for_one_run(on_cpu=True):
            return layer_norm(x)

    x = jnp.arange(64.0)
    assert calls(norm, x) == 0
    assert calls(norm_of_one_run, x) > 0
    assert not kernels.in_use()
    np.testing.assert_allclose(jax.jit(norm_of_one_run)(x), norm(x), rtol=1e-6)
    jax.clear_caches()
    monkeypatch.setattr(kernels, "available", lambda: False)
    assert calls(norm_of_one_run, x) == 0


def test_derivatives_in_both_modes():
    def loss(x):
        return jnp.sum(layer_norm(x) ** 3 * jnp.arange(64.0))

    def loss_of_one_run(x):
        with kernels.for_one_run(on_cpu=True):
            return loss(x)

    x, along = jnp.arange(64.0) ** 1.5, jnp.sin(jnp.arange(64.0))
    expected = jax.grad(loss)(x)
    np.testing.assert_allclose(jax.jit(jax.grad(loss_of_one_run))(x), expected, atol=1e-6)
    tangent = jax.jit(lambda x: jax.jvp(loss_of_one_run, (x,), (along,))[1])(x)
    np.testing.assert_allclose(tangent, expected @ along, rtol=1e-5)


def test_order_of_work_changes_no_number():
    def ordered(number, x):
        with kernels.for_one_run(on_cpu=True):
            return kernels.after(number, x)

    x = jnp.asarray(np.random.default_rng(0).normal(size=64).astype(np.float32))
    assert kernels.after(jnp.float32(2.0), x) is x
    np.testing.assert_array_equal(jax.jit(ordered)(jnp.float32(-2e30), x), x)
    # The compiler has not removed what the order hangs on.
    assert np.isnan(jax.jit(ordered)(jnp.float32(np.nan), x)).all()


@pytest.mark.usefixtures("quickest_programs")
def test_acting_and_learning_evaluate_the_network_once():
    """A kernel that also kept what derivatives need would be another one than to act by."""
    env = make("MinAtar/Breakout-v1")
    network = default_network(env.observation_space.shape, env.action_space.n)
    agent, key = QLambda(QLambdaConfig(), network), jax.random.key(0)
    seen = jnp.ones(env.observation_space.shape)
    transition = Transition(jnp.ones(()), jnp.zeros((), bool), jnp.zeros((), bool), seen, seen)
    state = jax.eval_shape(agent.init, key, seen)

    def products(acts):
        def step(state):
            with kernels.for_one_run(on_cpu=True):
                action = agent.act(state, key)[1] if acts else state.action
                return agent.update(state._replace(action=action), transition, key)

        return jax.jit(step).lower(state).compile().as_text().count(" dot(")

    assert products(acts=True) == products(acts=False) > 5


def test_large_arrays_are_left_to_the_compiler(request):
    """Sums of more numbers than MOST_NUMBERS would not compile within a kernel."""
    make_network = jax.jit(lambda key: AtariCNN((40, 40, 4), 3, sparsity=0.9, key=key))
    network = make_network(jax.random.key(0))

    def gradient(network):
        with kernels.for_one_run(on_cpu=True):
            return jax.grad(lambda network: network(jnp.ones((40, 40, 4)))[0])(network)

    with_kernels = jax.jit(gradient)(network)
    request.getfixturevalue("quickest_programs")  # for what is only compared with
    plain = jax.jit(jax.grad(lambda n: n(jnp.ones((40, 40, 4)))[0]))(network)
    for one, other in zip(*map(jax.tree.leaves, (with_kernels, plain)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("size", [1, kernels.MOST_NUMBERS, kernels.MOST_NUMBERS + 1])
def test_sizes_that_are_accepted_compile(size):
    def loss(x):
        with kernels.for_one_run(on_cpu=True):
            return jnp.sum(layer_norm(x) ** 3)

    gradient = jax.jit(jax.grad(loss))(jnp.arange(float(size)))
    expected = jax.grad(lambda x: jnp.sum(layer_norm(x) ** 3))(jnp.arange(float(size)))
    np.testing.assert_allclose(gradient, expected, rtol=1e-3, atol=1e-5)


def is_one_kernel(online):
    return online._dispatch.one_kernel(online._settings, online._packed) is not None


def learn_online(name, steps, actions, shape=(5,)):
    """An agent after so many steps of a recording with ends of both kinds; and its metrics."""
    rng = np.random.default_rng(0)
    observations = rng.normal(size=(steps, 2, *shape)).astype(np.float32)
    kinds, rewards = rng.choice(3, steps, p=[0.9, 0.05, 0.05]), rng.normal(size=steps)
    online, metrics = Online(name, shape, actions), []
    online.observe(observations[0, 0])
    for (last, first), reward, kind in zip(observations, rewards, kinds, strict=True):
        if online.observe(last, reward, kind == 1, kind == 2) is None:
            online.observe(first)
        metrics.append(list(online.metrics.values()))
    return online, np.array(metrics)


@pytest.mark.parametrize(
    ("name", "actions"),
    [
        ("gradient-ac", Box(-1.0, 1.0, (2,))),
        pytest.param("stream-ac", 3, marks=pytest.mark.nightly),
        pytest.param("qrc", 3, marks=pytest.mark.nightly),
        pytest.param("stream-q", 3, marks=pytest.mark.nightly),
    ],
)
def test_a_thousand_calls_as_one_kernel_are_those_of_the_plain_program(name, actions, monkeypatch):
    online, metrics = learn_online(name, 1000, actions)
    assert is_one_kernel(online)
    monkeypatch.setattr(kernels, "available", lambda: False)
    plain, expected = learn_online(name, 1000, actions)
    assert not is_one_kernel(plain)
    check_same(online, metrics, plain, expected)


def test_a_thousand_calls_with_images_are_those_of_the_plain_program(monkeypatch):
    online, metrics = learn_online("qrc", 1000, 3, shape=(6, 6, 2))
    assert not is_one_kernel(online)
    parts = small_parts(online)
    monkeypatch.setattr(kernels, "available", lambda: False)
    plain, expected = learn_online("qrc", 1000, 3, shape=(6, 6, 2))
    assert small_parts(plain) < parts / 3  # the compiler makes some by itself
    check_same(online, metrics, plain, expected)


def small_parts(online):
    """How many parts of a call are one kernel each."""
    dispatch, key = online._dispatch, np.zeros(2, np.uint32)
    transition = Transition(0.0, False, False, np.zeros((6, 6, 2)), np.zeros((6, 6, 2)))
    message = dispatch.message(key, key, transition)
    return calls(lambda *given: dispatch.observe(*given), online._settings, message, online._packed)


def check_same(online, metrics, plain, expected):
    assert np.abs(expected).max(axis=0).min() > 0.1
    np.testing.assert_allclose(metrics, expected, rtol=1e-3, atol=1e-4)
    for one, other in zip(*map(jax.tree.leaves, (online.state, plain.state)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=2e-5)


def test_large_sums_within_one_kernel():
    x = jnp.asarray(np.random.default_rng(0).normal(size=(100, 70)).astype(np.float32))
    assert x.size > kernels.MOST_NUMBERS
    assert calls(kernels.whole_program(kernels.total), x) > 0
    total = jax.jit(kernels.whole_program(kernels.total))(x)
    np.testing.assert_allclose(total, np.asarray(x, np.float64).sum(), rtol=1e-5)


@jax.tree_util.register_dataclass
class Sorting(Mean):
    """Sorts, for which a kernel would have to call a library."""

    def update(self, state, transition, key):
        state, metrics = super().update(state, transition, key)
        return state, metrics | {"spread": jnp.sort(state.means)[-1] - jnp.sort(state.means)[0]}


def test_what_does_not_compile_as_one_kernel_is_the_plain_program():
    of_both = []
    for kind in (Sorting, Mean):
        online = Online(kind(MeanConfig(), 2))
        online.observe(np.zeros(3, np.float32))
        of_both.append((is_one_kernel(online), [online.observe(np.ones(3), t) for t in range(9)]))
        assert online.metrics["spread"] > 1
    assert [one for one, _ in of_both] == [False, True]
    assert of_both[0][1] == of_both[1][1]


@jax.tree_util.register_dataclass
class Deaf(Mean):
    """Reads settings, transition and state, but nothing depends on any of them."""

    def act(self, state, key):
        return state._replace(action=jnp.int32(1)), jnp.int32(1)

    def update(self, state, transition, key):
        given = self.config.step_size, transition.reward, state.means[0]
        nothing = sum(jnp.asarray(each).astype(jnp.int32) * 0 for each in given)
        return state._replace(means=jnp.full(2, 0.5)), {"td_error": nothing.astype(jnp.float32)}


def test_arguments_without_effect():
    """They would end the process: XLA has no address for what a kernel does not read."""
    program = (
        "import numpy as np\n"
        "from tests.engines import test_kernels as here\n"
        "online = here.Online(here.Deaf(here.MeanConfig(), 2))\n"
        "online.observe(np.zeros(3, np.float32))\n"
        "assert [online.observe(np.ones(3), 1.0) for _ in range(3)] == [1, 1, 1]\n"
        "assert here.is_one_kernel(online)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
