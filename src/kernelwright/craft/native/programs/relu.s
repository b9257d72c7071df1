# out = the larger of x and 0 with vectors
  .text
  .globl kernel
kernel:
  ld a1, 0(a0)
  ld a2, 8(a0)
  ld a3, 24(a0)
  fmv.w.x fa0, zero
loop:
  vsetvli t0, a3, e32, m8, ta, ma
  vle32.v v0, (a1)
  vfmax.vf v0, v0, fa0
  vse32.v v0, (a2)
  slli t1, t0, 2
  add a1, a1, t1
  add a2, a2, t1
  sub a3, a3, t0
  bnez a3, loop
  ret
