/* delta_scan_lazy: one callback per file. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

/* The path of one file at a time, with the terminator that Arrow strings do not have. */
typedef struct {
  char *text;
  size_t room;
} path_buffer;

static bool set_path(path_buffer *path, const char *bytes, size_t length) {
  if (length >= path->room) {
    char *more = realloc(path->text, 2 * length + 256);
    if (!more) return false;
    path->text = more;
    path->room = 2 * length + 256;
  }
  memcpy(path->text, bytes, length);
  path->text[length] = '\0';
  return true;
}

/* The worker sends two columns without nulls: strings, and integers of 64 bits. */
static int32_t deliver(const struct ArrowArray *batch, delta_file_callback callback,
                       path_buffer *path) {
  const struct ArrowArray *paths = batch->children[0], *sizes = batch->children[1];
  const int32_t *offsets = paths->buffers[1];
  const char *bytes = paths->buffers[2];
  const int64_t *size = sizes->buffers[1];
  for (int64_t i = 0; i < batch->length; i++) {
    if (!set_path(path, bytes + offsets[i], (size_t)(offsets[i + 1] - offsets[i])))
      return ld_no_memory();
    if (!callback(path->text, size[i])) return DELTA_STOPPED;
  }
  return DELTA_OK;
}

static int32_t deliver_next(ld_scan *scan, delta_file_callback callback, path_buffer *path) {
  ld_head head;
  char *payload;
  struct ArrowArray batch;
  int32_t status = ld_next(scan, &head, &payload);
  if (status || head.kind != LD_BATCH) {
    free(payload);
    return status;
  }
  status = ld_build_array(payload, &batch);
  if (status) return status;
  status = deliver(&batch, callback, path);
  batch.release(&batch);
  return status;
}

int32_t delta_scan_lazy(const char *table_path, const char *predicate_json, size_t limit,
                        delta_file_callback callback) {
  if (!table_path || !callback)
    return ld_fail(DELTA_INVALID_ARGUMENT, "ConfigError", "table_path and callback are required");
  char number[32];
  path_buffer path = {0};
  snprintf(number, sizeof number, "%zu", limit);
  const char *fields[] = {table_path, predicate_json ? predicate_json : "", number};
  ld_scan *scan;
  int32_t status = ld_begin(LD_LAZY, fields, 3, &scan);
  if (status) return status;
  status = ld_receive_schema(scan);
  while (!status && !scan->is_idle) status = deliver_next(scan, callback, &path);
  free(path.text);
  ld_release(scan);
  if (status >= 0) ld_ok(); /* after the release, which may find that the worker hangs */
  return status;
}
