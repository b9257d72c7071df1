// Fibres: how one stack is left for another.
#pragma once
#include <stddef.h>
#include <stdint.h>
#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace kw {
#if defined(__x86_64__)
// Saves what a callee must keep on the old stack, goes on on the new one.
extern "C" void kw_switch(void** from, void* to);
asm(R"(
.text
.globl kw_switch
.hidden kw_switch
.type kw_switch,@function
kw_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
)");
static void* prepare(char* stack, size_t size, void (*start)()) {
  uintptr_t top = (reinterpret_cast<uintptr_t>(stack) + size) & ~uintptr_t(63);
  void** sp = reinterpret_cast<void**>(top);
  *--sp = nullptr;  // where `start` would return to: it never does
  *--sp = reinterpret_cast<void*>(start);
  for (int i = 0; i < 6; i++) *--sp = nullptr;
  return sp;
}
#else
extern "C" void kw_switch(void** from, void* to) {
  ucontext_t mine;
  *from = &mine;
  swapcontext(&mine, static_cast<ucontext_t*>(to));
}
static void* prepare(char* stack, size_t size, void (*start)()) {
  auto* c = reinterpret_cast<ucontext_t*>(stack + size - sizeof(ucontext_t) - 64);
  getcontext(c);
  c->uc_stack.ss_sp = stack;
  c->uc_stack.ss_size = size - sizeof(ucontext_t) - 64;
  c->uc_link = nullptr;
  makecontext(c, start, 0);
  return c;
}
#endif
}  // namespace kw
