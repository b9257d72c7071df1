// A plugin of qemu: counts the instructions that the guest executes, and writes the number to the file `count`.
//
// Given `low`, `high`, `first` and `steps`, it also writes to `lines` how often each instruction at these addresses ran,
// and to `steps` those from number `first` on, with the addresses of memory that they touch.
#include <inttypes.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define EXPORT __attribute__((visibility("default")))
typedef uint64_t qemu_plugin_id_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *, size_t);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *);
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t, void (*)(qemu_plugin_id_t, struct qemu_plugin_tb *));
void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb *, int, void *, uint64_t);
void qemu_plugin_register_vcpu_insn_exec_inline(struct qemu_plugin_insn *, int, void *, uint64_t);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *, void (*)(unsigned, void *), int, void *);
void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *, void (*)(unsigned, uint32_t, uint64_t, void *), int, int, void *);
void qemu_plugin_register_atexit_cb(qemu_plugin_id_t, void (*)(qemu_plugin_id_t, void *), void *);

EXPORT int qemu_plugin_version = 1;
static uint64_t executed, low, high, first, steps, step, *times;
static FILE *trace;

static int kept(void) { return trace && step > first && step <= first + steps; }

static void started(unsigned cpu, void *at) {
  if (trace && step++ >= first + steps) {
    fclose(trace);  // now, as a program without end is killed
    trace = NULL;
  }
  if (kept()) fprintf(trace, "\n%" PRIu64 " %" PRIx64, step - 1, (uint64_t)(uintptr_t)at);
}

static void touched(unsigned cpu, uint32_t how, uint64_t at, void *nothing) {
  if (kept()) fprintf(trace, " %" PRIx64, at);
}

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *block) {
  size_t count = qemu_plugin_tb_n_insns(block);
  qemu_plugin_register_vcpu_tb_exec_inline(block, 0, &executed, count);
  for (size_t n = 0; times && n < count; n++) {
    struct qemu_plugin_insn *one = qemu_plugin_tb_get_insn(block, n);
    uint64_t at = qemu_plugin_insn_vaddr(one);
    if (at < low || at >= high) continue;
    qemu_plugin_register_vcpu_insn_exec_inline(one, 0, &times[(at - low) / 2], 1);
    if (!steps) continue;
    qemu_plugin_register_vcpu_insn_exec_cb(one, started, 0, (void *)(uintptr_t)at);
    qemu_plugin_register_vcpu_mem_cb(one, touched, 0, 3, NULL);
  }
}

static void ended(qemu_plugin_id_t id, void *nothing) {
  FILE *to = fopen("count", "w");
  if (to) {
    fprintf(to, "%" PRIu64 "\n", executed);
    fclose(to);
  }
  if (times && (to = fopen("lines", "w"))) {
    for (uint64_t n = 0; n < (high - low) / 2; n++)
      if (times[n]) fprintf(to, "%" PRIx64 " %" PRIu64 "\n", low + 2 * n, times[n]);
    fclose(to);
  }
  if (trace) fclose(trace);
}

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const void *info, int count, char **given) {
  uint64_t *to[] = {&low, &high, &first, &steps};
  for (int n = 0; n < count && n < 4; n++) {
    char *value = given[n];
    while (*value && *value != '=') value++;
    *to[n] = strtoull(value + (*value == '='), NULL, 0);
  }
  if (high > low) times = calloc((high - low) / 2 + 1, sizeof(*times));
  if (times && steps) trace = fopen("steps", "w");
  qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
  qemu_plugin_register_atexit_cb(id, ended, NULL);
  return 0;
}
