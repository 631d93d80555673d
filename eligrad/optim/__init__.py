"""Optimisers for streaming learners, in optax's shape and with optax's sign.

Every optimiser here is optax's kind: `update` takes a gradient, to be descended, and returns the
step to be added to the parameters. A rule gives the opposite, a direction Δ to be followed.
`ascend` is the one place where the sign changes; the agents wrap every optimiser by it, one of
this package, of optax or of your own:

    optimizer = ascend(obgd(1.0, kappa=2.0))
    step, state = optimizer.update(
        direction, state, params, td_error=delta, trace=z, grad_output=grad_v
    )
    params = optax.apply_updates(params, step)

The extra arguments are what a learner with traces knows beside the direction: `td_error`, the error
δ; `trace`, the eligibility trace z of these parameters; `grad_output`, the gradient (of V in w, of
h in θ) that the trace took in at this step. An optimiser takes those that it needs. All numbers may
be traced: make the optimiser inside the function that is vmapped. `names` and `make` are the
optimisers by name.
"""

from typing import TYPE_CHECKING

from eligrad._base.lazy import lazy

if TYPE_CHECKING:
    from eligrad.optim.adam import TraceAdamState as TraceAdamState
    from eligrad.optim.adam import trace_adam as trace_adam
    from eligrad.optim.ascent import ascend as ascend
    from eligrad.optim.bounded import AdaptiveObGDState as AdaptiveObGDState
    from eligrad.optim.bounded import adaptive_obgd as adaptive_obgd
    from eligrad.optim.bounded import obgd as obgd
    from eligrad.optim.registry import Settings as Settings
    from eligrad.optim.registry import make as make
    from eligrad.optim.registry import names as names
    from eligrad.optim.registry import uses_trace as uses_trace

__getattr__, __dir__ = lazy(__name__)
