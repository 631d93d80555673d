import functools
import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from eligrad.nets import MLP, AtariCNN, MinAtarCNN, streaming_mlp, tanh_mlp

pytestmark = pytest.mark.usefixtures("quickest_compilation")
KEY = jax.random.key(7)

# name -> (key -> network, shape of its observation, number of parameters).
NETS = {
    "minatar": (
        lambda key: MinAtarCNN((10, 10, 4), 6, sparsity=0.9, key=key),
        (10, 10, 4),
        36 * 16 + 16 + 1024 * 128 + 128 + 128 * 6 + 6,
    ),
    "minatar_odd": (
        lambda key: MinAtarCNN((3, 5, 1), 2, sparsity=0.0, key=key),
        (3, 5, 1),
        9 * 16 + 16 + 48 * 128 + 128 + 128 * 2 + 2,
    ),
    "atari": (
        lambda key: AtariCNN((84, 84, 4), 6, sparsity=0.9, key=key),
        (84, 84, 4),
        8224 + 32832 + 36928 + 3136 * 512 + 512 + 512 * 6 + 6,
    ),
    "tanh": (
        lambda key: tanh_mlp(17, 6, output_gain=0.01, key=key),
        (17,),
        18 * 64 + 65 * 64 + 65 * 6,
    ),
    "streaming": (
        lambda key: streaming_mlp(8, 4, sparsity=0.9, key=key),
        (8,),
        9 * 128 + 129 * 128 + 129 * 4,
    ),
}


@functools.cache
def network(name):
    return jax.jit(NETS[name][0])(KEY)


@jax.jit
def call(net, observation):
    return net(observation)


@pytest.mark.parametrize("name", NETS)
def test_outputs_are_linear_in_the_features(name):
    """The head says how, and is part of the tree of parameters."""
    net, shape = network(name), NETS[name][1]
    observation = jax.random.normal(KEY, shape)
    features = net.features(observation)
    np.testing.assert_array_equal(net.head(features), net(observation))
    expected = np.asarray(features) @ np.asarray(net.head.weight) + np.asarray(net.head.bias)
    np.testing.assert_allclose(net(observation), expected, rtol=1e-4, atol=1e-5)
    assert any(leaf is net.head.weight for leaf in jax.tree.leaves(net))


def numpy_norm(x):
    return (x - x.mean()) / np.sqrt(x.var() + 1e-5)


def numpy_leaky_relu(x):
    return np.where(x > 0, x, 0.01 * x)


def numpy_cnn(net, x, strides):
    """An independent forward pass in float64: loops over pixels."""
    x = np.asarray(x, np.float64)
    for layer, stride in zip(net.convolutions, strides, strict=True):
        weight, bias = np.asarray(layer.weight, np.float64), np.asarray(layer.bias, np.float64)
        size = math.isqrt(len(weight) // x.shape[2])
        rows, columns = ((side - size) // stride + 1 for side in x.shape[:2])
        y = np.empty((rows, columns, len(bias)))
        for i in range(rows):
            for j in range(columns):
                top, left = i * stride, j * stride
                y[i, j] = x[top : top + size, left : left + size].ravel() @ weight + bias
        x = numpy_leaky_relu(numpy_norm(y))
    h = x.ravel() @ np.asarray(net.hidden.weight, np.float64) + np.asarray(net.hidden.bias)
    h = numpy_leaky_relu(numpy_norm(h))
    return h @ np.asarray(net.output.weight, np.float64) + np.asarray(net.output.bias)


@pytest.mark.parametrize("name", NETS)
def test_shapes_parameters_and_zero_biases(name):
    _, shape, size = NETS[name]
    net = network(name)
    leaves = jax.tree.leaves(net)
    assert all(isinstance(leaf, jax.Array) and leaf.dtype == jnp.float32 for leaf in leaves)
    assert sum(leaf.size for leaf in leaves) == size
    assert all(not leaf.any() for leaf in leaves if leaf.ndim == 1)
    values = jax.eval_shape(net, jnp.zeros(shape))
    assert values.dtype == jnp.float32
    assert values.shape == leaves[-1].shape


@pytest.mark.parametrize(
    ("name", "strides"), [("minatar", [1]), ("minatar_odd", [1]), ("atari", [4, 2, 1])]
)
def test_cnn_matches_numpy(name, strides):
    shape = NETS[name][1]
    net = network(name)
    # Zero biases would hide a mistake in how they are added.
    net = jax.tree.map(lambda x: x + jnp.linspace(0.0, 0.1, x.size) if x.ndim == 1 else x, net)
    observation = jax.random.uniform(jax.random.key(1), shape)
    expected = numpy_cnn(net, observation, strides)
    np.testing.assert_allclose(call(net, observation), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "activation"),
    [("tanh", np.tanh), ("streaming", lambda h: numpy_leaky_relu(numpy_norm(h)))],
)
def test_mlp_matches_numpy(name, activation):
    net = network(name)
    x = jax.random.normal(jax.random.key(1), NETS[name][1])
    h = np.asarray(x, np.float64)
    *hidden, output = net.layers
    for layer in hidden:
        h = activation(h @ np.asarray(layer.weight, np.float64))
    np.testing.assert_allclose(call(net, x), h @ np.asarray(output.weight), rtol=1e-4, atol=1e-6)


def test_tanh_mlp_gains():
    net = jax.jit(lambda key: tanh_mlp(64, 64, output_gain=0.01, key=key))(KEY)
    for layer, gain in zip(net.layers, (math.sqrt(2), math.sqrt(2), 0.01), strict=True):
        weight = np.asarray(layer.weight) / gain
        np.testing.assert_allclose(weight.T @ weight, np.eye(64), atol=1e-5)


@pytest.mark.parametrize("name", ["minatar", "streaming"])
def test_every_layer_is_sparse(name):
    net = network(name)
    for weight in (leaf for leaf in jax.tree.leaves(net) if leaf.ndim == 2):
        zeros = -(-9 * len(weight) // 10)
        np.testing.assert_array_equal((np.asarray(weight) == 0).sum(axis=0), zeros)


def test_layers_draw_from_different_keys():
    net = jax.jit(lambda key: streaming_mlp(8, 8, hidden=(8, 8), sparsity=0.0, key=key))(KEY)
    first, second, third = (np.asarray(layer.weight) for layer in net.layers)
    assert not np.array_equal(first, second)
    assert not np.array_equal(second, third)


@pytest.mark.parametrize("name", ["minatar", "tanh"])
def test_ensembles_have_the_numbers_of_single_agents(name):
    make, shape, _ = NETS[name]
    keys = jax.random.split(KEY, 3)
    observations = jax.random.uniform(jax.random.key(3), (3, *shape))
    together = jax.jit(jax.vmap(make))(keys)
    value_and_gradient = jax.value_and_grad(lambda net, x: jnp.max(net(x)))
    values, gradients = jax.jit(jax.vmap(value_and_gradient))(together, observations)
    single, make = jax.jit(value_and_gradient), jax.jit(make)
    for i in range(3):
        net = make(keys[i])
        member, gradient = (jax.tree.map(lambda x, i=i: x[i], t) for t in (together, gradients))
        for a, b in zip(jax.tree.leaves(member), jax.tree.leaves(net), strict=True):
            np.testing.assert_array_equal(a, b)
        value, expected = single(net, observations[i])
        np.testing.assert_allclose(values[i], value, rtol=1e-5, atol=1e-6)
        for a, b in zip(jax.tree.leaves(gradient), jax.tree.leaves(expected), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


def test_sparsity_can_be_vmapped():
    def make(sparsity):
        return streaming_mlp(8, 3, hidden=(16,), sparsity=sparsity, key=KEY)

    nets = jax.jit(jax.vmap(make))(jnp.array([0.0, 0.9]))
    for i, sparsity in enumerate((0.0, 0.9)):
        single = jax.jit(make, static_argnums=0)(sparsity)
        for a, b in zip(jax.tree.leaves(nets), jax.tree.leaves(single), strict=True):
            np.testing.assert_array_equal(a[i], b)


@pytest.mark.parametrize("dtype", [jnp.bool_, jnp.uint8, jnp.int32])
def test_other_dtypes_of_observations_are_converted(dtype):
    net = network("minatar")
    observation = jax.random.bernoulli(KEY, 0.3, (10, 10, 4))
    np.testing.assert_array_equal(
        call(net, observation.astype(dtype)), call(net, observation.astype(jnp.float32))
    )


def test_double_precision_networks_stay_double(x64):
    net = jax.tree.map(lambda x: x.astype(jnp.float64), network("minatar"))
    assert jax.eval_shape(net, jnp.ones((10, 10, 4), jnp.bool_)).dtype == jnp.float64


@pytest.mark.parametrize("name", NETS)
def test_batches_must_be_vmapped(name):
    make, shape, _ = NETS[name]
    net = jax.eval_shape(make, KEY)
    with pytest.raises(ValueError, match=r"given an observation of shape \(32.*jax.vmap") as error:
        jax.eval_shape(lambda net, x: net(x), net, jnp.zeros((32, *shape)))
    assert f"{shape} is accepted" in str(error.value)


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((10, 10), r"MinAtarCNN was given observation_shape=\(10, 10\), of rank 2; \(height,"),
        ((2, 10, 4), r"observation_shape=\(2, 10, 4\); height and width of at least 3"),
        ((10, 10, 0), "at least 1 channel"),
    ],
)
def test_minatar_observation_shape(shape, message):
    with pytest.raises(ValueError, match=message):
        MinAtarCNN(shape, 6, sparsity=0.9, key=KEY)


def test_atari_needs_36_pixels():
    make = partial(AtariCNN, outputs=2, sparsity=0.9, key=KEY)
    with pytest.raises(ValueError, match=r"AtariCNN .* at least 36 and"):
        make((35, 84, 4))
    assert jax.eval_shape(lambda: make((36, 36, 4)).hidden.weight).shape == (64, 512)


def test_sizes_must_be_positive():
    with pytest.raises(ValueError, match="MinAtarCNN was given outputs=0; at least 1"):
        MinAtarCNN((10, 10, 4), 0, sparsity=0.9, key=KEY)
    with pytest.raises(ValueError, match=r"MLP was given inputs=3, hidden=\(0,\), outputs=1"):
        streaming_mlp(3, 1, hidden=(0,), sparsity=0.9, key=KEY)
    with pytest.raises(ValueError, match=r"sparsity is 1\.5"):
        MinAtarCNN((10, 10, 4), 6, sparsity=1.5, key=KEY)


def test_an_mlp_of_ones_own():
    def ones(key, shape):
        del key
        return jnp.ones(shape)

    net = MLP(
        2, 1, hidden=(), activation=jnp.tanh, normalize=False, init=ones, output_init=ones, key=KEY
    )
    np.testing.assert_array_equal(net(jnp.array([2.0, 3.0])), [5.0])


def test_nothing_retraces():
    traced = []

    @jax.jit
    def value(net, x):
        traced.append(1)
        return net(x)

    make = jax.jit(NETS["streaming"][0])
    for seed in range(3):
        value(make(jax.random.key(seed)), jnp.ones(8))
    assert len(traced) == 1
