"""Counting the kernels of a compiled program, and those that wait for each other."""

from __future__ import annotations

from benchmarks.gpu_chain import chain

PROGRAM = """HloModule jit_f

%body (p: (f32[8], f32[8])) -> (f32[8], f32[8]) {
  %p = (f32[8]{0}, f32[8]{0}) parameter(0)
  %x = f32[8]{0} get-tuple-element(%p), index=0
  %y = f32[8]{0} get-tuple-element(%p), index=1
  %a = (f32[8]{0}, f32[4]{0}) fusion(%x), kind=kLoop, calls=%fused
  %a0 = f32[8]{0} get-tuple-element(%a), index=0
  %b = f32[8]{0} fusion(%y), kind=kLoop, calls=%fused.1
  %t = (f32[8]{0}, f32[8]{0}) tuple(%a0, %b)
  %kept = (f32[8]{0}, f32[8]{0}) opt-barrier(%t)
  %b1 = f32[8]{0} get-tuple-element(%kept), index=1
  %c = f32[8]{0} custom-call(%b1, %y), custom_call_target="x"
  %v = f32[8]{0} bitcast(%c)
  %d = f32[8]{0} copy(%v)
  ROOT %r = (f32[8]{0}, f32[8]{0}) tuple(%a0, %d)
}

ENTRY %main (p: (f32[8], f32[8])) -> (f32[8], f32[8]) {
  %p = (f32[8]{0}, f32[8]{0}) parameter(0)
  ROOT %w = (f32[8]{0}, f32[8]{0}) while(%p), condition=%cond, body=%body
}
"""


def test_a_chain_goes_through_views_and_past_what_only_shares_a_tuple():
    assert chain(PROGRAM) == (4, 3)  # b, c, d; a waits for none of them
    assert chain(PROGRAM.replace("copy(%v)", "copy(%a0)")) == (4, 2)
