// Maps the tensors of a workload, calls the kernel, writes the output. Each tensor ends at a page without access.
//
// `places` holds the arguments, which are where each tensor is and its sizes, and where they are; `fault` the signal, the instruction and the address at which a kernel was stopped.
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

void kernel(const int64_t *arguments);

static int64_t head[64], roles[32], words[32], arguments[64];

static int whole(int file, void *to, size_t bytes) {
  char *at = to;
  while (bytes) {
    ssize_t got = read(file, at, bytes);
    if (got <= 0) return 0;
    at += got;
    bytes -= got;
  }
  return 1;
}

static void keep(const char *name, const void *data, size_t bytes) {
  int to = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (write(to, data, bytes) < 0) _exit(96);
  close(to);
}

static void stopped(int signal, siginfo_t *info, void *context) {
  // The kernel may have used gp, by which this code finds its data.
  __asm__ volatile(".option push\n.option norelax\nla gp, __global_pointer$\n.option pop");
  int64_t told[] = {signal, ((ucontext_t *)context)->uc_mcontext.__gregs[0], (int64_t)info->si_addr};
  keep("fault", told, sizeof(told));
  _exit(128 + signal);
}

static void watch(void) {
  static char room[1 << 16];
  stack_t stack = {.ss_sp = room, .ss_size = sizeof(room)};
  struct sigaction how = {.sa_sigaction = stopped, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESETHAND};
  sigaltstack(&stack, NULL);
  const int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP};
  for (int i = 0; i < 5; i++) sigaction(signals[i], &how, NULL);
}

int main(int count, char **given) {
  int file = open("input.bin", O_RDONLY);
  if (count != 2 || !whole(file, head, 16)) return 90;
  int64_t regions = head[0], sizes = head[1];
  if (!whole(file, roles, 8 * regions) || !whole(file, words, 8 * regions)) return 91;
  for (int64_t i = 0; i < regions; i++) {
    size_t bytes = words[i] * 4, room = (bytes + 4095) / 4096 * 4096;
    char *at = mmap(0, room + 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) return 92;
    char *start = at + 4096 + room - bytes;
    if (roles[i] == 0 && !whole(file, start, bytes)) return 93;
    if (roles[i]) memset(start, 0xa5, bytes);
    mprotect(at, 4096, PROT_NONE);
    mprotect(at + 4096 + room, 4096, PROT_NONE);
    if (roles[i] == 0) mprotect(at + 4096, room, PROT_READ);
    arguments[i] = (int64_t)start;
  }
  if (!whole(file, arguments + regions, 8 * sizes)) return 94;
  arguments[regions + sizes] = (int64_t)arguments;
  keep("places", arguments, 8 * (regions + sizes + 1));
  watch();
  if (given[1][0] == 'c') kernel(arguments);
  int to = open("output.bin", O_WRONLY | O_CREAT | O_TRUNC, 0600);
  for (int64_t i = 0; i < regions; i++)
    if (roles[i] == 1 && write(to, (void *)arguments[i], words[i] * 4) != words[i] * 4) return 95;
  return 0;
}
