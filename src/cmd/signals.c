/* signals.c - one table of signals, and the thread that takes them. */
#include "cmd/signals.h"

#include "base/error.h"
#include "base/log.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <time.h>

enum reaction {
    IGNORE, /* nothing happens; the call that met it fails with an error */
    STOP,   /* a clean stop; a second one ends the process at once */
    REOPEN  /* the log file is opened anew */
};

/* Every signal whose default would end or stop a server that is doing its work. */
static const struct {
    int number;
    enum reaction reaction;
    const char *name;
} table[] = {
    {SIGINT, STOP, "SIGINT"},
    {SIGTERM, STOP, "SIGTERM"},
    /* Limits of time that somebody has set, before the system enforces them: the limit
     * of CPU seconds, and an alarm that came through exec. */
    {SIGXCPU, STOP, "SIGXCPU"},
    {SIGALRM, STOP, "SIGALRM"},
    {SIGPWR, STOP, "SIGPWR"},
    /* What rotates logs sends it; a terminal that closes sends it too, and a server
     * that was started from there goes on. */
    {SIGHUP, REOPEN, "SIGHUP"},
    /* A peer that closes its socket, a reader of the log that ends, a file that may
     * not grow: the write fails and says so. */
    {SIGPIPE, IGNORE, "SIGPIPE"},
    {SIGXFSZ, IGNORE, "SIGXFSZ"},
    /* A server in the background of a terminal that says "tostop" would be halted by
     * its own log. */
    {SIGTTOU, IGNORE, "SIGTTOU"},
    {SIGTTIN, IGNORE, "SIGTTIN"},
    /* Scripts send these to any server; here they mean nothing. */
    {SIGUSR1, IGNORE, "SIGUSR1"},
    {SIGUSR2, IGNORE, "SIGUSR2"},
    {SIGIO, IGNORE, "SIGIO"},
};
/* Left to their defaults: SIGQUIT (asks for a core file), SIGTSTP and SIGCONT (a user's
 * ^Z and fg), SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP and SIGSYS (a fault must
 * end with a core file), SIGPROF, SIGVTALRM and those of real time (only a profiler or
 * debugger in this process asks for them), SIGCHLD, SIGURG and SIGWINCH (nothing
 * happens), SIGKILL and SIGSTOP (nobody can change them). */

enum { N_SIGNALS = sizeof table / sizeof *table };

static void set_of(enum reaction least, enum reaction most, sigset_t *set)
{
    sigemptyset(set);
    for (size_t i = 0; i < N_SIGNALS; i++)
        if (table[i].reaction >= least && table[i].reaction <= most)
            sigaddset(set, table[i].number);
}

void signals_ignore(void)
{
    for (size_t i = 0; i < N_SIGNALS; i++)
        if (table[i].reaction == IGNORE)
            signal(table[i].number, SIG_IGN);
}

void signals_hold(void)
{
    sigset_t held;
    set_of(STOP, REOPEN, &held);
    pthread_sigmask(SIG_BLOCK, &held, NULL);
}

void signals_let_kill(void)
{
    sigset_t stopping;
    set_of(STOP, STOP, &stopping);
    pthread_sigmask(SIG_UNBLOCK, &stopping, NULL);
}

static void reopen_log(void)
{
    struct error err;
    bool has_file;
    if (!log_reopen(&has_file, &err))
        log_error("SIGHUP: %s; the log goes on in the old file", err.message);
    else if (has_file)
        log_info("SIGHUP: the log file was opened anew");
    else
        log_info("SIGHUP: ignored, as there is no log file to open anew (--log-file)");
}

bool signals_wait_stop(int timeout_ms)
{
    sigset_t held;
    set_of(STOP, REOPEN, &held);
    const struct timespec timeout = {.tv_sec = timeout_ms / 1000,
                                     .tv_nsec = timeout_ms % 1000 * 1000000L};
    for (;;) {
        int number =
            timeout_ms < 0 ? sigwaitinfo(&held, NULL) : sigtimedwait(&held, NULL, &timeout);
        if (number < 0 && errno == EAGAIN)
            return false;
        for (size_t i = 0; i < N_SIGNALS; i++) {
            if (table[i].number != number)
                continue;
            if (table[i].reaction == STOP) {
                log_info("%s: stopping", table[i].name);
                return true;
            }
            reopen_log();
        }
    }
}
