/* The last error of each thread, in memory that no thread has to free. */
#include <stdarg.h>
#include <stdio.h>

#include "internal.h"

static _Thread_local char message[4096];
static _Thread_local char type_name[64];

int32_t ld_ok(void) {
  message[0] = type_name[0] = '\0';
  return DELTA_OK;
}

int32_t ld_fail(int32_t status, const char *type, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(message, sizeof message, format, arguments);
  va_end(arguments);
  snprintf(type_name, sizeof type_name, "%s", type);
  return status;
}

int32_t ld_no_memory(void) {
  return ld_fail(DELTA_RESOURCE_EXHAUSTED, "MemoryError", "out of memory");
}

int32_t ld_cancelled(void) {
  return ld_fail(DELTA_CANCELLED, "CancelledError", "the scan was cancelled");
}

const char *delta_last_error(void) { return message; }

const char *delta_last_error_type(void) { return type_name; }

const char *delta_version(void) { return LAZYDELTA_VERSION; }
