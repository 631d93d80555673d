"""One battery for every optimiser that follows a direction; a new one is one line in OPTIMIZERS."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from eligrad.optim import adaptive_obgd, ascend, obgd


def numpy_sgd(trace, error, memory, t, *, rate):
    del t
    return {name: rate * error * z for name, z in trace.items()}, memory


def numpy_adam(trace, error, memory, t, *, rate, b1=0.9, b2=0.999, eps=1e-8):
    step = {}
    for name, z in trace.items():
        g = error * z
        m, v = memory.get(name, (0.0, 0.0))
        m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g**2
        memory[name] = m, v
        step[name] = rate * (m / (1 - b1**t)) / (np.sqrt(v / (1 - b2**t)) + eps)
    return step, memory


def numpy_bounded(direction, error, rate, kappa):
    norm = sum(np.abs(d).sum() for d in direction.values())
    bound = rate * kappa * max(abs(error), 1.0) * norm
    step_size = rate if bound <= 1 else rate / bound
    return {name: step_size * error * d for name, d in direction.items()}


def numpy_obgd(trace, error, memory, t, *, rate, kappa):
    del t
    return numpy_bounded(trace, error, rate, kappa), memory


def numpy_adaptive_obgd(trace, error, memory, t, *, rate, kappa, b2=0.999, eps=1e-8):
    direction = {}
    for name, z in trace.items():
        memory[name] = b2 * memory.get(name, 0.0) + (1 - b2) * (error * z) ** 2
        direction[name] = z / np.sqrt(memory[name] / (1 - b2**t) + eps)
    return numpy_bounded(direction, error, rate, kappa), memory


# name -> (learning rate -> optimiser, whether it multiplies the trace by the error, NumPy twin).
OPTIMIZERS = {
    "sgd": (lambda rate: ascend(optax.sgd(rate)), False, numpy_sgd),
    "adam": (lambda rate: ascend(optax.adam(rate)), False, numpy_adam),
    "obgd": (lambda rate: obgd(rate, 2.0), True, partial(numpy_obgd, kappa=2.0)),
    # A tiny kappa too, so that also the unbounded branch is walked through.
    "obgd_loose": (lambda rate: obgd(rate, 1e-3), True, partial(numpy_obgd, kappa=1e-3)),
    "adaptive_obgd": (
        lambda rate: adaptive_obgd(rate, 2.0),
        True,
        partial(numpy_adaptive_obgd, kappa=2.0),
    ),
    "adaptive_obgd_loose": (
        lambda rate: adaptive_obgd(rate, 1e-3),
        True,
        partial(numpy_adaptive_obgd, kappa=1e-3),
    ),
}

battery = pytest.mark.parametrize("name", OPTIMIZERS)
SHAPES = {"weight": (5, 3), "bias": (3,), "gain": ()}


def make_steps(seed, steps, dtype=np.float32):
    rng = np.random.default_rng(seed)
    traces = {name: rng.normal(size=(steps, *s)).astype(dtype) for name, s in SHAPES.items()}
    return traces, (3 * rng.normal(size=steps)).astype(dtype)


def take(traces, t):
    return {name: jnp.asarray(z[t]) for name, z in traces.items()}


def one_update(name, optimizer, trace, state, params, error):
    """An optimiser either takes the TD error itself or is given the error times the trace."""
    takes_error = OPTIMIZERS[name][1]
    direction = trace if takes_error else jax.tree.map(lambda z: error.astype(z.dtype) * z, trace)
    return optimizer.update(direction, state, params, td_error=error)


def learn(name, rate, traces, errors):
    """All parameters along the way, from 0, in one scan."""
    optimizer = OPTIMIZERS[name][0](rate)
    params = jax.tree.map(lambda z: jnp.zeros(z.shape[1:], z.dtype), traces)

    def step(carry, inputs):
        params, state = carry
        updates, state = one_update(name, optimizer, inputs[0], state, params, inputs[1])
        params = optax.apply_updates(params, updates)
        return (params, state), params

    return jax.lax.scan(step, (params, optimizer.init(params)), (traces, errors))[1]


@battery
def test_matches_numpy_over_50_steps(name):
    rate, (traces, errors) = 0.3, make_steps(0, 50)
    learned = learn(name, rate, jax.tree.map(jnp.asarray, traces), jnp.asarray(errors))
    params, memory = {leaf: np.zeros(shape) for leaf, shape in SHAPES.items()}, {}
    for t in range(50):
        trace = {leaf: z[t].astype(np.float64) for leaf, z in traces.items()}
        step, memory = OPTIMIZERS[name][2](trace, float(errors[t]), memory, t + 1, rate=rate)
        params = {leaf: params[leaf] + step[leaf] for leaf in params}
        for leaf in params:
            np.testing.assert_allclose(learned[leaf][t], params[leaf], rtol=2e-5, atol=2e-5)


@battery
def test_structure_of_updates_and_state_is_kept(name):
    (traces, errors), optimizer = make_steps(1, 2), OPTIMIZERS[name][0](0.1)
    params = take(traces, 0)
    state = optimizer.init(params)
    update = partial(one_update, name, optimizer)
    updates, new_state = jax.eval_shape(update, params, state, params, jnp.asarray(errors[0]))
    assert jax.tree.structure(updates) == jax.tree.structure(params)
    assert jax.tree.structure(new_state) == jax.tree.structure(state)
    shapes = [jax.tree.map(lambda x: (x.shape, x.dtype), s) for s in (state, new_state)]
    assert shapes[0] == shapes[1]


@battery
@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float32, jnp.float64])
def test_dtype_is_kept(name, dtype, x64):
    traces, _ = make_steps(2, 2, np.float64)
    params = jax.tree.map(lambda z: z.astype(dtype), take(traces, 0))
    optimizer = OPTIMIZERS[name][0](0.1)
    update, error = partial(one_update, name, optimizer), jnp.asarray(-1.5, jnp.float32)
    updates, state = jax.eval_shape(update, params, optimizer.init(params), params, error)
    assert {leaf.dtype for leaf in jax.tree.leaves(updates)} == {jnp.dtype(dtype)}
    floats = [x for x in jax.tree.leaves(state) if jnp.issubdtype(x.dtype, jnp.floating)]
    assert {leaf.dtype for leaf in floats} <= {jnp.dtype(dtype)}


@battery
def test_jit_equals_no_jit(name):
    traces, errors = make_steps(3, 3)
    optimizer = OPTIMIZERS[name][0](0.1)
    params = take(traces, 0)
    state = compiled_state = optimizer.init(params)
    update = partial(one_update, name, optimizer)
    for t in range(3):
        arguments = take(traces, t), params, jnp.asarray(errors[t])
        expected, state = update(arguments[0], state, *arguments[1:])
        found, compiled_state = jax.jit(update)(arguments[0], compiled_state, *arguments[1:])
        for a, b in zip(jax.tree.leaves(expected), jax.tree.leaves(found), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6, atol=0)


@battery
def test_vmap_over_learning_rates_equals_a_loop(name):
    traces, errors = make_steps(4, 10)
    run = jax.jit(partial(learn, name, traces=traces, errors=errors))
    rates = jnp.array([1e-4, 0.1, 1.0], jnp.float32)
    together = jax.jit(jax.vmap(run))(rates)
    for i, rate in enumerate(rates):
        for a, b in zip(jax.tree.leaves(together), jax.tree.leaves(run(rate)), strict=True):
            np.testing.assert_allclose(a[i], b, rtol=1e-5, atol=1e-7)
    finals = [np.asarray(together["weight"][i, -1]) for i in range(3)]
    assert not np.allclose(finals[0], finals[1])


@battery
def test_follows_the_direction_uphill(name):
    """A positive error moves the parameters along the trace, a negative one against it."""
    optimizer, trace = OPTIMIZERS[name][0](0.1), {"w": jnp.array([1.0, -2.0])}
    for sign in (1.0, -1.0):
        error = jnp.asarray(sign, jnp.float32)
        updates, _ = one_update(name, optimizer, trace, optimizer.init(trace), trace, error)
        np.testing.assert_array_equal(np.sign(updates["w"]), sign * np.array([1.0, -1.0]))
