/* Frames on the socket of a worker: a head, then a payload. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>

#include "internal.h"

static const int64_t MAX_PAYLOAD = INT64_C(1) << 40;

int64_t ld_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static int32_t lost(void) {
  return ld_fail(DELTA_UNAVAILABLE, "WorkerDiedError",
                 "the worker process ended during the scan: resume from the last token, or scan "
                 "again");
}

int32_t ld_send(int fd, ld_head head, const void *payload) {
  struct iovec parts[2] = {{&head, sizeof head}, {(void *)payload, (size_t)head.length}};
  struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
  size_t left = sizeof head + (size_t)head.length;
  while (left > 0) {
    ssize_t sent = sendmsg(fd, &message, MSG_NOSIGNAL);
    if (sent < 0) {
      if (errno == EINTR) continue;
      return lost();
    }
    left -= (size_t)sent;
    for (size_t i = 0; i < 2; i++) {
      size_t done = (size_t)sent < parts[i].iov_len ? (size_t)sent : parts[i].iov_len;
      parts[i].iov_base = (char *)parts[i].iov_base + done;
      parts[i].iov_len -= done;
      sent -= (ssize_t)done;
    }
  }
  return DELTA_OK;
}

static int32_t is_cancelled(const ld_watch *watch) {
  if (!watch->cancelled || !atomic_load(watch->cancelled)) return DELTA_OK;
  return ld_cancelled();
}

static int32_t is_late(const ld_watch *watch) {
  if (!watch->deadline || ld_now() < watch->deadline) return DELTA_OK;
  return ld_fail(DELTA_DEADLINE_EXCEEDED, "DeadlineError", "the worker process did not answer");
}

/* The socket has a receive timeout, so that a waiting receiver checks the watch every few
 * milliseconds. A head that has begun to arrive is not abandoned: `is_head`. */
static int32_t receive(int fd, void *to, int64_t length, const ld_watch *watch, bool is_head) {
  char *at = to;
  while (length > 0) {
    ssize_t got = recv(fd, at, (size_t)length, MSG_WAITALL);
    if (got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN)) return lost();
    if (got > 0) {
      at += got;
      length -= got;
      continue;
    }
    int32_t status = is_head && at != (char *)to ? DELTA_OK : is_cancelled(watch);
    if (!status) status = is_late(watch);
    if (status) return status;
  }
  return DELTA_OK;
}

int32_t ld_receive_payload(int fd, void *to, int64_t length, const ld_watch *watch) {
  return receive(fd, to, length, watch, false);
}

int32_t ld_receive_head(int fd, ld_head *head, const ld_watch *watch) {
  *head = (ld_head){0};
  int32_t status = receive(fd, head, sizeof *head, watch, true);
  if (!status && (head->length < 0 || head->length > MAX_PAYLOAD))
    status = ld_fail(DELTA_INTERNAL, "FrameError", "the worker process sent an invalid frame");
  return status;
}
