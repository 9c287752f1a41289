/* What the parts of liblazydelta know of each other: errors, frames, workers, Arrow memory. */
#ifndef LAZYDELTA_INTERNAL_H
#define LAZYDELTA_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "lazydelta.h"

/* --- errors of this thread (error.c) */

int32_t ld_ok(void);
int32_t ld_fail(int32_t status, const char *type, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
int32_t ld_no_memory(void);
int32_t ld_cancelled(void);

/* --- frames (wire.c); src/lazydelta/ffi/worker.py has the same numbers */

enum {
  LD_PROTOCOL = 1,
  LD_HELLO = 1,
  LD_SCHEMA = 2,
  LD_BATCH = 3,
  LD_END = 4,
  LD_ERROR = 5,
  LD_OPEN = 11,
  LD_LAZY = 12,
  LD_PLAN = 13,
  LD_CANCEL = 14
};

typedef struct {
  int32_t kind;
  uint32_t number; /* of the request */
  int64_t length;  /* of the payload */
} ld_head;

/* Why a receiver stops waiting. */
typedef struct {
  atomic_bool *cancelled; /* NULL: it cannot be */
  int64_t deadline;       /* of ld_now(); 0: none */
} ld_watch;

int64_t ld_now(void); /* milliseconds */
int32_t ld_send(int fd, ld_head head, const void *payload);
int32_t ld_receive_head(int fd, ld_head *head, const ld_watch *watch);
int32_t ld_receive_payload(int fd, void *to, int64_t length, const ld_watch *watch);

/* --- workers (worker.c) */

typedef struct ld_worker {
  int fd;
  pid_t pid;
  uint32_t number;   /* of the latest request */
  uint64_t affinity; /* hash of the latest table: the worker has its snapshot */
  struct ld_worker *next;
} ld_worker;

int32_t ld_take_worker(const char *table, ld_worker **worker);
void ld_keep_worker(ld_worker *worker); /* idle: a later scan takes it */
void ld_end_worker(ld_worker *worker);  /* killed and reaped */

/* --- scans (scan.c) */

typedef struct delta_scan {
  atomic_int references;
  atomic_bool cancelled;
  pthread_mutex_t lock; /* guards `worker` between the scan's thread and delta_cancel */
  ld_worker *worker;    /* NULL: given back */
  bool is_idle;         /* the worker has sent its last frame */
  bool is_broken;       /* the next byte of the worker is not the head of a frame */
  char *schema;         /* the first frame: the version of the table, and the schema */
  int64_t schema_length;
  _Atomic int64_t version; /* -1: not known yet */
  int32_t status; /* of a stream that failed */
  char error[4096], error_type[64];
  char token[2048];
} ld_scan;

int32_t ld_frame_error(void);
int32_t ld_begin(int32_t kind, const char *const fields[], size_t count, ld_scan **scan);
int32_t ld_receive_schema(ld_scan *scan); /* unless it was received before */
int32_t ld_next(ld_scan *scan, ld_head *head, char **payload);
void ld_finish(ld_scan *scan); /* gives the worker back */
void ld_release(ld_scan *scan);

/* --- Arrow memory (arrow.c) */

void *ld_allocate_payload(int64_t length); /* aligned for Arrow; free() releases it */
int32_t ld_build_schema(const char *payload, int64_t length, struct ArrowSchema *out); /* copies */
int32_t ld_build_array(char *payload, struct ArrowArray *out); /* takes the payload, on failure too */
const char *ld_batch_token(const char *payload);

#endif /* LAZYDELTA_INTERNAL_H */
