"""Networks: equinox modules called on one observation; use `jax.vmap` for batches and ensembles."""

from eligrad.nets.cnn import CNN, AtariCNN, MinAtarCNN, Window
from eligrad.nets.init import Initializer, orthogonal, sparse_uniform
from eligrad.nets.layers import Affine, layer_norm, patches
from eligrad.nets.mlp import MLP, streaming_mlp, tanh_mlp

__all__ = [
    "CNN",
    "MLP",
    "Affine",
    "AtariCNN",
    "Initializer",
    "MinAtarCNN",
    "Window",
    "layer_norm",
    "orthogonal",
    "patches",
    "sparse_uniform",
    "streaming_mlp",
    "tanh_mlp",
]
