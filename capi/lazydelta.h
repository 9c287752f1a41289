/* liblazydelta: the live files of a Delta table, while its log is still being read.
 *
 * Each scan runs in a worker process (Python), which the library starts, keeps warm and reuses.
 * A worker that crashes or is killed fails one scan with a status; the host is not affected.
 *
 * Status. Functions return DELTA_OK or a negative status; its number is that of gRPC. The message
 * and the name of the error's class are those of `delta_last_error` and `delta_last_error_type`,
 * on the same thread, until its next call.
 *
 * Threads. Every function may be called from any thread. Scans on different threads run side by
 * side, each in its own worker. One scan is used by one thread at a time; only `delta_cancel` may
 * be called beside it. A handle does not survive `fork()`: the child opens its own.
 *
 * Ownership. The library copies what it receives. What it returns through a pointer argument
 * belongs to the caller, who releases it with the function named below, or with the `release`
 * callback of the Arrow C data interface. Strings returned by functions belong to the library.
 *
 * The library installs no signal handlers. It needs Linux, and a Python with lazydelta: the path
 * in the variable LIBLAZYDELTA_PYTHON, or else the one it was built for.
 */
#ifndef LAZYDELTA_H
#define LAZYDELTA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DELTA_EXPORT __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

#ifndef ARROW_C_DATA_INTERFACE
#define ARROW_C_DATA_INTERFACE

#define ARROW_FLAG_DICTIONARY_ORDERED 1
#define ARROW_FLAG_NULLABLE 2
#define ARROW_FLAG_MAP_KEYS_SORTED 4

struct ArrowSchema {
  const char *format;
  const char *name;
  const char *metadata;
  int64_t flags;
  int64_t n_children;
  struct ArrowSchema **children;
  struct ArrowSchema *dictionary;
  void (*release)(struct ArrowSchema *);
  void *private_data;
};

struct ArrowArray {
  int64_t length;
  int64_t null_count;
  int64_t offset;
  int64_t n_buffers;
  int64_t n_children;
  const void **buffers;
  struct ArrowArray **children;
  struct ArrowArray *dictionary;
  void (*release)(struct ArrowArray *);
  void *private_data;
};

#endif /* ARROW_C_DATA_INTERFACE */

#ifndef ARROW_C_STREAM_INTERFACE
#define ARROW_C_STREAM_INTERFACE

struct ArrowArrayStream {
  int (*get_schema)(struct ArrowArrayStream *, struct ArrowSchema *out);
  int (*get_next)(struct ArrowArrayStream *, struct ArrowArray *out);
  const char *(*get_last_error)(struct ArrowArrayStream *);
  void (*release)(struct ArrowArrayStream *);
  void *private_data;
};

#endif /* ARROW_C_STREAM_INTERFACE */

/* Status codes. */
#define DELTA_OK 0                   /* everything was delivered, up to the limit */
#define DELTA_STOPPED 1              /* the callback returned false */
#define DELTA_CANCELLED (-1)         /* delta_cancel was called */
#define DELTA_UNKNOWN (-2)
#define DELTA_INVALID_ARGUMENT (-3)  /* predicate, option, token, column */
#define DELTA_DEADLINE_EXCEEDED (-4)
#define DELTA_NOT_FOUND (-5)         /* table or version */
#define DELTA_ALREADY_EXISTS (-6)
#define DELTA_PERMISSION_DENIED (-7) /* the store or allowed_roots refused access */
#define DELTA_RESOURCE_EXHAUSTED (-8) /* too many scans at once, or no memory */
#define DELTA_FAILED_PRECONDITION (-9)
#define DELTA_ABORTED (-10)
#define DELTA_OUT_OF_RANGE (-11)
#define DELTA_UNIMPLEMENTED (-12)    /* a table feature that lazydelta or the caller lacks */
#define DELTA_INTERNAL (-13)
#define DELTA_UNAVAILABLE (-14)      /* the store failed, or the worker ended: try again */
#define DELTA_DATA_LOSS (-15)        /* the log or a file is damaged */
#define DELTA_UNAUTHENTICATED (-16)

/* Receives one file: its absolute URI (valid during the call) and its size in bytes. Called on the
 * thread of delta_scan_lazy. Returns false to stop the scan. */
typedef bool (*delta_file_callback)(const char *path, int64_t size);

/* Pass each live file that may match the predicate to the callback, as files are discovered.
 *
 * table_path      A path or URL; credentials come from the environment.
 * predicate_json  {"column": value, ...}; [["column", "<", value], ...]; or a JSON string of SQL.
 *                 NULL or empty: no predicate.
 * limit           Maximum number of files; 0: no limit.
 *
 * Returns DELTA_OK after the last file, DELTA_STOPPED if the callback returned false, or a
 * negative status; then the files passed so far are not all. */
DELTA_EXPORT int32_t delta_scan_lazy(const char *table_path, const char *predicate_json, size_t limit,
                        delta_file_callback callback);

/* --- the Arrow-native set */

typedef struct delta_table delta_table;
typedef struct delta_scan delta_scan;

/* Open a table and load its newest version; `delta_close` releases it. Opening one early starts and
 * warms a worker.
 *
 * options_json  The options of its store, such as {"account_name": "..."}; NULL: from the
 *               environment. */
DELTA_EXPORT int32_t delta_open(const char *table_path, const char *options_json, delta_table **table);

/* The version that delta_open loaded. */
DELTA_EXPORT int64_t delta_table_version(const delta_table *table);

DELTA_EXPORT void delta_close(delta_table *table);

/* Start a scan; batches arrive as files are discovered. This returns as soon as a worker has the
 * request: whether the table can be read turns out in `get_schema` or `get_next`.
 *
 * request_json  {"where", "columns", "limit", "strategy", "version" or "timestamp", "mode",
 *               "start_version", "end_version", "resume", "capabilities", "deletion_vectors",
 *               "statistics"}: the fields of the HTTP server (docs/how-to/c.md). `where` is a
 *               string of SQL, or a predicate as in delta_scan_lazy. NULL or empty: all files.
 * stream        Receives the stream. `get_next` blocks; it fails with a number of errno,
 *               `get_last_error` has the message, and `delta_scan_status` the status. A stream
 *               that ends without an error is complete.
 *               Batches may outlive the stream, and may be released on any thread. Buffers are
 *               aligned to 8 bytes.
 * scan          Receives a handle beside the stream, for `delta_resume_token` and `delta_cancel`;
 *               `delta_scan_release` releases it, before or after the stream. May be NULL.
 *
 * Releasing the stream stops the scan, if it still runs. */
DELTA_EXPORT int32_t delta_plan(const delta_table *table, const char *request_json,
                   struct ArrowArrayStream *stream, delta_scan **scan);

/* The version that the scan reads; -1 before the first `get_schema` or `get_next`. */
DELTA_EXPORT int64_t delta_scan_version(const delta_scan *scan);

/* The token of the last batch of `get_next`; any process continues exactly after that batch with
 * it, as "resume" of a request. Empty before the first batch. Valid until the next `get_next`. */
DELTA_EXPORT const char *delta_resume_token(const delta_scan *scan);

/* Why `get_next` failed, as a status; DELTA_OK if it did not. The message and class of the failure
 * become the last error of this thread. */
DELTA_EXPORT int32_t delta_scan_status(const delta_scan *scan);

/* End the scan from any thread; a `get_next` that waits returns ECANCELED within a moment. */
DELTA_EXPORT void delta_cancel(delta_scan *scan);

DELTA_EXPORT void delta_scan_release(delta_scan *scan);

/* --- the library */

/* End idle workers. Others are started when they are needed, so this is optional; workers also end
 * when the process does, however it ends. */
DELTA_EXPORT void delta_shutdown(void);

/* The message of the last failure on this thread; empty if the last call succeeded. */
DELTA_EXPORT const char *delta_last_error(void);

/* The name of the error's class, such as "TableNotFoundError". */
DELTA_EXPORT const char *delta_last_error_type(void);

/* The version of the library. */
DELTA_EXPORT const char *delta_version(void);

#ifdef __cplusplus
}
#endif

#endif /* LAZYDELTA_H */
