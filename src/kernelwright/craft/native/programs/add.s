# out = x + y with vectors: strips of as many elements as eight registers hold
  .text
  .globl kernel
kernel:
  ld a1, 0(a0)
  ld a2, 8(a0)
  ld a3, 16(a0)
  ld a4, 32(a0)
loop:
  vsetvli t0, a4, e32, m8, ta, ma
  vle32.v v0, (a1)
  vle32.v v8, (a2)
  vfadd.vv v0, v0, v8
  vse32.v v0, (a3)
  slli t1, t0, 2
  add a1, a1, t1
  add a2, a2, t1
  add a3, a3, t1
  sub a4, a4, t0
  bnez a4, loop
  ret
