/* A scan: a request to a worker, and the batches of its answer. */
#include <stdlib.h>
#include <string.h>
#include <stdio.h>

#include "internal.h"

enum { GRACE_MILLISECONDS = 200 }; /* for a worker to end a scan that nobody wants any more */

typedef struct {
  ld_worker *worker;
  atomic_bool cancelled;
  bool at_end; /* the worker waits for the next request */
} exchange;

static int32_t remote_error(const char *payload) {
  int32_t status;
  memcpy(&status, payload, sizeof status);
  const char *type = payload + sizeof status;
  return ld_fail(status, type, "%s", type + strlen(type) + 1);
}

/* Receive a frame; the caller frees its payload. An error of the worker becomes one here. */
static int32_t next_frame(exchange *scan, ld_head *head, char **payload) {
  ld_watch watch = {.cancelled = &scan->cancelled};
  *payload = NULL;
  int32_t status = ld_receive_head(scan->worker->fd, head, &watch);
  if (status) return status;
  if (head->length) {
    *payload = ld_allocate_payload(head->length);
    if (!*payload) return ld_no_memory();
    status = ld_receive_payload(scan->worker->fd, *payload, head->length, &watch);
  }
  if (!status && head->kind == LD_ERROR) status = remote_error(*payload);
  scan->at_end = !*payload ? head->kind == LD_END : head->kind == LD_ERROR;
  if (status) {
    free(*payload);
    *payload = NULL;
  }
  return status;
}

/* Let the worker end its scan and wait for the next one; a worker that does not is ended. */
static void finish(exchange *scan) {
  ld_worker *worker = scan->worker;
  if (!scan->at_end) {
    /* TODO drain */
    ld_end_worker(worker);
    return;
  }
  ld_keep_worker(worker);
}

static int32_t begin(exchange *scan, int32_t kind, const char *fields[], size_t count) {
  size_t length = 0;
  for (size_t i = 0; i < count; i++) length += strlen(fields[i]) + 1;
  char *payload = malloc(length), *at = payload;
  if (!payload) return ld_no_memory();
  for (size_t i = 0; i < count; i++) at = stpcpy(at, fields[i]) + 1;
  int32_t status = ld_take_worker(&scan->worker);
  if (!status) {
    ld_head head = {kind, ++scan->worker->number, (int64_t)length - 1};
    status = ld_send(scan->worker->fd, head, payload);
    if (status) ld_end_worker(scan->worker);
  }
  free(payload);
  return status;
}

/* Pass the files of a batch to the callback: a column of strings, and one of sizes. */
static int32_t deliver(const struct ArrowArray *batch, delta_file_callback callback, char **path,
                       size_t *room) {
  const struct ArrowArray *paths = batch->children[0], *sizes = batch->children[1];
  const int32_t *offsets = paths->buffers[1];
  const char *bytes = paths->buffers[2];
  const int64_t *size = sizes->buffers[1];
  for (int64_t i = 0; i < batch->length; i++) {
    size_t length = (size_t)(offsets[i + 1] - offsets[i]);
    if (length >= *room) {
      char *more = realloc(*path, 2 * length + 256);
      if (!more) return ld_no_memory();
      *path = more;
      *room = 2 * length + 256;
    }
    memcpy(*path, bytes + offsets[i], length);
    (*path)[length] = '\0';
    if (!callback(*path, size[i])) return DELTA_STOPPED;
  }
  return DELTA_OK;
}

int32_t delta_scan_lazy(const char *table_path, const char *predicate_json, size_t limit,
                        delta_file_callback callback) {
  if (!table_path || !callback)
    return ld_fail(DELTA_INVALID_ARGUMENT, "ConfigError", "table_path and callback are required");
  char number[32], *path = NULL;
  size_t room = 0;
  snprintf(number, sizeof number, "%zu", limit);
  const char *fields[] = {table_path, predicate_json ? predicate_json : "", number};
  exchange scan = {0};
  int32_t status = begin(&scan, LD_LAZY, fields, 3);
  if (status) return status;
  while (!status && !scan.at_end) {
    ld_head head;
    char *payload;
    struct ArrowArray batch;
    status = next_frame(&scan, &head, &payload);
    if (status || head.kind != LD_BATCH) {
      free(payload);
      continue;
    }
    status = ld_build_array(payload, &batch);
    if (status) break;
    status = deliver(&batch, callback, &path, &room);
    batch.release(&batch);
  }
  free(path);
  finish(&scan);
  if (!status) ld_ok();
  return status;
}
