"""The class of all rules: one row of the paper's table, in three forms.

A rule states its update of the value parameters `w` three times: as a loss (forward view, one
reverse pass for a whole batch), as an explicit update (forward view, the paper's recursion), and by
eligibility traces (backward view, one step at a time). The tests compare the three with each other.
The update of the auxiliary parameters `theta` is the same for all rules that have them.
"""

from __future__ import annotations

import dataclasses
import functools
import operator
from collections.abc import Callable
from typing import Any, NamedTuple, get_args

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float, PyTree

from eligrad._base import array_checks as check
from eligrad.rules.multistep import (
    Values,
    discounts,
    lambda_error_gradients,
    lambda_errors,
)
from eligrad.rules.regularizers import (
    Head,
    Regularize,
    Regularizer,
    check_head,
)
from eligrad.rules.td_errors import td_error


class Update(NamedTuple):
    """The directions to *add* to the parameters, times a step size."""

    w: Any
    theta: Any
    """None for a rule without an auxiliary function."""


class Traces(NamedTuple):
    """Eligibility traces; a rule keeps only those it needs, the others are None."""

    w: Any
    h: Float[Array, ""] | None
    theta: Any
    discount: Float[Array, ""]
    """Discount of the transition into the current state, by which the traces decay next.

    It is 0 at the beginning of an episode, so that a reset costs one number and not a pass over
    the traces.
    """


class Coefficients(NamedTuple):
    """How much of each there is in Δw; None for a rule without it."""

    z_w: Array | None = None
    grad_v: Array | None = None
    grad_delta: Array | None = None


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class Rule:
    """A gradient TD(λ) rule: `rules.TD`, `GTD2`, `TDC`, `TDRC`, or one of your own.

    To JAX a rule is a constant: functions of a rule need no `static_argnums` in `jax.jit`.
    """

    name: str
    title: str
    """The name in figures."""
    value_loss: Callable[[Array, Any, Array], Array]
    """Loss in w of a step from its V, H and D."""
    forward: Callable[[Array, Any, PyTree, PyTree], PyTree]
    """Δw of a step from its D, H, ∇V and ∇D."""
    backward: Callable[[Array, Any, Any], Coefficients]
    """From δ, H and z_h of a step to the coefficients of z_w, ∇V and ∇δ in Δw."""
    has_auxiliary: bool
    """Whether the rule learns h beside v."""
    traces_w: bool
    """Whether the backward view keeps a trace of ∇V."""
    default_beta: float = 0.0
    """β if none is given; 0 for a rule that does not regularise h."""

    def __post_init__(self) -> None:
        check.within("default_beta", self.default_beta, 0.0, jnp.inf)
        if self.default_beta and not self.has_auxiliary:
            raise ValueError(
                f"default_beta is {self.default_beta}; {self.name} has no auxiliary function h to "
                "regularise: 0 is accepted"
            )

    @property
    def regularized(self) -> bool:
        """Whether the rule regularises h, which is what `beta` and `regularize` are for."""
        return self.default_beta > 0

    def resolve_beta(self, beta: ArrayLike | None, regularize: Regularize) -> ArrayLike:
        """Returns β, or the default if it is None; raises ValueError if the rule has no β."""
        check.one_of("regularize", regularize, get_args(Regularize))
        beta = self.default_beta if beta is None else beta
        check.within("beta", beta, 0.0, jnp.inf)
        if not self.regularized:
            unused = f"; {self.name} does not regularise h (tdrc does)"
            if not check.known_zero(beta):
                raise ValueError(f"beta is {beta}{unused}: None or 0 is accepted")
            if regularize != "parameters":
                raise ValueError(f"regularize is {regularize!r}{unused}: leave it out")
        return beta

    def loss(
        self,
        v_tm1: ArrayLike,
        r_t: ArrayLike,
        discount_t: ArrayLike,
        v_t: ArrayLike,
        h_tm1: ArrayLike | None = None,
        *,
        lam: ArrayLike,
        theta: PyTree | None = None,
        beta: ArrayLike | None = None,
        regularize: Regularize = "parameters",
        head: Head | None = None,
        truncated_t: ArrayLike | None = None,
        rho_tm1: ArrayLike | None = None,
        values: Values = "state",
    ) -> Float[Array, " time"]:
        r"""Losses of the steps of one sequence, to be summed or averaged and minimised.

        Their negative gradients in `w` and in `theta` are the rule's forward updates. All arrays
        have shape (time,): `v_tm1` and `v_t` are $v(S_t)$ and $v(S_{t+1})$ as functions of `w`,
        `h_tm1` is $h(S_t)$ as a function of `theta`. Where $S_{t+1}$ is the next row's $S_t$, one
        pass over time + 1 states gives both.

        Args:
            v_tm1: values of the states acted in.
            r_t: rewards.
            discount_t: discount of each transition, 0 where it terminated; a scalar or (time,).
            v_t: values of the states that followed.
            h_tm1: auxiliary values of the states acted in.
            lam: the trace parameter λ, a scalar or (time,).
            theta: the auxiliary parameters; "parameters" and "head" need them unless `beta` is 0.
            beta: regularisation of h; the rule's own default where None.
            regularize: what β acts on: "parameters", "head" or "output".
            head: from `theta` to the parameters of h's last layer; for `regularize="head"`.
            truncated_t: where an episode was cut off; nothing flows across such a step.
            rho_tm1: importance ratio of each step's own action; 1 on-policy.
            values: whether the value function takes states or state-action pairs.
        """
        v_tm1, d_tm1 = _lambda_errors(
            v_tm1, r_t, discount_t, v_t, lam, truncated_t, rho_tm1, values
        )
        regularizer = self._regularizer(beta, regularize, theta, head, like=v_tm1)
        if not self.has_auxiliary:
            self._refuse_auxiliary(h_tm1=h_tm1, theta=theta)
            return self.value_loss(v_tm1, None, d_tm1)
        h_tm1 = self._require("h_tm1", h_tm1)
        check.sequence(v_tm1=v_tm1, h_tm1=h_tm1)
        target = jax.lax.stop_gradient(d_tm1)
        losses = self.value_loss(v_tm1, h_tm1, d_tm1) + 0.5 * (target - h_tm1) ** 2
        return regularizer.add_loss(losses, h_tm1)

    def updates(
        self,
        v_tm1: ArrayLike,
        r_t: ArrayLike,
        discount_t: ArrayLike,
        v_t: ArrayLike,
        h_tm1: ArrayLike | None = None,
        *,
        grad_v_tm1: PyTree,
        grad_v_t: PyTree,
        grad_h_tm1: PyTree | None = None,
        lam: ArrayLike,
        theta: PyTree | None = None,
        beta: ArrayLike | None = None,
        regularize: Regularize = "parameters",
        head: Head | None = None,
        truncated_t: ArrayLike | None = None,
        rho_tm1: ArrayLike | None = None,
        values: Values = "state",
    ) -> Update:
        """The forward updates of the steps of one sequence, by the paper's recursion.

        Needs memory for a gradient of every step: for reading and checking, not for training.

        Args:
            v_tm1: values of the states acted in.
            r_t: rewards.
            discount_t: discount of each transition, 0 where it terminated; a scalar or (time,).
            v_t: values of the states that followed.
            h_tm1: auxiliary values of the states acted in.
            grad_v_tm1: gradients of `v_tm1` in `w`, stacked over time.
            grad_v_t: gradients of `v_t` in `w`.
            grad_h_tm1: gradients of `h_tm1` in `theta`.
            lam: the trace parameter λ, a scalar or (time,).
            theta: the auxiliary parameters; "parameters" and "head" need them unless `beta` is 0.
            beta: regularisation of h; the rule's own default where None.
            regularize: what β acts on: "parameters", "head" or "output".
            head: from `theta` to the parameters of h's last layer; for `regularize="head"`.
            truncated_t: where an episode was cut off; nothing flows across such a step.
            rho_tm1: importance ratio of each step's own action; 1 on-policy.
            values: whether the value function takes states or state-action pairs.
        """
        v_tm1, d_tm1 = _lambda_errors(
            v_tm1, r_t, discount_t, v_t, lam, truncated_t, rho_tm1, values
        )
        grad_d_tm1 = lambda_error_gradients(
            grad_v_tm1,
            grad_v_t,
            discounts(discount_t, "v_tm1", v_tm1),
            lam,
            truncated_t=truncated_t,
            rho_tm1=rho_tm1,
            values=values,
        )
        regularizer = self._regularizer(beta, regularize, theta, head, like=v_tm1)
        if not self.has_auxiliary:
            self._refuse_auxiliary(h_tm1=h_tm1, grad_h_tm1=grad_h_tm1, theta=theta)
            return Update(jax.vmap(self.forward)(d_tm1, None, grad_v_tm1, grad_d_tm1), None)
        h_tm1 = self._require("h_tm1", h_tm1)
        check.sequence(v_tm1=v_tm1, h_tm1=h_tm1)
        self._need(grad_h_tm1=grad_h_tm1)

        def auxiliary(d: Array, h: Array, grad_h: PyTree) -> PyTree:
            pull = regularizer.pull(h)
            return regularizer.decay(jax.tree.map(lambda g: (d - pull) * g, grad_h))

        return Update(
            jax.vmap(self.forward)(d_tm1, h_tm1, grad_v_tm1, grad_d_tm1),
            jax.vmap(auxiliary)(d_tm1, h_tm1, grad_h_tm1),
        )

    def init(self, w: PyTree, theta: PyTree | None = None) -> Traces:
        """Empty traces for parameters like `w` and `theta`."""
        if self.has_auxiliary and theta is None:
            raise ValueError(f"theta is None; {self.name} learns h and needs its parameters")
        dtype = jnp.result_type(*jax.tree.leaves(w))
        return Traces(
            w=_zeros_like(w) if self.traces_w else None,
            h=jnp.zeros((), dtype) if self.has_auxiliary else None,
            theta=_zeros_like(theta) if self.has_auxiliary else None,
            discount=jnp.zeros((), dtype),
        )

    def update(
        self,
        traces: Traces,
        delta_t: ArrayLike,
        discount_t: ArrayLike,
        h_tm1: ArrayLike | None = None,
        *,
        grad_v_tm1: PyTree,
        grad_v_t: PyTree | None = None,
        grad_h_tm1: PyTree | None = None,
        lam: ArrayLike,
        theta: PyTree | None = None,
        beta: ArrayLike | None = None,
        regularize: Regularize = "parameters",
        head: Head | None = None,
        rho_tm1: ArrayLike = 1.0,
        reset: ArrayLike = False,
        values: Values = "state",
    ) -> tuple[Update, Traces]:
        """The backward view: the update of one step, and the traces after it.

        Args:
            traces: from `init` or from the step before.
            delta_t: one-step error of this transition.
            discount_t: its discount, 0 where it terminated.
            h_tm1: auxiliary value of the state the action was taken in.
            grad_v_tm1: gradient of that state's value in `w`.
            grad_v_t: gradient in `w` of the value bootstrapped from (not needed by TD).
            grad_h_tm1: gradient of `h_tm1` in `theta`.
            lam: the trace parameter λ.
            theta: the auxiliary parameters; "parameters" and "head" need them unless `beta` is 0.
            beta: regularisation of h; the rule's own default where None.
            regularize: what β acts on: all of theta ("parameters", the paper's rule), h's last
                layer ("head"), or h itself ("output").
            head: from `theta` to the parameters of h's last layer; for `regularize="head"`.
            rho_tm1: importance ratio of this step's action.
            reset: whether the traces end with this step. A terminated transition ends them by its
                discount of 0; a truncated one, or a trace cut, needs this flag.
            values: whether the value function takes states or state-action pairs.
        """
        delta_t, discount_t, lam, rho_tm1, reset = _check_step(
            delta_t, discount_t, lam, rho_tm1, reset, values
        )
        check.same_structure(
            "grad_v_tm1", grad_v_tm1, "traces.w", traces.w if self.traces_w else grad_v_tm1
        )
        decay = traces.discount * lam * rho_tm1
        weight = rho_tm1 if values == "state" else jnp.ones_like(rho_tm1)

        def accumulate(trace: PyTree, term: PyTree) -> PyTree:
            return jax.tree.map(lambda z, g: decay * z + weight * g, trace, term)

        regularizer = self._regularizer(beta, regularize, theta, head, like=delta_t)
        alive = jnp.where(reset, jnp.zeros_like(discount_t), discount_t)
        z_w = accumulate(traces.w, grad_v_tm1) if self.traces_w else None
        if not self.has_auxiliary:
            self._refuse_auxiliary(h_tm1=h_tm1, grad_h_tm1=grad_h_tm1, theta=theta)
            update_w = _combine(
                self.backward(delta_t, None, None), z_w, grad_v_tm1, None, discount_t
            )
            return Update(update_w, None), Traces(z_w, None, None, alive)

        h_tm1 = self._require("h_tm1", h_tm1)
        check.scalar("h_tm1", h_tm1)
        self._need(grad_v_t=grad_v_t, grad_h_tm1=grad_h_tm1)
        check.same_structure("grad_v_t", grad_v_t, "grad_v_tm1", grad_v_tm1)
        made = "traces.theta, made by the init of this rule,"
        check.same_structure("grad_h_tm1", grad_h_tm1, made, traces.theta)
        z_h = accumulate(traces.h, h_tm1)
        z_theta = accumulate(traces.theta, grad_h_tm1)
        update_w = _combine(
            self.backward(delta_t, h_tm1, z_h), z_w, grad_v_tm1, grad_v_t, discount_t
        )
        pull = regularizer.pull(h_tm1)
        update_theta = jax.tree.map(lambda z, g: delta_t * z - pull * g, z_theta, grad_h_tm1)
        return Update(update_w, regularizer.decay(update_theta)), Traces(z_w, z_h, z_theta, alive)

    def _regularizer(
        self,
        beta: ArrayLike | None,
        regularize: Regularize,
        theta: PyTree | None,
        head: Head | None,
        like: Array,
    ) -> Regularizer:
        beta = self.resolve_beta(beta, regularize)
        check_head(regularize, head)
        on_output = regularize == "output"
        if theta is None and not on_output and not check.known_zero(beta):
            raise ValueError(f"theta is None; {self.name} with beta = {beta} needs the parameters")
        beta = check.number("beta", beta, like=like)
        check.scalar("beta", beta)
        return Regularizer(beta, on_output, theta, head)

    def _require(self, name: str, value: ArrayLike | None) -> Array:
        self._need(**{name: value})
        return check.real(name, value)

    def _need(self, **given: Any) -> None:
        for name, value in given.items():
            if value is None:
                raise ValueError(f"{name} is None; {self.name} needs it")

    def _refuse_auxiliary(self, **given: Any) -> None:
        for name, value in given.items():
            if value is not None:
                raise ValueError(f"{name} was given; {self.name} has no auxiliary function h")


def _combine(
    of: Coefficients, z_w: PyTree, grad_v_tm1: PyTree, grad_v_t: PyTree, discount_t: Array
) -> PyTree:
    """Δw. It has ∇V of both states in place of ∇δ: fewer products of each number of a gradient.

    Args:
        of: the rule's coefficients.
        z_w: the trace of ∇V.
        grad_v_tm1: ∇V of the state acted in.
        grad_v_t: ∇V of the state that followed, for a rule with ∇δ.
        discount_t: of the transition.
    """
    of_v, of_next = of.grad_v, None
    if of.grad_delta is not None:
        of_v = -of.grad_delta if of_v is None else of_v - of.grad_delta
        of_next = of.grad_delta * discount_t
    parts = ((of.z_w, z_w), (of_v, grad_v_tm1), (of_next, grad_v_t))
    used = [(factor, tree) for factor, tree in parts if factor is not None]
    factors, trees = zip(*used, strict=True)

    def of_leaves(*leaves: Array) -> Array:
        # No sum that begins with 0: TD's update is δ z, to the last bit.
        return functools.reduce(operator.add, map(operator.mul, factors, leaves))

    return jax.tree.map(of_leaves, *trees)


def _lambda_errors(
    v_tm1: ArrayLike,
    r_t: ArrayLike,
    discount_t: ArrayLike,
    v_t: ArrayLike,
    lam: ArrayLike,
    truncated_t: ArrayLike | None,
    rho_tm1: ArrayLike | None,
    values: Values,
) -> tuple[Array, Array]:
    v_tm1 = check.real("v_tm1", v_tm1)
    delta_t = td_error(v_tm1, r_t, discount_t, v_t)
    d_tm1 = lambda_errors(
        delta_t, discount_t, lam, truncated_t=truncated_t, rho_tm1=rho_tm1, values=values
    )
    return v_tm1, d_tm1


def _check_step(
    delta_t: ArrayLike,
    discount_t: ArrayLike,
    lam: ArrayLike,
    rho_tm1: ArrayLike,
    reset: ArrayLike,
    values: Values,
) -> tuple[Array, ...]:
    check.one_of("values", values, ("state", "action"))
    delta_t = check.real("delta_t", delta_t)
    checked = {"delta_t": delta_t}
    for name, value, high in (
        ("discount_t", discount_t, 1.0), ("lam", lam, 1.0), ("rho_tm1", rho_tm1, jnp.inf),
    ):  # fmt: skip
        check.within(name, value, 0.0, high)
        checked[name] = check.number(name, value, like=delta_t)
    checked["reset"] = check.boolean("reset", reset)
    for name, value in checked.items():
        check.scalar(name, value)
    return tuple(checked.values())


def _zeros_like(tree: PyTree) -> PyTree:
    return jax.tree.map(jnp.zeros_like, tree)
