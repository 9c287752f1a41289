/* Worker processes: started on demand, kept warm between scans, ended without a zombie. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "internal.h"

#ifndef LAZYDELTA_PYTHON
#define LAZYDELTA_PYTHON "python3"
#endif

enum {
  MAX_SCANS = 64, /* at once: each is a process of some 100 MB */
  MAX_IDLE = 4,
  START_MILLISECONDS = 60000,
  TICK_MICROSECONDS = 50000 /* how often a waiting receiver checks for cancellation */
};

extern char **environ;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static ld_worker *idle;
static int idle_count, live_count;

static void count_worker(int change) {
  pthread_mutex_lock(&lock);
  live_count += change;
  pthread_mutex_unlock(&lock);
}

static const char *python(void) {
  const char *set = getenv("LIBLAZYDELTA_PYTHON");
  return set && *set ? set : LAZYDELTA_PYTHON;
}

/* Both ends are above the standard streams, which the worker's file actions replace. */
static int socket_pair(int fds[2]) {
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds)) return -1;
  for (int i = 0; i < 2; i++) {
    if (fds[i] > 2) continue;
    int above = fcntl(fds[i], F_DUPFD_CLOEXEC, 3);
    close(fds[i]);
    fds[i] = above;
  }
  if (fds[0] >= 0 && fds[1] >= 0) return 0;
  if (fds[0] >= 0) close(fds[0]);
  if (fds[1] >= 0) close(fds[1]);
  return -1;
}

static int spawn(pid_t *pid, int fd) {
  char *arguments[] = {(char *)python(), "-P", "-m", "lazydelta.ffi.worker", NULL};
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  sigset_t none, reset;
  sigemptyset(&none);
  sigemptyset(&reset);
  sigaddset(&reset, SIGPIPE);
  sigaddset(&reset, SIGTERM);
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, fd, 0);
  posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
#if __GLIBC_PREREQ(2, 34)
  posix_spawn_file_actions_addclosefrom_np(&actions, 3); /* what the host forgot to close */
#endif
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &reset);
  int problem = posix_spawnp(pid, arguments[0], &actions, &attributes, arguments, environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  return problem;
}

/* A process that the host reaped already, with a SIGCHLD handler or by ignoring the signal, has
 * given up its id: it is not killed. */
static void kill_and_reap(pid_t pid) {
  pid_t reaped = waitpid(pid, NULL, WNOHANG);
  if (reaped != 0) return;
  kill(pid, SIGKILL);
  while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) continue;
}

void ld_end_worker(ld_worker *worker) {
  close(worker->fd);
  kill_and_reap(worker->pid);
  free(worker);
  count_worker(-1);
}

static int32_t greet(ld_worker *worker) {
  ld_watch watch = {.deadline = ld_now() + START_MILLISECONDS};
  ld_head head;
  int32_t protocol = 0, status = ld_receive_head(worker->fd, &head, &watch);
  if (!status && head.kind == LD_HELLO && head.length == sizeof protocol)
    status = ld_receive_payload(worker->fd, &protocol, sizeof protocol, &watch);
  if (status)
    return ld_fail(DELTA_UNAVAILABLE, "WorkerStartError",
                   "`%s -m lazydelta.ffi.worker` did not start; its standard error has the reason. "
                   "Set LIBLAZYDELTA_PYTHON to a Python that has lazydelta",
                   python());
  if (protocol != LD_PROTOCOL)
    return ld_fail(DELTA_FAILED_PRECONDITION, "WorkerVersionError",
                   "the lazydelta of %s is not of the version of liblazydelta %s: install the same",
                   python(), LAZYDELTA_VERSION);
  return DELTA_OK;
}

static int32_t start_worker(ld_worker **out) {
  int fds[2];
  ld_worker *worker = calloc(1, sizeof *worker);
  if (!worker) return ld_no_memory();
  if (socket_pair(fds)) {
    free(worker);
    return ld_fail(DELTA_RESOURCE_EXHAUSTED, "OSError", "no socket pair: %s", strerror(errno));
  }
  int problem = spawn(&worker->pid, fds[1]);
  close(fds[1]);
  worker->fd = fds[0];
  if (problem) {
    close(fds[0]);
    free(worker);
    return ld_fail(DELTA_UNAVAILABLE, "WorkerStartError",
                   "cannot run %s: %s. Set LIBLAZYDELTA_PYTHON to a Python that has lazydelta",
                   python(), strerror(problem));
  }
  struct timeval tick = {.tv_usec = TICK_MICROSECONDS};
  setsockopt(worker->fd, SOL_SOCKET, SO_RCVTIMEO, &tick, sizeof tick);
  *out = worker;
  return DELTA_OK;
}

/* Whether an idle worker still waits: a dead one has closed its end. */
static bool is_alive(const ld_worker *worker) {
  char byte;
  return recv(worker->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

static uint64_t hash(const char *text) {
  uint64_t value = 14695981039346656037u; /* FNV-1a */
  for (; *text; text++) value = (value ^ (unsigned char)*text) * 1099511628211u;
  return value;
}

/* After a fork the workers are still those of the parent. */
static void forget_workers(void) {
  while (idle) {
    ld_worker *worker = idle;
    idle = worker->next;
    close(worker->fd);
    free(worker);
  }
  idle_count = live_count = 0;
  pthread_mutex_unlock(&lock);
}

static void lock_workers(void) { pthread_mutex_lock(&lock); }
static void unlock_workers(void) { pthread_mutex_unlock(&lock); }
static void watch_forks(void) { pthread_atfork(lock_workers, unlock_workers, forget_workers); }

/* Take an idle worker, if possible one that has read this table. */
static ld_worker *take_idle(uint64_t affinity) {
  ld_worker **link = &idle;
  for (ld_worker **at = &idle; *at; at = &(*at)->next)
    if ((*at)->affinity == affinity) {
      link = at;
      break;
    }
  ld_worker *worker = *link;
  if (worker) {
    *link = worker->next;
    idle_count--;
  }
  return worker;
}

int32_t ld_take_worker(const char *table, ld_worker **out) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, watch_forks);
  uint64_t affinity = hash(table);
  for (;;) {
    pthread_mutex_lock(&lock);
    ld_worker *worker = take_idle(affinity);
    bool is_full = !worker && live_count >= MAX_SCANS;
    if (!worker && !is_full) live_count++;
    pthread_mutex_unlock(&lock);
    if (is_full)
      return ld_fail(DELTA_RESOURCE_EXHAUSTED, "OverloadedError",
                     "%d scans run at once, which is the maximum: end one", MAX_SCANS);
    *out = worker;
    if (!worker) break;
    worker->affinity = affinity;
    if (is_alive(worker)) return DELTA_OK;
    ld_end_worker(worker);
  }
  int32_t status = start_worker(out);
  if (status) {
    count_worker(-1);
    return status;
  }
  (*out)->affinity = affinity;
  status = greet(*out);
  if (status) {
    ld_end_worker(*out);
    *out = NULL;
  }
  return status;
}

void ld_keep_worker(ld_worker *worker) {
  pthread_mutex_lock(&lock);
  bool is_kept = idle_count < MAX_IDLE;
  if (is_kept) {
    worker->next = idle;
    idle = worker;
    idle_count++;
  }
  pthread_mutex_unlock(&lock);
  if (!is_kept) ld_end_worker(worker);
}

void delta_shutdown(void) {
  for (;;) {
    pthread_mutex_lock(&lock);
    ld_worker *worker = idle;
    if (worker) {
      idle = worker->next;
      idle_count--;
    }
    pthread_mutex_unlock(&lock);
    if (!worker) return;
    ld_end_worker(worker);
  }
}

__attribute__((destructor)) static void at_exit(void) { delta_shutdown(); }
