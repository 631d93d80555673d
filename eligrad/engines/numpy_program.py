"""A small JAX function as calls of NumPy, for what is done between two steps of a simulator.

A call of a compiled program costs little by itself, but it drives simulator and interpreter out of
the processor's caches and back: beside MuJoCo the smallest one costs 30 µs, a whole policy of two
layers 60. The same policy is some fifteen calls of NumPy, 10 µs. Where a network has an operation
that is not known here, `translate` says so by `Untranslatable`, and the caller compiles it instead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
import scipy.special
from jax.extend import core
from jaxtyping import PyTree

Operation = Callable[..., Any]


class Untranslatable(ValueError):
    """The function has an operation that is not known here."""


def translate(function: Callable[..., Any], params: PyTree, *inputs: Any) -> HostProgram:
    """`function(params, *inputs)` in NumPy; the arguments are examples of shapes and dtypes."""
    closed, out = jax.make_jaxpr(function, return_shape=True)(params, *inputs)
    return HostProgram(closed, len(jax.tree.leaves(params)), jax.tree.structure(out))


class HostProgram:
    """A function in NumPy: `bind` it to parameters, then call it with inputs."""

    def __init__(self, closed: core.ClosedJaxpr, params: int, out: Any) -> None:
        self._out = out
        self._slots: list[Any] = []
        self._params = [self._new() for _ in range(params)]
        self._inputs = [self._new() for _ in closed.in_avals[params:]]
        self._steps: list[tuple[Operation, list[int], int]] = []
        self._results = self._read(closed.jaxpr, closed.consts, self._params + self._inputs)
        self._fixed, self._moving = self._divide()

    def bind(self, params: PyTree) -> Callable[..., Any]:
        """The function of the inputs alone; what depends on no input is computed now, once."""
        slots = list(self._slots)
        for place, leaf in zip(self._params, jax.tree.leaves(params), strict=True):
            slots[place] = np.asarray(leaf)
        with np.errstate(all="ignore"):
            _run(self._fixed, slots)
        inputs, moving, results = self._inputs, self._moving, self._results
        unflatten = self._out.unflatten

        def call(*arguments: np.ndarray) -> Any:
            for place, argument in zip(inputs, arguments, strict=True):
                slots[place] = argument
            _run(moving, slots)
            return unflatten([slots[place] for place in results])

        return call

    def _new(self, value: Any = None) -> int:
        self._slots.append(value)
        return len(self._slots) - 1

    def _read(self, jaxpr: core.Jaxpr, consts: Sequence[Any], arguments: list[int]) -> list[int]:
        """Adds the steps of a program whose arguments are in those places; returns its results'."""
        place = dict(zip(jaxpr.invars, arguments, strict=True))
        place |= {
            var: self._new(np.asarray(c)) for var, c in zip(jaxpr.constvars, consts, strict=True)
        }

        def find(atom: Any) -> int:
            if isinstance(atom, core.Literal):
                return self._new(np.asarray(atom.val, _dtype(atom))[()])
            return place[atom]

        for equation in jaxpr.eqns:
            name, given = equation.primitive.name, [find(atom) for atom in equation.invars]
            inner = equation.params.get("jaxpr") or equation.params.get("call_jaxpr")
            if name in _IDENTITIES:
                made = given
            elif name in _CALLS and isinstance(inner, core.ClosedJaxpr):
                made = self._read(inner.jaxpr, inner.consts, given)
            else:
                made = [self._new()]
                self._steps.append((_operation(equation), given, made[0]))
            place |= dict(zip(equation.outvars, made, strict=True))
        return [find(atom) for atom in jaxpr.outvars]

    def _divide(self) -> tuple[list[Any], list[Any]]:
        """The steps that need no input, and those that do."""
        moving_places = set(self._inputs)
        parts: tuple[list[Any], list[Any]] = ([], [])
        for step in self._steps:
            _, given, made = step
            moves = not moving_places.isdisjoint(given)
            if moves:
                moving_places.add(made)
            parts[moves].append(step)
        return parts


def _run(steps: Sequence[tuple[Operation, list[int], int]], slots: list[Any]) -> None:
    for operation, given, made in steps:
        if len(given) == 2:  # nearly all have two, and a list for them would cost as much as they
            one, other = given
            slots[made] = operation(slots[one], slots[other])
        else:
            slots[made] = operation(*[slots[place] for place in given])


def _dtype(atom: Any) -> np.dtype:
    return atom.aval.dtype


_CALLS = {"jit", "pjit", "closed_call", "custom_jvp_call", "custom_vjp_call", "checkpoint"}
_IDENTITIES = {"optimization_barrier", "copy", "copy_p", "stop_gradient"}

_ELEMENTWISE: dict[str, Operation] = {
    "add": np.add, "add_any": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide,
    "max": np.maximum, "min": np.minimum, "pow": np.power, "neg": np.negative, "abs": np.abs,
    "sign": np.sign, "exp": np.exp, "expm1": np.expm1, "log": np.log, "log1p": np.log1p,
    "tanh": np.tanh, "sin": np.sin, "cos": np.cos, "sqrt": np.sqrt, "square": np.square,
    "floor": np.floor, "logistic": scipy.special.expit, "erf": scipy.special.erf,
    "erfc": scipy.special.erfc, "is_finite": np.isfinite,
    "rsqrt": lambda x: 1 / np.sqrt(x), "clamp": lambda low, x, high: np.clip(x, low, high),
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
    "ge": np.greater_equal, "and": np.bitwise_and, "or": np.bitwise_or, "not": np.invert,
}  # fmt: skip
_REDUCTIONS: dict[str, Operation] = {
    "reduce_sum": np.sum, "reduce_max": np.max, "reduce_min": np.min, "reduce_and": np.all,
    "reduce_or": np.any,
}  # fmt: skip


def _operation(equation: core.JaxprEqn) -> Operation:
    """One operation of JAX in NumPy."""
    name, params = equation.primitive.name, equation.params
    shapes = [tuple(getattr(atom.aval, "shape", ())) for atom in equation.invars]
    out: Any = equation.outvars[0].aval
    # Integers are divided otherwise than in NumPy.
    if name in _ELEMENTWISE and not (name == "div" and out.dtype.kind in "iu"):
        return _ELEMENTWISE[name]
    if name in _REDUCTIONS:
        reduce, axes = _REDUCTIONS[name], params["axes"]
        return lambda x: reduce(x, axis=axes)
    if name in ("reshape", "squeeze", "expand_dims"):
        return lambda x: x.reshape(out.shape)
    if name == "broadcast_in_dim":
        return _broadcast(shapes[0], out.shape, params["broadcast_dimensions"])
    if name == "transpose":
        return lambda x: x.transpose(params["permutation"])
    if name == "convert_element_type":
        return lambda x: x.astype(out.dtype)
    if name == "integer_pow":
        return lambda x: x ** params["y"]
    if name == "concatenate":
        return lambda *parts: np.concatenate(parts, axis=params["dimension"])
    if name == "slice":
        steps = params["strides"] or (1,) * len(shapes[0])
        part = tuple(map(slice, params["start_indices"], params["limit_indices"], steps))
        return lambda x: x[part]
    if name == "select_n" and len(shapes) == 3:
        return lambda which, no, yes: np.where(which, yes, no)
    if name == "argmax":
        (axis,) = params["axes"]
        return lambda x: np.argmax(x, axis=axis).astype(out.dtype)
    if name == "dot_general":
        return _product(shapes, params["dimension_numbers"])
    raise Untranslatable(f"there is no translation of {name!r} to NumPy")


def _broadcast(shape: tuple[int, ...], out: tuple[int, ...], places: Sequence[Any]) -> Operation:
    spread = [1] * len(out)
    for size, place in zip(shape, places, strict=True):
        spread[place] = size
    if tuple(spread) == tuple(out):
        return lambda x: np.reshape(x, out)
    return lambda x: np.broadcast_to(np.reshape(x, spread), out)


def _product(shapes: list[tuple[int, ...]], numbers: Any) -> Operation:
    (left_sum, right_sum), (left_batch, right_batch) = numbers
    batch = tuple(range(len(left_batch)))
    plain = tuple(left_batch) == tuple(right_batch) == batch
    ranks = [len(shape) - len(batch) for shape in shapes]
    if plain and ranks == [2, 2] and (*left_sum, *right_sum) == (len(batch) + 1, len(batch)):
        return np.matmul
    letters = iter("abcdefghijklmnopqrstuvwxyz")
    names = [[next(letters) for _ in shape] for shape in shapes]
    for mine, other in zip([*left_batch, *left_sum], [*right_batch, *right_sum], strict=True):
        names[1][other] = names[0][mine]
    shared = [names[0][axis] for axis in left_batch]
    gone = [{*left_batch, *left_sum}, {*right_batch, *right_sum}]
    free = [names[i][axis] for i in (0, 1) for axis in range(len(shapes[i])) if axis not in gone[i]]
    formula = f"{''.join(names[0])},{''.join(names[1])}->{''.join(shared + free)}"
    return lambda left, right: np.einsum(formula, left, right)
