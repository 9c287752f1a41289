/* A scan: one request to a worker, and the frames of its answer. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

enum { GRACE_MILLISECONDS = 500 }; /* for a worker to end a scan that is not wanted any more */

int32_t ld_frame_error(void) {
  return ld_fail(DELTA_INTERNAL, "FrameError", "the worker process sent an unexpected frame");
}

static int32_t remote_error(const char *payload) {
  int32_t status;
  memcpy(&status, payload, sizeof status);
  const char *type = payload + sizeof status;
  return ld_fail(status, type, "%s", type + strlen(type) + 1);
}

/* Receive a frame; the caller frees its payload. `idle` becomes true when the worker has sent its
 * last frame, and waits for the next request. */
static int32_t receive(ld_worker *worker, const ld_watch *watch, ld_head *head, char **payload) {
  *payload = NULL;
  int32_t status = ld_receive_head(worker->fd, head, watch);
  if (status) return status;
  if (head->length) {
    *payload = ld_allocate_payload(head->length);
    if (!*payload) return ld_no_memory();
    status = ld_receive_payload(worker->fd, *payload, head->length, watch);
  }
  if (status) {
    free(*payload);
    *payload = NULL;
  }
  return status;
}

static bool is_last(const ld_head *head) { return head->kind == LD_END || head->kind == LD_ERROR; }

/* Skip what a cancelled worker still sends. Return whether it waits for the next request. */
static bool drain(ld_worker *worker) {
  ld_watch watch = {.deadline = ld_now() + GRACE_MILLISECONDS};
  ld_head head = {0};
  char *payload;
  if (ld_send(worker->fd, (ld_head){LD_CANCEL, worker->number, 0}, NULL)) return false;
  while (!is_last(&head)) {
    if (receive(worker, &watch, &head, &payload)) return false;
    free(payload);
  }
  return true;
}

void ld_finish(ld_scan *scan) {
  pthread_mutex_lock(&scan->lock);
  ld_worker *worker = scan->worker;
  scan->worker = NULL;
  pthread_mutex_unlock(&scan->lock);
  if (!worker) return;
  if (scan->is_idle || (!scan->is_broken && drain(worker)))
    ld_keep_worker(worker);
  else
    ld_end_worker(worker);
}

int32_t ld_next(ld_scan *scan, ld_head *head, char **payload) {
  ld_watch watch = {.cancelled = &scan->cancelled};
  *payload = NULL;
  if (atomic_load(&scan->cancelled)) return ld_cancelled();
  int32_t status = receive(scan->worker, &watch, head, payload);
  if (status) {
    scan->is_broken = status != DELTA_CANCELLED || head->kind != 0; /* within a frame */
    return status;
  }
  scan->is_idle = is_last(head);
  /* The worker ends a cancelled scan as it ends a complete one. */
  if (head->kind == LD_END && atomic_load(&scan->cancelled)) return ld_cancelled();
  if (head->kind != LD_ERROR) return DELTA_OK;
  status = remote_error(*payload);
  free(*payload);
  *payload = NULL;
  return status;
}

static int32_t send_request(ld_scan *scan, int32_t kind, const char *const fields[], size_t count) {
  size_t length = 0;
  for (size_t i = 0; i < count; i++) length += strlen(fields[i]) + 1;
  char *payload = malloc(length), *at = payload;
  if (!payload) return ld_no_memory();
  for (size_t i = 0; i < count; i++) {
    size_t size = strlen(fields[i]) + 1;
    memcpy(at, fields[i], size);
    at += size;
  }
  ld_head head = {kind, ++scan->worker->number, (int64_t)length - 1};
  int32_t status = ld_send(scan->worker->fd, head, payload);
  free(payload);
  return status;
}

int32_t ld_receive_schema(ld_scan *scan) {
  if (scan->schema) return DELTA_OK;
  ld_head head;
  char *payload;
  int32_t status = ld_next(scan, &head, &payload);
  if (status) return status;
  if (head.kind != LD_SCHEMA || head.length < (int64_t)sizeof(int64_t)) {
    free(payload);
    scan->is_broken = true;
    return ld_frame_error();
  }
  int64_t version;
  memcpy(&version, payload, sizeof version);
  atomic_store(&scan->version, version);
  scan->schema = payload;
  scan->schema_length = head.length;
  return DELTA_OK;
}

int32_t ld_begin(int32_t kind, const char *const fields[], size_t count, ld_scan **out) {
  ld_scan *scan = calloc(1, sizeof *scan);
  if (!scan) return ld_no_memory();
  pthread_mutex_init(&scan->lock, NULL);
  atomic_init(&scan->references, 1);
  atomic_init(&scan->cancelled, false);
  atomic_init(&scan->version, -1);
  int32_t status = ld_take_worker(fields[0], &scan->worker);
  if (!status) {
    status = send_request(scan, kind, fields, count);
    scan->is_broken = status != DELTA_OK;
  }
  if (status) {
    ld_release(scan);
    return status;
  }
  *out = scan;
  return DELTA_OK;
}

void ld_release(ld_scan *scan) {
  if (atomic_fetch_sub(&scan->references, 1) != 1) return;
  ld_finish(scan);
  pthread_mutex_destroy(&scan->lock);
  free(scan->schema);
  free(scan);
}

/* Another thread may be about to give the worker back: the lock decides who is first. */
void delta_cancel(delta_scan *scan) {
  if (!scan) return;
  atomic_store(&scan->cancelled, true);
  pthread_mutex_lock(&scan->lock);
  if (scan->worker)
    ld_send(scan->worker->fd, (ld_head){LD_CANCEL, scan->worker->number, 0}, NULL);
  pthread_mutex_unlock(&scan->lock);
}
