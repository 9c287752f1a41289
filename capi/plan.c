/* Tables, and scans of them as an ArrowArrayStream. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

struct delta_table {
  char *path, *options;
  int64_t version;
};

static int32_t missing(const char *what) {
  return ld_fail(DELTA_INVALID_ARGUMENT, "ConfigError", "%s is required", what);
}

int32_t delta_open(const char *table_path, const char *options_json, delta_table **out) {
  if (!table_path || !out) return missing(table_path ? "table" : "table_path");
  *out = NULL;
  delta_table *table = calloc(1, sizeof *table);
  if (!table) return ld_no_memory();
  table->path = strdup(table_path);
  table->options = strdup(options_json ? options_json : "");
  int32_t status = table->path && table->options ? DELTA_OK : ld_no_memory();
  ld_scan *scan = NULL;
  if (!status) {
    const char *fields[] = {table->path, table->options};
    status = ld_begin(LD_OPEN, fields, 2, &scan);
  }
  if (!status) status = ld_receive_schema(scan);
  while (!status && !scan->is_idle) {
    ld_head head;
    char *payload;
    status = ld_next(scan, &head, &payload);
    free(payload);
  }
  if (scan) {
    table->version = atomic_load(&scan->version);
    ld_release(scan);
  }
  if (status) {
    delta_close(table);
    return status;
  }
  *out = table;
  return ld_ok();
}

int64_t delta_table_version(const delta_table *table) { return table->version; }

void delta_close(delta_table *table) {
  if (!table) return;
  free(table->path);
  free(table->options);
  free(table);
}

/* --- the stream */

/* ArrowArrayStream reports errors as numbers of errno. */
static int as_errno(int32_t status) {
  switch (status) {
    case DELTA_OK: return 0;
    case DELTA_CANCELLED: return ECANCELED;
    case DELTA_INVALID_ARGUMENT: return EINVAL;
    case DELTA_DEADLINE_EXCEEDED: return ETIMEDOUT;
    case DELTA_NOT_FOUND: return ENOENT;
    case DELTA_PERMISSION_DENIED: return EACCES;
    case DELTA_RESOURCE_EXHAUSTED: return ENOMEM;
    case DELTA_UNIMPLEMENTED: return ENOTSUP;
    default: return EIO;
  }
}

/* Keep the first failure: the stream repeats it. */
static int fail(ld_scan *scan, int32_t status) {
  scan->status = status;
  snprintf(scan->error, sizeof scan->error, "%s", delta_last_error());
  snprintf(scan->error_type, sizeof scan->error_type, "%s", delta_last_error_type());
  ld_finish(scan);
  return as_errno(status);
}

static int get_schema(struct ArrowArrayStream *stream, struct ArrowSchema *out) {
  ld_scan *scan = stream->private_data;
  memset(out, 0, sizeof *out);
  if (!scan->schema && scan->status) return as_errno(scan->status);
  int32_t status = ld_receive_schema(scan);
  const int64_t version = sizeof(int64_t);
  if (!status)
    status = ld_build_schema(scan->schema + version, scan->schema_length - version, out);
  return status ? fail(scan, status) : 0;
}

static int32_t next_batch(ld_scan *scan, struct ArrowArray *out) {
  ld_head head;
  char *payload;
  int32_t status = ld_receive_schema(scan);
  if (!status) status = ld_next(scan, &head, &payload);
  if (status) return status;
  if (head.kind == LD_END) {
    ld_finish(scan);
    return DELTA_OK;
  }
  if (head.kind != LD_BATCH) {
    free(payload);
    scan->is_broken = true;
    return ld_frame_error();
  }
  snprintf(scan->token, sizeof scan->token, "%s", ld_batch_token(payload));
  return ld_build_array(payload, out);
}

static int get_next(struct ArrowArrayStream *stream, struct ArrowArray *out) {
  ld_scan *scan = stream->private_data;
  memset(out, 0, sizeof *out);
  if (scan->status) return as_errno(scan->status);
  if (!scan->worker) return 0; /* the end was reached before */
  int32_t status = next_batch(scan, out);
  return status ? fail(scan, status) : 0;
}

static const char *get_last_error(struct ArrowArrayStream *stream) {
  ld_scan *scan = stream->private_data;
  return scan->status ? scan->error : NULL;
}

static void release_stream(struct ArrowArrayStream *stream) {
  ld_scan *scan = stream->private_data;
  stream->release = NULL;
  ld_finish(scan);
  ld_release(scan);
}

int32_t delta_plan(const delta_table *table, const char *request_json,
                   struct ArrowArrayStream *stream, delta_scan **out) {
  if (!table || !stream) return missing(table ? "stream" : "table");
  memset(stream, 0, sizeof *stream);
  if (out) *out = NULL;
  ld_scan *scan;
  const char *fields[] = {table->path, table->options, request_json ? request_json : ""};
  int32_t status = ld_begin(LD_PLAN, fields, 3, &scan);
  if (status) return status;
  if (out) {
    atomic_fetch_add(&scan->references, 1);
    *out = scan;
  }
  *stream = (struct ArrowArrayStream){get_schema, get_next, get_last_error, release_stream, scan};
  return ld_ok();
}

int64_t delta_scan_version(const delta_scan *scan) { return atomic_load(&scan->version); }

int32_t delta_scan_status(const delta_scan *scan) {
  return scan->status ? ld_fail(scan->status, scan->error_type, "%s", scan->error) : ld_ok();
}

const char *delta_resume_token(const delta_scan *scan) { return scan->token; }

void delta_scan_release(delta_scan *scan) {
  if (scan) ld_release(scan);
}
