# out[0] = the sum of x[i] * y[i] with vectors: products are added up lane by lane, and at last the lanes
  .text
  .globl kernel
kernel:
  ld a1, 0(a0)
  ld a2, 8(a0)
  ld a3, 16(a0)
  ld a4, 32(a0)
  vsetvli t0, zero, e32, m8, ta, ma
  vmv.v.i v16, 0
  vmv.v.i v24, 0
loop:
  vsetvli t0, a4, e32, m8, tu, ma
  vle32.v v0, (a1)
  vle32.v v8, (a2)
  vfmacc.vv v16, v0, v8
  slli t1, t0, 2
  add a1, a1, t1
  add a2, a2, t1
  sub a4, a4, t0
  bnez a4, loop
  vsetvli t0, zero, e32, m8, ta, ma
  vfredusum.vs v24, v16, v24
  vfmv.f.s fa0, v24
  fsw fa0, 0(a3)
  ret
