/* download.c - files from the web: resumed, checked, whole or not there. */
#include "files/download.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/printable.h"
#include "files/checksum.h"
#include "files/paths.h"

#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    ATTEMPTS = 3,
    RETRY_MS = 2000,
    CONNECT_SECONDS = 30,
    STALLED_SECONDS = 60, /* without a byte: give up and try again */
    JSON_MAX_BYTES = 64 << 20,
    BAR_WIDTH = 40
};

static void init_curl(void)
{
    curl_global_init(CURL_GLOBAL_DEFAULT);
}

static CURL *new_handle(const char *url, const char *token, char why[CURL_ERROR_SIZE])
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, init_curl);
    CURL *curl = curl_easy_init();
    if (!curl)
        return NULL;
    why[0] = '\0';
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, why);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 1L);
    curl_easy_setopt(curl, CURLOPT_MAXREDIRS, 10L);
    /* A redirect must not lead to file: or worse. */
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(curl, CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_SECONDS);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, (long)STALLED_SECONDS);
    curl_easy_setopt(curl, CURLOPT_USERAGENT, "mlxcel/" MLXCEL_VERSION);
    if (token && *token) {
        curl_easy_setopt(curl, CURLOPT_HTTPAUTH, (long)CURLAUTH_BEARER);
        curl_easy_setopt(curl, CURLOPT_XOAUTH2_BEARER, token);
    }
    return curl;
}

/* ---- Errors ----------------------------------------------------------- */

static bool refuse_status(const char *url, long status, struct error *err)
{
    if (status == 401 || status == 403)
        return error_set(err, ERR_NOT_FOUND,
                         "%s: the server refuses access (status %ld); the model is private, gated "
                         "or not there; accept its terms on its page and give a token with -hft or "
                         "HF_TOKEN",
                         url, status);
    if (status == 404 || status == 410)
        return error_set(err, ERR_NOT_FOUND, "%s: is not there (status %ld); check the name", url,
                         status);
    return error_set(err, ERR_IO, "%s: the server answered with status %ld; try again later", url,
                     status);
}

static bool refuse_transfer(const char *url, CURLcode code, const char *why, struct error *err)
{
    return error_set(err, ERR_IO, "%s: %s; check the network, or use what is cached with --offline",
                     url, *why ? why : curl_easy_strerror(code));
}

/* A status that another attempt may mend. */
static bool may_pass(long status)
{
    return status == 408 || status == 429 || status >= 500;
}

/* ---- Headers ---------------------------------------------------------- */

/* What the last response (after redirects) said of the file. */
struct facts {
    char etag[256];
    char range[64];
    char link[2048];
};

static bool header_value(struct slice line, const char *name, char *out, size_t size)
{
    size_t len = strlen(name);
    if (line.len <= len || strncasecmp(line.data, name, len) != 0 || line.data[len] != ':')
        return false;
    struct slice value = slice_from(line, len + 1);
    while (value.len && (value.data[0] == ' ' || value.data[0] == '\t'))
        value = slice_from(value, 1);
    while (value.len && (unsigned char)value.data[value.len - 1] <= ' ')
        value.len--;
    if (value.len < size)
        snprintf(out, size, "%.*s", (int)value.len, value.data);
    return true;
}

static size_t take_header(char *data, size_t size, size_t n, void *arg)
{
    struct facts *facts = arg;
    struct slice line = {data, size * n};
    if (slice_starts_with(line, SLICE("HTTP/")))
        *facts = (struct facts){0}; /* another response begins */
    header_value(line, "etag", facts->etag, sizeof facts->etag);
    header_value(line, "content-range", facts->range, sizeof facts->range);
    header_value(line, "link", facts->link, sizeof facts->link);
    return size * n;
}

struct names {
    char *partial;      /* PATH.downloadInProgress */
    char *partial_etag; /* of which file these bytes are */
    char *etag;         /* PATH.etag */
    char *lock;
};

/* ---- Progress --------------------------------------------------------- */

struct transfer {
    const struct download *what;
    const struct names *names;
    CURL *curl;
    FILE *stream;
    uint64_t begun_at; /* bytes there before this attempt */
    bool begun, wrong_range;
    struct facts facts;
    bool bar; /* on a terminal; else a line in the log now and then */
    uint64_t shown_us;
};

static const char *shown_name(const char *url, int *len)
{
    const char *end = url + strcspn(url, "?#"), *name = end;
    while (name > url && name[-1] != '/')
        name--;
    *len = (int)(end - name);
    return name;
}

enum { BAR_US = 100000, LINE_US = 5000000 };

static int show_progress(void *arg, curl_off_t total, curl_off_t now, curl_off_t up_total,
                         curl_off_t up_now)
{
    struct transfer *t = arg;
    uint64_t us = clock_monotonic_us();
    int name_len;
    (void)up_total;
    (void)up_now;
    if (!t->shown_us && !t->bar)
        t->shown_us = us;
    if (total <= 0 || (us - t->shown_us < (t->bar ? BAR_US : LINE_US) && (now < total || !t->bar)))
        return 0;
    t->shown_us = us;
    double whole = (double)t->begun_at + (double)total, have = (double)t->begun_at + (double)now;
    int filled = (int)(BAR_WIDTH * have / whole);
    const char *name = shown_name(t->what->url, &name_len);
    if (!t->bar) {
        log_info("downloading %.*s: %d%% of %.1f MiB", name_len, name, (int)(100 * have / whole),
                 whole / (1 << 20));
        return 0;
    }
    fputc('\r', stderr);
    printable_write(stderr, (struct slice){name, name_len > 40 ? 40 : (size_t)name_len});
    fprintf(stderr, " [%.*s%*s] %3d%% of %.1f MiB\x1b[K", filled,
            "########################################", BAR_WIDTH - filled, "",
            (int)(100 * have / whole), whole / (1 << 20));
    return 0;
}

/* ---- One attempt ------------------------------------------------------ */

/* True when "bytes FROM-TO/SIZE" begins where we stopped. */
static bool range_begins_at(const char *range, uint64_t at)
{
    unsigned long long from;
    return sscanf(range, "bytes %llu-", &from) == 1 && from == at;
}

/* The first bytes decide: a server that does not go on where we stopped sends
 * the file from its beginning. */
static bool begin_writing(struct transfer *t, long status)
{
    t->begun = true;
    if (status == 206 && !range_begins_at(t->facts.range, t->begun_at)) {
        t->wrong_range = true;
        return false;
    }
    /* Known before the bytes, so that a later run can go on with them. */
    if (t->facts.etag[0])
        path_write_whole(t->names->partial_etag, slice_of(t->facts.etag), NULL);
    else
        unlink(t->names->partial_etag);
    if (status == 206)
        return true;
    t->begun_at = 0;
    return ftruncate(fileno(t->stream), 0) == 0;
}

static size_t take_bytes(char *data, size_t size, size_t n, void *arg)
{
    struct transfer *t = arg;
    long status = 0;
    curl_easy_getinfo(t->curl, CURLINFO_RESPONSE_CODE, &status);
    if (status != 200 && status != 206)
        return size * n; /* an error's page is not the file */
    if (!t->begun && !begin_writing(t, status))
        return 0;
    return fwrite(data, 1, size * n, t->stream);
}

static uint64_t file_size(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && info.st_size > 0 ? (uint64_t)info.st_size : 0;
}

enum attempt { ATTEMPT_DONE, ATTEMPT_UNCHANGED, ATTEMPT_AGAIN, ATTEMPT_FAILED };

/* If the file is still the one we have, say so (whole file) or go on (part). */
static struct curl_slist *conditions(struct transfer *t, const struct names *names)
{
    struct curl_slist *headers = NULL;
    char *line = NULL;
    if (t->begun_at > 0) {
        char *etag = path_first_line(names->partial_etag);
        line = etag ? text_format("If-Range: %s", etag) : NULL;
        free(etag);
    } else if (path_exists(t->what->path)) {
        char *etag = path_first_line(names->etag);
        line = etag ? text_format("If-None-Match: %s", etag) : NULL;
        free(etag);
    }
    if (line)
        headers = curl_slist_append(NULL, line);
    free(line);
    return headers;
}

static enum attempt judge(struct transfer *t, const struct names *names, CURLcode code,
                          const char *why, struct error *err)
{
    long status = 0;
    curl_easy_getinfo(t->curl, CURLINFO_RESPONSE_CODE, &status);
    if (status == 304)
        return ATTEMPT_UNCHANGED;
    if (status == 416 || t->wrong_range) { /* what we have is no part of it */
        unlink(names->partial);
        error_set(err, ERR_IO, "%s: cannot be gone on with", t->what->url);
        return ATTEMPT_AGAIN;
    }
    if (status >= 300) {
        refuse_status(t->what->url, status, err);
        return may_pass(status) ? ATTEMPT_AGAIN : ATTEMPT_FAILED;
    }
    if (code == CURLE_OK)
        return ATTEMPT_DONE;
    if (code == CURLE_WRITE_ERROR) {
        error_set(err, ERR_IO, "%s: cannot be written: %s", names->partial, strerror(errno));
        return ATTEMPT_FAILED;
    }
    refuse_transfer(t->what->url, code, why, err);
    /* A wrong name or certificate stays wrong. */
    bool hopeless = code == CURLE_URL_MALFORMAT || code == CURLE_UNSUPPORTED_PROTOCOL ||
                    code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_TOO_MANY_REDIRECTS;
    return hopeless ? ATTEMPT_FAILED : ATTEMPT_AGAIN;
}

static enum attempt attempt(const struct download *what, const struct names *names,
                            struct error *err)
{
    char why[CURL_ERROR_SIZE];
    struct transfer t = {.what = what, .names = names, .begun_at = file_size(names->partial)};
    /* Bytes of a file that may have changed since are of no use. */
    if (t.begun_at > 0 && !what->immutable && !path_exists(names->partial_etag)) {
        unlink(names->partial);
        t.begun_at = 0;
    }
    int fd;
    if (!file_open_regular(names->partial, O_WRONLY | O_APPEND | O_CREAT, FILE_ANY_SIZE, &fd, NULL,
                           err))
        return ATTEMPT_FAILED;
    t.stream = fdopen(fd, "ab");
    t.curl = new_handle(what->url, what->token, why);
    if (!t.stream || !t.curl) {
        error_memory(err);
        if (!t.stream)
            close(fd);
        if (t.stream)
            fclose(t.stream);
        curl_easy_cleanup(t.curl);
        return ATTEMPT_FAILED;
    }
    struct curl_slist *headers = conditions(&t, names);
    curl_easy_setopt(t.curl, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(t.curl, CURLOPT_HEADERFUNCTION, take_header);
    curl_easy_setopt(t.curl, CURLOPT_HEADERDATA, &t.facts);
    curl_easy_setopt(t.curl, CURLOPT_WRITEFUNCTION, take_bytes);
    curl_easy_setopt(t.curl, CURLOPT_WRITEDATA, &t);
    if (t.begun_at > 0) {
        char range[40];
        snprintf(range, sizeof range, "%" PRIu64 "-", t.begun_at);
        curl_easy_setopt(t.curl, CURLOPT_RANGE, range);
    }
    t.bar = !what->quiet && isatty(STDERR_FILENO);
    if (!what->quiet) {
        curl_easy_setopt(t.curl, CURLOPT_NOPROGRESS, 0L);
        curl_easy_setopt(t.curl, CURLOPT_XFERINFOFUNCTION, show_progress);
        curl_easy_setopt(t.curl, CURLOPT_XFERINFODATA, &t);
    }
    CURLcode code = curl_easy_perform(t.curl);
    if (t.bar && t.shown_us)
        fputc('\n', stderr);
    if (fclose(t.stream) != 0 && code == CURLE_OK)
        code = CURLE_WRITE_ERROR;
    enum attempt result = judge(&t, names, code, why, err);
    curl_slist_free_all(headers);
    curl_easy_cleanup(t.curl);
    return result;
}

/* ---- The whole file --------------------------------------------------- */

static bool finish(const struct download *what, const struct names *names, struct error *err)
{
    if (what->digest && !checksum_verify(names->partial, what->digest, err)) {
        unlink(names->partial);
        unlink(names->partial_etag);
        return error_prefix(err, "the download of %s is damaged and was thrown away; try again",
                            what->url);
    }
    if (rename(names->partial, what->path) != 0)
        return error_set(err, ERR_IO, "%s: cannot be given its name: %s", what->path,
                         strerror(errno));
    if (what->immutable)
        unlink(names->partial_etag);
    else if (path_exists(names->partial_etag))
        rename(names->partial_etag, names->etag);
    else
        unlink(names->etag);
    return true;
}

/* A large file over a bad line comes in many pieces: only attempts that got
 * nowhere count. */
static bool fetch(const struct download *what, const struct names *names, struct error *err)
{
    uint32_t delay = what->retry_ms ? what->retry_ms : RETRY_MS;
    for (uint32_t failures = 0;;) {
        uint64_t before = file_size(names->partial);
        enum attempt result = attempt(what, names, err);
        if (result == ATTEMPT_DONE)
            return finish(what, names, err);
        uint64_t after = file_size(names->partial);
        if (after == 0)
            unlink(names->partial);
        if (result == ATTEMPT_UNCHANGED)
            return true;
        failures = after > before ? 1 : failures + 1;
        if (result == ATTEMPT_FAILED || failures >= ATTEMPTS)
            return false;
        log_warn("%s; trying again in %.1f s", err->message, delay * failures / 1000.0);
        clock_sleep_ms(delay * failures);
    }
}

static bool locked(const struct download *what, const struct names *names, struct error *err)
{
    bool there = path_exists(what->path);
    if (there && what->immutable)
        return true;
    if (fetch(what, names, err)) {
        log_debug("%s: is at %s", what->url, what->path);
        return true;
    }
    if (!there || err->code == ERR_FORMAT)
        return false;
    log_warn("%s; using the file that was downloaded before: %s", err->message, what->path);
    return true;
}

bool download_file(const struct download *what, struct error *err)
{
    struct error own;
    if (!err)
        err = &own;
    if (what->immutable && path_exists(what->path))
        return true;
    struct names names = {
        text_format("%s.downloadInProgress", what->path),
        text_format("%s.downloadInProgress.etag", what->path),
        text_format("%s.etag", what->path),
        text_format("%s.lock", what->path),
    };
    int fd;
    bool ok =
        (names.partial && names.partial_etag && names.etag && names.lock) || error_memory(err);
    if (ok && (ok = path_lock(names.lock, &fd, err))) {
        ok = locked(what, &names, err);
        path_unlock(names.lock, fd);
    }
    free(names.partial);
    free(names.partial_etag);
    free(names.etag);
    free(names.lock);
    return ok;
}

/* ---- JSON ------------------------------------------------------------- */

static size_t take_text(char *data, size_t size, size_t n, void *arg)
{
    struct str *text = arg;
    return text->len + size * n <= JSON_MAX_BYTES && str_append(text, data, size * n) ? size * n
                                                                                      : 0;
}

/* The target of rel="next" in a Link header; NULL when there is none. */
static char *next_link(const char *link)
{
    const char *rel = strstr(link, "rel=\"next\"");
    const char *end = rel;
    while (end && end > link && *end != '>')
        end--;
    const char *begin = end;
    while (begin && begin > link && *begin != '<')
        begin--;
    if (!rel || *end != '>' || *begin != '<')
        return NULL;
    return slice_duplicate((struct slice){begin + 1, (size_t)(end - begin - 1)});
}

json_t *download_json(const char *url, const char *token, const char *accept, char **next,
                      struct error *err)
{
    char why[CURL_ERROR_SIZE];
    struct str text = {0};
    struct facts facts = {0};
    json_t *json = NULL;
    CURL *curl = new_handle(url, token, why);
    char *line = text_format("Accept: %s", accept ? accept : "application/json");
    struct curl_slist *headers = line ? curl_slist_append(NULL, line) : NULL;
    if (next)
        *next = NULL;
    if (!curl || !headers) {
        error_memory(err);
    } else {
        long status = 0;
        curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
        curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, take_header);
        curl_easy_setopt(curl, CURLOPT_HEADERDATA, &facts);
        curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take_text);
        curl_easy_setopt(curl, CURLOPT_WRITEDATA, &text);
        CURLcode code = curl_easy_perform(curl);
        curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
        if (code != CURLE_OK)
            refuse_transfer(url, code, why, err);
        else if (status != 200)
            refuse_status(url, status, err);
        else if (!(json = json_parse(str_slice(&text), err)))
            error_prefix(err, "%s", url);
        else if (next)
            *next = next_link(facts.link);
    }
    curl_slist_free_all(headers);
    curl_easy_cleanup(curl);
    str_free(&text);
    free(line);
    return json;
}
