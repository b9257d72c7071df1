// Maps the tensors of a workload, calls the kernel, writes the output. Each tensor ends at a page without access.
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
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
  if (given[1][0] == 'c') kernel(arguments);
  int to = open("output.bin", O_WRONLY | O_CREAT | O_TRUNC, 0600);
  for (int64_t i = 0; i < regions; i++)
    if (roles[i] == 1 && write(to, (void *)arguments[i], words[i] * 4) != words[i] * 4) return 95;
  return 0;
}
