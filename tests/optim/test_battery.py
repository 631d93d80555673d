"""One battery for every optimiser by name; a new one gets its NumPy twin as a line in TWINS."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from eligrad import optim

TRACE_DECAY = 0.79


class Step(NamedTuple):
    """What an optimiser is told of a step; of a gradient rule, so that the direction is not δ z."""

    direction: dict
    trace: dict
    grad_output: dict
    td_error: np.ndarray


# NumPy twins: from a step, what is remembered and the number of the update to what is added.


def numpy_sgd(step, memory, t, *, rate):
    del memory, t
    return {name: rate * g for name, g in step.direction.items()}


def numpy_adam(step, memory, t, *, rate, b1=0.9, b2=0.999, eps=1e-8):
    added = {}
    for name, g in step.direction.items():
        m, v = memory.get(name, (0.0, 0.0))
        memory[name] = m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g**2
        added[name] = rate * (m / (1 - b1**t)) / (np.sqrt(v / (1 - b2**t)) + eps)
    return added


def numpy_rmsprop(step, memory, t, *, rate, decay=0.9, eps=1e-8):
    del t
    added = {}
    for name, g in step.direction.items():
        memory[name] = decay * memory.get(name, 0.0) + (1 - decay) * g**2
        added[name] = rate * g / np.sqrt(memory[name] + eps)
    return added


def numpy_bounded(direction, trace, error, rate, kappa):
    norm = sum(np.abs(z).sum() for z in trace.values())
    bound = rate * kappa * max(abs(error), 1.0) * norm
    step_size = rate if bound <= 1 else rate / bound
    return {name: step_size * g for name, g in direction.items()}


def numpy_obgd(step, memory, t, *, rate, kappa):
    del memory, t
    return numpy_bounded(step.direction, step.trace, step.td_error, rate, kappa)


def numpy_adaptive_obgd(step, memory, t, *, rate, kappa, b2=0.999, eps=1e-8):
    scale = {}
    for name, g in step.direction.items():
        memory[name] = b2 * memory.get(name, 0.0) + (1 - b2) * g**2
        scale[name] = np.sqrt(memory[name] / (1 - b2**t) + eps)
    direction, trace = (
        {name: x / scale[name] for name, x in tree.items()} for tree in (step.direction, step.trace)
    )
    return numpy_bounded(direction, trace, step.td_error, rate, kappa)


def numpy_trace_adam(step, memory, t, *, rate, d=TRACE_DECAY, eps=1e-8):
    """Adam's second moment with β₂ = d, its bias corrected, of gradients and of corrections."""
    clipped, added = float(np.clip(step.td_error, -1, 1)), {}
    for name, g in step.direction.items():
        correction = (g - step.td_error * step.trace[name]) / max(abs(step.td_error), 1.0)
        square = step.grad_output[name] ** 2 + correction**2
        memory[name] = d * memory.get(name, 0.0) + (1 - d) * square
        root = np.sqrt(memory[name] / (1 - d**t)) + eps
        added[name] = rate * (clipped * step.trace[name] + correction) / root
    return added


# name -> (name in the registry, kappa, NumPy twin).
TWINS = {
    "sgd": ("sgd", 2.0, numpy_sgd),
    "adam": ("adam", 2.0, numpy_adam),
    "rmsprop": ("rmsprop", 2.0, numpy_rmsprop),
    "obgd": ("obgd", 2.0, partial(numpy_obgd, kappa=2.0)),
    # A tiny kappa too, so that also the unbounded branch is walked through.
    "obgd_loose": ("obgd", 1e-3, partial(numpy_obgd, kappa=1e-3)),
    "adaptive_obgd": ("adaptive-obgd", 2.0, partial(numpy_adaptive_obgd, kappa=2.0)),
    "adaptive_obgd_loose": ("adaptive-obgd", 1e-3, partial(numpy_adaptive_obgd, kappa=1e-3)),
    "trace_adam": ("trace-adam", 2.0, numpy_trace_adam),
}

battery = pytest.mark.parametrize("name", TWINS)
SHAPES = {"weight": (5, 3), "bias": (3,), "gain": ()}


def make(name, rate):
    optimizer, kappa, _ = TWINS[name]
    return optim.ascend(optim.make(optimizer, optim.Settings(rate, kappa, TRACE_DECAY)))


def make_steps(seed, steps, dtype=np.float32):
    rng = np.random.default_rng(seed)

    def tree():
        return {name: rng.normal(size=(steps, *s)).astype(dtype) for name, s in SHAPES.items()}

    return Step(tree(), tree(), tree(), (3 * rng.normal(size=steps)).astype(dtype))


def take(steps, t):
    return jax.tree.map(lambda x: jnp.asarray(x[t]), steps)


def one_update(optimizer, step, state, params):
    direction, trace, grad_output, error = step
    return optimizer.update(
        direction, state, params, td_error=error, trace=trace, grad_output=grad_output
    )


def learn(name, rate, steps):
    """All parameters along the way, from 0, in one scan."""
    optimizer = make(name, rate)
    params = jax.tree.map(lambda z: jnp.zeros(z.shape[1:], z.dtype), steps.direction)

    def follow(carry, step):
        params, state = carry
        updates, state = one_update(optimizer, step, state, params)
        params = optax.apply_updates(params, updates)
        return (params, state), params

    return jax.lax.scan(follow, (params, optimizer.init(params)), steps)[1]


def test_every_optimiser_has_a_twin():
    assert {name for name, *_ in TWINS.values()} == set(optim.names())


@battery
def test_matches_numpy_over_50_steps(name):
    rate, steps = 0.3, make_steps(0, 50)
    learned = learn(name, rate, jax.tree.map(jnp.asarray, steps))
    params, memory = {leaf: np.zeros(shape) for leaf, shape in SHAPES.items()}, {}
    for t in range(50):
        step = jax.tree.map(lambda x, t=t: x[t].astype(np.float64), steps)
        added = TWINS[name][2](step, memory, t + 1, rate=rate)
        params = {leaf: params[leaf] + added[leaf] for leaf in params}
        for leaf in params:
            np.testing.assert_allclose(learned[leaf][t], params[leaf], rtol=2e-5, atol=2e-5)


@battery
def test_structure_of_updates_and_state_is_kept(name):
    step, optimizer = take(make_steps(1, 2), 0), make(name, 0.1)
    params = step.direction
    state = optimizer.init(params)
    updates, new_state = jax.eval_shape(partial(one_update, optimizer), step, state, params)
    assert jax.tree.structure(updates) == jax.tree.structure(params)
    assert jax.tree.structure(new_state) == jax.tree.structure(state)
    shapes = [jax.tree.map(lambda x: (x.shape, x.dtype), s) for s in (state, new_state)]
    assert shapes[0] == shapes[1]


@battery
@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float32, jnp.float64])
def test_dtype_is_kept(name, dtype, x64):
    step = jax.tree.map(lambda x: x.astype(dtype), take(make_steps(2, 2, np.float64), 0))
    step = step._replace(td_error=jnp.asarray(-1.5, jnp.float32))
    params, optimizer = step.direction, make(name, 0.1)
    updates, state = jax.eval_shape(
        partial(one_update, optimizer), step, optimizer.init(params), params
    )
    assert {leaf.dtype for leaf in jax.tree.leaves(updates)} == {jnp.dtype(dtype)}
    floats = [x for x in jax.tree.leaves(state) if jnp.issubdtype(x.dtype, jnp.floating)]
    assert {leaf.dtype for leaf in floats} <= {jnp.dtype(dtype)}


@battery
def test_jit_equals_no_jit(name):
    steps, optimizer = make_steps(3, 3), make(name, 0.1)
    params = take(steps, 0).direction
    state = compiled_state = optimizer.init(params)
    update = partial(one_update, optimizer)
    for t in range(3):
        step = take(steps, t)
        expected, state = update(step, state, params)
        found, compiled_state = jax.jit(update)(step, compiled_state, params)
        for a, b in zip(jax.tree.leaves(expected), jax.tree.leaves(found), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6, atol=0)


@battery
def test_vmap_over_learning_rates_equals_a_loop(name):
    run = jax.jit(partial(learn, name, steps=make_steps(4, 10)))
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
    optimizer, trace = make(name, 0.1), {"w": jnp.array([1.0, -2.0])}
    for sign in (1.0, -1.0):
        error = jnp.asarray(sign, jnp.float32)
        direction = jax.tree.map(lambda z, error=error: error * z, trace)
        step = Step(direction, trace, trace, error)
        updates, _ = one_update(optimizer, step, optimizer.init(trace), trace)
        np.testing.assert_array_equal(np.sign(updates["w"]), sign * np.array([1.0, -1.0]))


@battery
def test_an_optimiser_sees_the_trace_only_if_it_says_so(name):
    """A rule that keeps no trace of w then keeps one."""
    optimizer, step = make(name, 0.1), take(make_steps(5, 1), 0)
    update = partial(one_update, optimizer, step._replace(trace=None), optimizer.init(step.trace))
    if optim.uses_trace(TWINS[name][0]):
        with pytest.raises(ValueError, match="trace is None"):
            update(step.trace)
    else:
        update(step.trace)
