/* Uses liblazydelta as a host would, and prints what happens; tests/capi calls it. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lazydelta.h"

static void print_status(int32_t status) {
  printf("status %d %s|", status, delta_last_error_type());
  for (const char *at = delta_last_error(); *at; at++) putchar(*at == '\n' ? ' ' : *at);
  putchar('\n');
}

/* The worker processes, zombies included. */
static void print_children(void) {
  char name[64], line[256] = "";
  snprintf(name, sizeof name, "/proc/self/task/%d/children", getpid());
  FILE *file = fopen(name, "r");
  if (file && !fgets(line, sizeof line, file)) line[0] = '\0';
  if (file) fclose(file);
  printf("children %s\n", line);
  fflush(stdout);
}

static void pause_until_told(void) {
  print_children();
  if (getchar() == EOF) exit(3);
}

/* --- the callback */

static long delivered, stop_after;

static bool print_file(const char *path, int64_t size) {
  printf("file %lld %s\n", (long long)size, path);
  return ++delivered != stop_after;
}

static int lazy(char **argument) {
  delivered = 0;
  stop_after = atol(argument[3]);
  int32_t status = delta_scan_lazy(argument[0], strcmp(argument[1], "NULL") ? argument[1] : NULL,
                                   strtoull(argument[2], NULL, 10), print_file);
  print_status(status);
  return 0;
}

/* --- streams */

static void print_batch(const struct ArrowArray *batch, const struct ArrowSchema *schema) {
  for (int64_t i = 0; i < schema->n_children; i++) {
    if (strcmp(schema->children[i]->name, "size")) continue;
    const int64_t *size = batch->children[i]->buffers[1];
    int64_t sum = 0;
    for (int64_t row = 0; row < batch->length; row++) sum += size[batch->children[i]->offset + row];
    printf("batch %lld %lld", (long long)batch->length, (long long)sum);
  }
}

static int32_t read_stream(struct ArrowArrayStream *stream, delta_scan *scan, long pause, long stop) {
  struct ArrowSchema schema;
  struct ArrowArray batch;
  if (stream->get_schema(stream, &schema)) return delta_scan_status(scan);
  int problem;
  for (long count = 0; !(problem = stream->get_next(stream, &batch)) && batch.release;) {
    print_batch(&batch, &schema);
    printf(" %s\n", delta_resume_token(scan));
    batch.release(&batch);
    if (++count == pause) pause_until_told();
    if (count == stop) break;
  }
  schema.release(&schema);
  printf("version %lld\n", (long long)delta_scan_version(scan));
  if (problem) printf("errno %d %s\n", problem, stream->get_last_error(stream));
  return delta_scan_status(scan);
}

static int stream(char **argument) {
  struct ArrowArrayStream batches;
  delta_table *table;
  delta_scan *scan;
  int32_t status = delta_open(argument[0], argument[1], &table);
  if (!status) {
    printf("opened %lld\n", (long long)delta_table_version(table));
    status = delta_plan(table, argument[2], &batches, &scan);
    delta_close(table);
  }
  if (status) {
    print_status(status);
    return 0;
  }
  status = read_stream(&batches, scan, atol(argument[3]), atol(argument[4]));
  print_status(status);
  batches.release(&batches);
  delta_scan_release(scan);
  return 0;
}

/* A child that was moved away, and used after everything else was released. */
static int outlive(char **argument) {
  struct ArrowArrayStream batches;
  struct ArrowSchema schema, size_field = {0};
  struct ArrowArray batch, sizes = {0};
  delta_table *table;
  if (delta_open(argument[0], NULL, &table) || delta_plan(table, NULL, &batches, NULL)) return 1;
  delta_close(table);
  if (batches.get_schema(&batches, &schema) || batches.get_next(&batches, &batch)) return 1;
  for (int64_t i = 0; i < schema.n_children; i++)
    if (!strcmp(schema.children[i]->name, "size")) {
      size_field = *schema.children[i];
      schema.children[i]->release = NULL;
      sizes = *batch.children[i];
      batch.children[i]->release = NULL;
    }
  batches.release(&batches);
  batch.release(&batch);
  schema.release(&schema);
  delta_shutdown();
  int64_t sum = 0;
  for (int64_t i = 0; i < sizes.length; i++) sum += ((const int64_t *)sizes.buffers[1])[i];
  printf("%s %s %lld\n", size_field.name, size_field.format, (long long)sum);
  size_field.release(&size_field);
  sizes.release(&sizes);
  return 0;
}

/* --- threads */

static _Thread_local long counted;

static bool count_file(const char *path, int64_t size) {
  counted += path[0] && size >= 0;
  return true;
}

static void *count_files(void *table) {
  for (int round = 0; round < 3; round++) {
    counted = 0;
    int32_t status = delta_scan_lazy(table, NULL, 0, count_file);
    printf("thread %ld %d\n", counted, status);
  }
  return NULL;
}

static int threads(char **argument) {
  pthread_t thread[4];
  for (int i = 0; i < 4; i++) pthread_create(&thread[i], NULL, count_files, argument[0]);
  for (int i = 0; i < 4; i++) pthread_join(thread[i], NULL);
  return 0;
}

static atomic_int batches_read;

static void *cancel_later(void *scan) {
  for (int i = 0; i < 3000 && atomic_load(&batches_read) < 100; i++) usleep(100);
  delta_cancel(scan);
  return NULL;
}

/* A reader that pauses between batches, or waits for each; another thread cancels it. */
static int cancel(char **argument) {
  struct ArrowArrayStream batches;
  struct ArrowArray batch = {0};
  delta_table *table;
  delta_scan *scan;
  pthread_t thread;
  if (delta_open(argument[0], NULL, &table) || delta_plan(table, NULL, &batches, &scan)) return 1;
  delta_close(table);
  pause_until_told();
  pthread_create(&thread, NULL, cancel_later, scan);
  int problem;
  while (!(problem = batches.get_next(&batches, &batch)) && batch.release) {
    batch.release(&batch);
    atomic_fetch_add(&batches_read, 1);
    usleep((useconds_t)atol(argument[1]));
  }
  printf("errno %d\n", problem);
  print_status(delta_scan_status(scan));
  pthread_join(thread, NULL);
  batches.release(&batches);
  delta_scan_release(scan);
  print_children();
  return 0;
}

/* --- processes */

static int forks(char **argument) {
  count_files(argument[0]);
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    count_files(argument[0]);
    delta_shutdown();
    exit(0);
  }
  int status;
  waitpid(child, &status, 0);
  printf("child %d\n", status);
  count_files(argument[0]);
  return 0;
}

static int run(int count, char **argument) {
  struct {
    const char *name;
    int (*run)(char **);
    int arguments;
  } commands[] = {{"lazy", lazy, 4},       {"stream", stream, 5}, {"outlive", outlive, 1},
                  {"threads", threads, 1}, {"cancel", cancel, 2}, {"forks", forks, 1}};
  for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
    if (count == commands[i].arguments + 1 && !strcmp(argument[0], commands[i].name))
      return commands[i].run(argument + 1);
  return 2;
}

/* Run a command from each line of the standard input, so that they share workers. */
static int run_lines(void) {
  char line[16384], *words[8];
  int code = 0;
  while (!code && fgets(line, sizeof line, stdin)) {
    int count = 0;
    line[strcspn(line, "\n")] = '\0';
    for (char *rest = line; rest && count < 8;) words[count++] = strsep(&rest, "\t");
    code = run(count, words);
    printf("end of command\n");
    fflush(stdout);
  }
  return code;
}

int main(int count, char **argument) {
  int code = count > 1 ? run(count - 1, argument + 1) : run_lines();
  delta_shutdown();
  print_children();
  return code;
}
