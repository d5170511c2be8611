/* Makes writes below one folder fail in the process into which it is preloaded.
 *
 * The calls that create, write, force to disk or rename a file below FAULT_FOLDER, or force that
 * folder to disk, are counted. The one with the number FAULT_AT does what FAULT_HOW says:
 *
 *   a number   fails with this errno; a write puts half of its bytes down before
 *   kill       ends the process by SIGKILL before the call
 *   vanish     renames the folder to FAULT_FOLDER.gone before the call
 *   replace    as vanish, and makes an empty folder in its place
 *   watch      nothing; the call succeeds
 *
 * With FAULT_LASTS set, every later call does so, too. A line with call and path of each such call
 * (for a file without a lock "rename unlocked") is appended to the file FAULT_MARK, which must lie
 * elsewhere. FAULT_FOLDER must be absolute and without links.
 *
 * With FAULT_MS set, calls fail for so many milliseconds only, from the first one on.
 *
 * With FAULT_AFTER_MS set, a call that fails takes so many milliseconds.
 *
 * With FAULT_CALL set, only calls of that name count.
 *
 * With FAULT_LOCK set to an errno other than 0, each flock of FAULT_FOLDER itself fails with it. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static atomic_int calls;

/* Looks the function up at its call: a constructor may run after the first call. */
#define REAL(type, name) ((type)dlsym(RTLD_NEXT, name))

typedef int (*open_function)(const char *, int, ...);
typedef ssize_t (*write_function)(int, const void *, size_t);
typedef int (*fsync_function)(int);
typedef int (*flock_function)(int, int);
typedef int (*rename_function)(const char *, const char *);

static int inside(const char *path) {
    const char *folder = getenv("FAULT_FOLDER");
    size_t length = folder ? strlen(folder) : 0;
    return length && !strncmp(path, folder, length) && (!path[length] || path[length] == '/');
}

/* Returns the path of the descriptor if it is inside the folder, else NULL. */
static const char *inside_fd(int fd, char path[PATH_MAX]) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, PATH_MAX - 1);
    if (length < 0) return NULL;
    path[length] = 0;
    return inside(path) ? path : NULL;
}

static void mark(const char *call, const char *path) {
    char line[PATH_MAX + 64];
    int length = snprintf(line, sizeof line, "%s %s\n", call, path);
    int fd = REAL(open_function, "open")(getenv("FAULT_MARK"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (fd < 0 || REAL(write_function, "write")(fd, line, length) != length) abort();
    close(fd);
}

/* Returns true if FAULT_MS have passed since the first call that was to fail. */
static int is_over(void) {
    static atomic_llong begun;
    const char *limit = getenv("FAULT_MS");
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    long long now = 1000LL * time.tv_sec + time.tv_nsec / 1000000, none = 0;
    if (!limit || atomic_compare_exchange_strong(&begun, &none, now)) return 0;
    return now - none > atoi(limit);
}

/* Returns true if this call is to fail; errno then has the error. */
static int hit(const char *call, const char *path) {
    const char *only = getenv("FAULT_CALL");
    if (only && strcmp(only, call)) return 0;
    int number = atomic_fetch_add(&calls, 1) + 1, at = atoi(getenv("FAULT_AT"));
    const char *how = getenv("FAULT_HOW");
    if (number < at || (number > at && !getenv("FAULT_LASTS")) || is_over()) return 0;
    mark(call, path);
    if (!strcmp(how, "watch")) return 0;
    if (!strcmp(how, "kill")) {
        kill(getpid(), SIGKILL);
        pause();
    }
    if (!strcmp(how, "vanish") || !strcmp(how, "replace")) {
        char gone[PATH_MAX];
        snprintf(gone, sizeof gone, "%s.gone", getenv("FAULT_FOLDER"));
        int moved = !REAL(rename_function, "rename")(getenv("FAULT_FOLDER"), gone);
        if (moved && *how == 'r') mkdir(getenv("FAULT_FOLDER"), 0755);
        return 0;
    }
    const char *after = getenv("FAULT_AFTER_MS");
    if (after) usleep(1000 * atoi(after));
    errno = atoi(how);
    return 1;
}

static int opened(const char *name, const char *path, int flags, mode_t mode) {
    if (flags & O_CREAT && inside(path) && hit("create", path)) return -1;
    return REAL(open_function, name)(path, flags, mode);
}

/* The C library's two names of one function. */
#define OPEN(name)                                                                                                     \
    int name(const char *path, int flags, ...)                                                                         \
    {                                                                                                                  \
        va_list more;                                                                                                  \
        va_start(more, flags);                                                                                         \
        mode_t mode = flags & O_CREAT ? va_arg(more, int) : 0;                                                         \
        va_end(more);                                                                                                  \
        return opened(#name, path, flags, mode);                                                                       \
    }
OPEN(open)
OPEN(open64)

ssize_t write(int fd, const void *bytes, size_t count) {
    write_function real = REAL(write_function, "write");
    char path[PATH_MAX];
    if (inside_fd(fd, path) && hit("write", path)) {
        int why = errno;
        if (real(fd, bytes, count / 2) < 0) abort();
        errno = why;
        return -1;
    }
    return real(fd, bytes, count);
}

int fsync(int fd) {
    char path[PATH_MAX];
    return inside_fd(fd, path) && hit("fsync", path) ? -1 : REAL(fsync_function, "fsync")(fd);
}

int flock(int fd, int operation) {
    char path[PATH_MAX];
    const char *why = getenv("FAULT_LOCK");
    if (why && atoi(why) && inside_fd(fd, path) && !strcmp(path, getenv("FAULT_FOLDER"))) {
        errno = atoi(why);
        return -1;
    }
    return REAL(flock_function, "flock")(fd, operation);
}

/* Returns true if a process has the file locked. */
static int is_locked(const char *path) {
    int fd = REAL(open_function, "open")(path, O_RDONLY | O_CLOEXEC);
    int locked = fd >= 0 && REAL(flock_function, "flock")(fd, LOCK_EX | LOCK_NB);
    if (fd >= 0) close(fd);
    return locked;
}

int rename(const char *from, const char *to) {
    const char *call = is_locked(from) ? "rename" : "rename unlocked";
    return inside(to) && hit(call, from) ? -1 : REAL(rename_function, "rename")(from, to);
}
