/* Counts the files of a table through delta_scan_lazy: prints seconds and files, a line a round. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "lazydelta.h"

static long files;
static long long bytes;

static bool count(const char *path, int64_t size) {
  files += path[0] != '\0';
  bytes += size;
  return true;
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

int main(int arguments, char **argument) {
  if (arguments != 3) return 2;
  for (int rounds = atoi(argument[2]); rounds > 0; rounds--) {
    files = 0;
    double start = now();
    if (delta_scan_lazy(argument[1], NULL, 0, count)) {
      fprintf(stderr, "%s\n", delta_last_error());
      return 1;
    }
    printf("%f %ld\n", now() - start, files);
  }
  return 0;
}
