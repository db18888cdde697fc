/* fetch_test.c - fetching models from a hub on loopback that interrupts,
 * refuses and lies. */
#define _GNU_SOURCE /* strcasestr, for loopback.h */
#include "unit/files/helpers.h"
#include "unit/unit.h"

#include "files/checksum.h"
#include "files/download.h"
#include "files/hub.h"
#include "unit/loopback.h"

#include <nettle/sha2.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define COMMIT "0123456789abcdef0123456789abcdef01234567"

/* The hub answers on threads of its own. Whoever looks at it or changes it is
 * ordered by this lock with whom it answered before. */
static pthread_mutex_t hub_lock = PTHREAD_MUTEX_INITIALIZER;

static void hub_sync(void)
{
    pthread_mutex_lock(&hub_lock);
    pthread_mutex_unlock(&hub_lock);
}

/* ---- The hub ---------------------------------------------------------- */

struct hub {
    struct loopback server;
    char *folder; /* scratch, the cache's too */
    const char *paths[16];
    struct str contents[16];
    size_t n;
    int n_requests, n_downloads; /* all; those of file bytes */
    int cut_after;               /* send so many bytes of a file, then hang up; 0: all */
    int status;                  /* answer everything so; 0: properly */
    bool no_ranges, lies;        /* ignores Range; sends other bytes than promised */
    bool paged;                  /* the listing comes one file a page */
    char last_range[64], last_authorization[128];
    const char *etag;
};

static void hex_sha256(struct slice text, char out[65])
{
    struct sha256_ctx hash;
    uint8_t digest[32];
    sha256_init(&hash);
    sha256_update(&hash, text.len, (const uint8_t *)text.data);
    sha256_digest(&hash, 32, digest);
    for (int i = 0; i < 32; i++)
        snprintf(out + 2 * i, 3, "%02x", digest[i]);
}

static void note_header(const char *head, const char *name, char *out, size_t size)
{
    const char *at = strcasestr(head, name);
    out[0] = '\0';
    if (at)
        snprintf(out, size, "%.*s", (int)strcspn(at + strlen(name), "\r"), at + strlen(name));
}

static void put_reply(struct str *out, const char *status, const char *headers, struct slice body)
{
    str_append_format(out, "HTTP/1.1 %s\r\n%sContent-Length: %zu\r\n\r\n", status, headers,
                      body.len);
    str_append_slice(out, body);
}

static void put_tree(struct hub *hub, size_t from, struct str *out)
{
    struct str json = {0};
    char headers[256] = "";
    size_t to = hub->paged && from + 1 < hub->n ? from + 1 : hub->n;
    str_append_text(&json, "[{\"type\":\"directory\",\"path\":\"sub\"}");
    for (size_t i = from; i < to; i++) {
        char digest[65];
        hex_sha256(str_slice(&hub->contents[i]), digest);
        str_append_format(&json,
                          ",{\"type\":\"file\",\"path\":\"%s\",\"oid\":\"" COMMIT
                          "\",\"lfs\":{\"oid\":\"%s\"}}",
                          hub->paths[i], digest);
    }
    str_append_text(&json, "]");
    if (to < hub->n)
        snprintf(headers, sizeof headers,
                 "Link: <%s/api/models/org/name/tree/" COMMIT "?recursive=true&cursor=%zu>; "
                 "rel=\"next\"\r\n",
                 hub->server.url, to);
    put_reply(out, "200 OK", headers, str_slice(&json));
    str_free(&json);
}

static void put_file(struct hub *hub, const char *head, struct slice content, struct str *out)
{
    char range[64], match[64], headers[256];
    note_header(head, "\r\nRange: bytes=", range, sizeof range);
    note_header(head, "\r\nIf-None-Match: ", match, sizeof match);
    snprintf(hub->last_range, sizeof hub->last_range, "%s", range);
    hub->n_downloads++;
    snprintf(headers, sizeof headers, "%s%s%s", hub->etag ? "ETag: " : "",
             hub->etag ? hub->etag : "", hub->etag ? "\r\n" : "");
    if (hub->etag && strcmp(match, hub->etag) == 0) {
        str_append_text(out, "HTTP/1.1 304 Not Modified\r\n\r\n");
        return;
    }
    size_t from = *range && !hub->no_ranges ? (size_t)strtoul(range, NULL, 10) : 0;
    if (from > content.len) {
        put_reply(out, "416 Range Not Satisfiable", "", SLICE(""));
        return;
    }
    struct str body = {0};
    str_append_slice(&body, slice_from(content, from));
    if (hub->lies)
        body.data[0] ^= 1;
    if (*range && !hub->no_ranges) {
        char more[128];
        snprintf(more, sizeof more, "Content-Range: bytes %zu-%zu/%zu\r\n", from, content.len - 1,
                 content.len);
        strcat(headers, more);
    }
    put_reply(out, *range && !hub->no_ranges ? "206 Partial Content" : "200 OK", headers,
              str_slice(&body));
    if (hub->cut_after && (size_t)hub->cut_after < body.len)
        str_truncate(out, out->len - body.len + (size_t)hub->cut_after);
    str_free(&body);
}

static void answer_in_turn(void *arg, const char *head, struct slice body, struct str *out)
{
    struct hub *hub = arg;
    const char *path = strchr(head, ' ') + 1;
    (void)body;
    hub->n_requests++;
    note_header(head, "\r\nAuthorization: ", hub->last_authorization,
                sizeof hub->last_authorization);
    if (hub->status) {
        char status[32];
        snprintf(status, sizeof status, "%d Status", hub->status);
        put_reply(out, status, "", SLICE("a page"));
        return;
    }
    if (strncmp(path, "/api/models/org/name/refs ", 26) == 0) {
        put_reply(out, "200 OK", "",
                  SLICE("{\"branches\":[{\"name\":\"dev\",\"targetCommit\":"
                        "\"ffffffffffffffffffffffffffffffffffffffff\"},{\"name\":\"main\","
                        "\"targetCommit\":\"" COMMIT "\"}]}"));
        return;
    }
    if (strncmp(path, "/api/models/org/name/tree/" COMMIT, 66) == 0) {
        const char *cursor = strstr(path, "cursor=");
        put_tree(hub, cursor ? (size_t)strtoul(cursor + 7, NULL, 10) : 0, out);
        return;
    }
    static const char resolve[] = "/org/name/resolve/" COMMIT;
    if (strncmp(path, resolve, sizeof resolve - 1) == 0)
        path += sizeof resolve - 1;
    struct slice asked = {path + 1, strcspn(path + 1, " ?")};
    for (size_t i = 0; i < hub->n; i++)
        if (slice_equal_text(asked, hub->paths[i])) {
            put_file(hub, head, str_slice(&hub->contents[i]), out);
            return;
        }
    put_reply(out, "404 Not Found", "", SLICE("no"));
}

static void answer(void *arg, const char *head, struct slice body, struct str *out)
{
    pthread_mutex_lock(&hub_lock);
    answer_in_turn(arg, head, body, out);
    pthread_mutex_unlock(&hub_lock);
}

static void add_file(struct hub *hub, const char *path, size_t size)
{
    hub->paths[hub->n] = path;
    for (size_t i = 0; i < size; i++)
        str_append_char(&hub->contents[hub->n], (char)(i * 7 + hub->n));
    hub->n++;
}

static void hub_open(struct hub *hub)
{
    *hub = (struct hub){.folder = scratch_make()};
    loopback_start(&hub->server, answer, hub);
    setenv("MODEL_ENDPOINT", hub->server.url, 1);
    setenv("LLAMA_CACHE", hub->folder, 1);
}

static void hub_close(struct hub *hub)
{
    if (hub->server.listener >= 0)
        loopback_stop(&hub->server);
    for (size_t i = 0; i < hub->n; i++)
        str_free(&hub->contents[i]);
    scratch_remove(hub->folder);
}

/* Nobody answers any more. */
static void hub_unplug(struct hub *hub)
{
    loopback_stop(&hub->server);
    hub->server.listener = -1;
}

static void assert_holds(const char *path, const struct str *content)
{
    struct str text = {0};
    FILE *stream = fopen(path, "rb");
    if (!stream)
        fail_msg("%s is not there", path);
    char chunk[4096];
    for (size_t n; (n = fread(chunk, 1, sizeof chunk, stream)) > 0;)
        str_append(&text, chunk, n);
    fclose(stream);
    assert_int_equal(text.len, content->len);
    assert_memory_equal(text.data, content->data, text.len);
    str_free(&text);
}

static char *fetch_ok(const struct model_source *source)
{
    char *path;
    struct error err = {0};
    hub_sync();
    if (!model_source_fetch(source, &path, &err))
        fail_msg("%s", err.message);
    hub_sync();
    return path;
}

/* download_file, in order with the hub. */
static bool get(const struct download *download, struct error *err)
{
    hub_sync();
    bool ok = download_file(download, err);
    hub_sync();
    return ok;
}

static void fetch_fails(const struct model_source *source, const char *word)
{
    char *path;
    struct error err = {0};
    hub_sync();
    assert_false(model_source_fetch(source, &path, &err));
    hub_sync();
    assert_null(path);
    if (!strstr(err.message, word))
        fail_msg("the message lacks '%s': %s", word, err.message);
}

static const struct model_source org_name = {.hf_repo = "org/name", .quiet = true};

/* ---- Repositories ----------------------------------------------------- */

static void the_layout_is_the_one_the_tools_share(void **state)
{
    (void)state;
    struct hub hub;
    hub_open(&hub);
    add_file(&hub, "README.md", 10);
    add_file(&hub, "sub/model-Q4_K_M.gguf", 5000);
    char *path = fetch_ok(&org_name);
    char *want =
        text_format("%s/models--org--name/snapshots/" COMMIT "/sub/model-Q4_K_M.gguf", hub.folder);
    assert_string_equal(path, want);
    assert_holds(path, &hub.contents[1]);
    char digest[65], target[256] = "";
    hex_sha256(str_slice(&hub.contents[1]), digest);
    assert_true(readlink(path, target, sizeof target - 1) > 0);
    char *blob = text_format("../../../blobs/%s", digest);
    assert_string_equal(target, blob);
    char *ref = text_format("%s/models--org--name/refs/main", hub.folder);
    char *commit = path_first_line(ref);
    assert_string_equal(commit, COMMIT);
    /* nothing else was fetched, and nothing is left over */
    assert_int_equal(hub.n_downloads, 1);
    char *blobs = text_format("%s/models--org--name/blobs", hub.folder);
    struct path_list names = {0};
    assert_true(path_list_folder(blobs, &names, NULL));
    assert_int_equal(names.n, 1);
    path_list_free(&names);
    free(blobs);
    free(commit);
    free(ref);
    free(blob);
    free(want);
    free(path);
    /* a second time: nothing to download */
    free(fetch_ok(&org_name));
    assert_int_equal(hub.n_downloads, 1);
    hub_close(&hub);
}

static void quantizations_are_chosen_as_upstream_does(void **state)
{
    (void)state;
    static const struct {
        const char *repo, *file, *ends;
    } cases[] = {
        {"org/name", NULL, "/b-Q4_K_M.gguf"},
        {"org/name:q8_0", NULL, "/c-Q8_0.gguf"},
        {"org/name:Q5_K", NULL, "/d-Q5_K-00001-of-00002.gguf"},
        {"org/name:F16", NULL, "/a-F16.gguf"},
        {"org/name:F16", "c-Q8_0.gguf", "/c-Q8_0.gguf"},
    };
    struct hub hub;
    hub_open(&hub);
    add_file(&hub, "a-F16.gguf", 11);
    add_file(&hub, "b-Q4_K_M.gguf", 12);
    add_file(&hub, "c-Q8_0.gguf", 13);
    add_file(&hub, "d-Q5_K-00002-of-00002.gguf", 14);
    add_file(&hub, "d-Q5_K-00001-of-00002.gguf", 15);
    add_file(&hub, "mmproj-Q4_K_M.gguf", 16);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct model_source source = {
            .hf_repo = cases[i].repo, .hf_file = cases[i].file, .quiet = true};
        char *path = fetch_ok(&source);
        if (!slice_ends_with(slice_of(path), slice_of(cases[i].ends)))
            fail_msg("%s gave %s", cases[i].repo, path);
        free(path);
    }
    /* both shards came */
    char *second = text_format(
        "%s/models--org--name/snapshots/" COMMIT "/d-Q5_K-00002-of-00002.gguf", hub.folder);
    assert_holds(second, &hub.contents[3]);
    free(second);
    struct model_source source = {.hf_repo = "org/name:Q2_K", .quiet = true};
    fetch_fails(&source, "b-Q4_K_M.gguf");
    source = (struct model_source){.hf_repo = "org/name", .hf_file = "x.gguf", .quiet = true};
    fetch_fails(&source, "no file 'x.gguf'");
    struct cached_models models;
    assert_true(cache_list(&models, NULL));
    assert_int_equal(models.n, 4);
    assert_string_equal(models.names[0], "org/name:F16");
    assert_string_equal(models.names[2], "org/name:Q8_0");
    assert_string_equal(models.names[3], "org/name:Q5_K");
    cached_models_free(&models);
    hub_close(&hub);
}

static void a_repository_of_safetensors_gives_its_folder(void **state)
{
    (void)state;
    struct hub hub;
    hub_open(&hub);
    hub.paged = true; /* and the listing comes in pages */
    add_file(&hub, "config.json", 20);
    add_file(&hub, "model.safetensors", 30);
    add_file(&hub, "tokenizer.json", 40);
    add_file(&hub, "1_Pooling/config.json", 50);
    add_file(&hub, "onnx/model.onnx", 60);
    add_file(&hub, "picture.png", 70);
    char *path = fetch_ok(&org_name);
    char *want = text_format("%s/models--org--name/snapshots/" COMMIT "/", hub.folder);
    assert_string_equal(path, want);
    for (size_t i = 0; i < hub.n; i++) {
        char *file = text_format("%s%s", path, hub.paths[i]);
        if (i < 4)
            assert_holds(file, &hub.contents[i]);
        else
            assert_false(path_exists(file));
        free(file);
    }
    free(want);
    free(path);
    struct model_source source = {.hf_repo = "org/name:Q4_K_M", .quiet = true};
    fetch_fails(&source, "safetensors");
    struct cached_models models;
    assert_true(cache_list(&models, NULL));
    assert_int_equal(models.n, 1);
    assert_string_equal(models.names[0], "org/name");
    cached_models_free(&models);
    hub_close(&hub);
}

static void without_a_network_the_cache_serves(void **state)
{
    (void)state;
    struct hub hub;
    hub_open(&hub);
    add_file(&hub, "m-Q8_0.gguf", 100);
    struct model_source offline = {.hf_repo = "org/name", .offline = true, .quiet = true};
    fetch_fails(&offline, "--offline");
    assert_int_equal(hub.n_requests, 0);
    free(fetch_ok(&org_name));
    int n = hub.n_requests;
    char *path = fetch_ok(&offline);
    assert_holds(path, &hub.contents[0]);
    free(path);
    assert_int_equal(hub.n_requests, n);
    hub_unplug(&hub);
    free(fetch_ok(&org_name));
    struct model_source other = {.hf_repo = "org/other", .quiet = true};
    fetch_fails(&other, "check the network");
    hub_close(&hub);
}

static void refusals_say_what_to_do(void **state)
{
    (void)state;
    struct hub hub;
    hub_open(&hub);
    hub.status = 401;
    fetch_fails(&org_name, "HF_TOKEN");
    hub.status = 404;
    fetch_fails(&org_name, "check the name");
    static const char *const bad[] = {"", "name", "a/b/c", "/a", "a/", "a/..", "a b/c", "a/b/"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct model_source source = {.hf_repo = bad[i], .quiet = true};
        fetch_fails(&source, "ORG/NAME");
    }
    struct model_source nothing = {0};
    fetch_fails(&nothing, "-hf");
    hub.status = 0;
    add_file(&hub, "../../../../evil-Q4_K_M.gguf", 10);
    fetch_fails(&org_name, "neither GGUF files nor safetensors");
    hub_close(&hub);
}

static void only_a_token_of_the_right_form_is_sent(void **state)
{
    (void)state;
    struct hub hub;
    hub_open(&hub);
    add_file(&hub, "m-Q8_0.gguf", 100);
    struct model_source source = {.hf_repo = "org/name", .hf_token = "secret", .quiet = true};
    free(fetch_ok(&source));
    assert_string_equal(hub.last_authorization, "");
    source.hf_token = "hf_0123456789abcdefghijklmnopqrstuvwxyz";
    free(fetch_ok(&source));
    assert_string_equal(hub.last_authorization, "Bearer hf_0123456789abcdefghijklmnopqrstuvwxyz");
    hub_close(&hub);
}

/* ---- Interruptions ---------------------------------------------------- */

static void an_interrupted_download_is_gone_on_with(void **state)
{
    (void)state;
    struct hub hub;
    hub_open(&hub);
    add_file(&hub, "m.gguf", 1000);
    hub.etag = "\"one\"";
    hub.cut_after = 300;
    char *url = text_format("%s/m.gguf", hub.server.url);
    char *path = text_format("%s/m.gguf", hub.folder);
    struct download download = {.url = url, .path = path, .quiet = true, .retry_ms = 1};
    struct error err = {0};
    if (!get(&download, &err))
        fail_msg("%s", err.message);
    assert_holds(path, &hub.contents[0]);
    assert_int_equal(hub.n_downloads, 4); /* 300, 300, 300, 100 */
    assert_string_equal(hub.last_range, "900-");
    /* once more: not changed, nothing is sent */
    assert_true(get(&download, &err));
    assert_int_equal(hub.n_downloads, 5);
    /* another file is there now */
    hub.etag = "\"two\"";
    hub.cut_after = 0;
    hub.contents[0].data[0] ^= 1;
    assert_true(get(&download, &err));
    assert_holds(path, &hub.contents[0]);
    /* and when nobody answers, what is there serves */
    hub_unplug(&hub);
    assert_true(get(&download, &err));
    free(path);
    free(url);
    hub_close(&hub);
}

static void bytes_of_another_version_are_not_mixed_in(void **state)
{
    (void)state;
    struct hub hub;
    hub_open(&hub);
    add_file(&hub, "m.gguf", 1000);
    char *url = text_format("%s/m.gguf", hub.server.url);
    char *path = text_format("%s/m.gguf", hub.folder);
    free(scratch_write(hub.folder, "m.gguf.downloadInProgress", SLICE("old bytes")));
    struct download download = {.url = url, .path = path, .quiet = true, .retry_ms = 1};
    struct error err = {0};
    assert_true(get(&download, &err)); /* of what these bytes are is not known */
    assert_holds(path, &hub.contents[0]);
    unlink(path);
    /* a server without ranges sends all again */
    free(scratch_write(hub.folder, "m.gguf.downloadInProgress", SLICE("old bytes")));
    free(scratch_write(hub.folder, "m.gguf.downloadInProgress.etag", SLICE("\"one\"")));
    hub.no_ranges = true;
    assert_true(get(&download, &err));
    assert_string_equal(hub.last_range, "9-");
    assert_holds(path, &hub.contents[0]);
    free(path);
    free(url);
    hub_close(&hub);
}

static void a_damaged_download_is_thrown_away(void **state)
{
    (void)state;
    struct hub hub;
    hub_open(&hub);
    add_file(&hub, "m-Q8_0.gguf", 1000);
    hub.lies = true;
    fetch_fails(&org_name, "checksum");
    struct cached_models models;
    assert_true(cache_list(&models, NULL));
    assert_int_equal(models.n, 0);
    cached_models_free(&models);
    hub.lies = false;
    char *path = fetch_ok(&org_name);
    assert_holds(path, &hub.contents[0]);
    free(path);
    hub_close(&hub);
}

static void a_download_that_gets_nowhere_gives_up(void **state)
{
    (void)state;
    struct hub hub;
    hub_open(&hub);
    hub.status = 503;
    char *url = text_format("%s/m.gguf", hub.server.url);
    char *path = text_format("%s/m.gguf", hub.folder);
    struct download download = {.url = url, .path = path, .quiet = true, .retry_ms = 1};
    struct error err = {0};
    assert_false(get(&download, &err));
    assert_non_null(strstr(err.message, "503"));
    assert_int_equal(hub.n_requests, 3);
    assert_false(path_exists(path));
    free(path);
    free(url);
    hub_close(&hub);
}

/* Two processes want the same file: one downloads it, the other finds it. */
static void two_processes_do_not_fight(void **state)
{
    (void)state;
    struct hub hub;
    hub_open(&hub);
    add_file(&hub, "m-Q8_0.gguf", 200000);
    fflush(NULL);
    hub_sync();
    pid_t pids[4];
    for (int i = 0; i < 4; i++) {
        pids[i] = fork();
        if (pids[i] == 0) {
            char *path;
            struct error err;
            _exit(model_source_fetch(&org_name, &path, &err) ? 0 : 1);
        }
    }
    for (int i = 0; i < 4; i++) {
        int status;
        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        assert_int_equal(status, 0);
    }
    hub_sync();
    assert_int_equal(hub.n_downloads, 1);
    hub_close(&hub);
}

/* ---- URLs and Docker -------------------------------------------------- */

static void urls_go_to_the_cache_or_where_the_path_says(void **state)
{
    (void)state;
    struct hub hub;
    hub_open(&hub);
    add_file(&hub, "m.gguf", 100);
    add_file(&hub, "s-00001-of-00002.gguf", 200);
    add_file(&hub, "s-00002-of-00002.gguf", 300);
    char *url = text_format("%s/m.gguf?download=true", hub.server.url);
    struct model_source source = {.url = url, .quiet = true};
    char *path = fetch_ok(&source), *want = text_format("%s/m.gguf", hub.folder);
    assert_string_equal(path, want);
    free(want);
    free(path);
    source.path = want = text_format("%s/deep/er/x.gguf", hub.folder);
    path = fetch_ok(&source);
    assert_string_equal(path, want);
    assert_holds(path, &hub.contents[0]);
    free(path);
    free(want);
    free(url);
    url = text_format("%s/s-00002-of-00002.gguf", hub.server.url);
    source = (struct model_source){.url = url, .quiet = true};
    path = fetch_ok(&source);
    want = text_format("%s/s-00001-of-00002.gguf", hub.folder);
    assert_string_equal(path, want);
    free(want);
    want = text_format("%s/s-00002-of-00002.gguf", hub.folder);
    assert_holds(want, &hub.contents[2]);
    free(want);
    free(path);
    source.offline = true;
    free(fetch_ok(&source));
    free(url);
    source.url = "http://127.0.0.1:1/none.gguf";
    fetch_fails(&source, "--offline");
    source.url = "file:///etc/passwd";
    fetch_fails(&source, "not an http(s) URL");
    hub_close(&hub);
}

static void answer_docker_in_turn(void *arg, const char *head, struct slice body, struct str *out)
{
    struct hub *hub = arg;
    char digest[65], json[512];
    (void)body;
    hex_sha256(str_slice(&hub->contents[0]), digest);
    if (strstr(head, "/token?"))
        put_reply(out, "200 OK", "", SLICE("{\"token\":\"t0ken\"}"));
    else if (!strstr(head, "Authorization: Bearer t0ken"))
        put_reply(out, "401 No", "", SLICE(""));
    else if (strstr(head, "/v2/ai/small/manifests/q4 ")) {
        snprintf(json, sizeof json,
                 "{\"layers\":[{\"mediaType\":\"text/license\",\"digest\":\"x\"},{\"mediaType\":"
                 "\"application/vnd.docker.ai.gguf.v3\",\"digest\":\"sha256:%s\"}]}",
                 digest);
        put_reply(out, "200 OK", "", slice_of(json));
    } else if (strstr(head, "/v2/ai/small/blobs/sha256:"))
        put_file(hub, head, str_slice(&hub->contents[0]), out);
    else
        put_reply(out, "404 No", "", SLICE(""));
}

static void answer_docker(void *arg, const char *head, struct slice body, struct str *out)
{
    pthread_mutex_lock(&hub_lock);
    answer_docker_in_turn(arg, head, body, out);
    pthread_mutex_unlock(&hub_lock);
}

static void docker_models_are_fetched_by_their_layer(void **state)
{
    (void)state;
    struct hub hub;
    hub_open(&hub);
    add_file(&hub, "layer", 500);
    hub.server.answer = answer_docker;
    struct docker_hosts hosts = {hub.server.url, hub.server.url};
    struct model_source source = {.docker_repo = "small:q4", .quiet = true};
    char *path = NULL;
    struct error err = {0};
    hub_sync();
    if (!docker_fetch(&hosts, &source, &path, &err))
        fail_msg("%s", err.message);
    char *want = text_format("%s/ai_small_q4.gguf", hub.folder);
    assert_string_equal(path, want);
    assert_holds(path, &hub.contents[0]);
    free(path);
    free(want);
    assert_true(docker_fetch(&hosts, &source, &path, &err));
    hub_sync();
    assert_int_equal(hub.n_downloads, 1);
    free(path);
    source.docker_repo = "other";
    assert_false(docker_fetch(&hosts, &source, &path, &err));
    source.docker_repo = "../x";
    assert_false(docker_fetch(&hosts, &source, &path, &err));
    assert_non_null(strstr(err.message, "names no Docker model"));
    hub_close(&hub);
}

/* ---- Places ----------------------------------------------------------- */

static void the_cache_is_where_the_environment_says(void **state)
{
    (void)state;
    static const char *const names[] = {"LLAMA_CACHE", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE",
                                        "HF_HOME", "XDG_CACHE_HOME"};
    static const char *const want[] = {
        "/x", "/x", "/x", "/x/hub", "/x/huggingface/hub", "/h/.cache/huggingface/hub"};
    for (size_t i = 0; i < 5; i++)
        setenv(names[i], "/x", 1);
    setenv("HOME", "/h", 1);
    for (size_t i = 0; i < 6; i++) {
        char *folder = cache_folder(NULL);
        assert_string_equal(folder, want[i]);
        free(folder);
        if (i < 5)
            unsetenv(names[i]);
    }
    setenv("LLAMA_CACHE", "/nowhere", 1);
    struct cached_models models;
    assert_true(cache_list(&models, NULL));
    assert_int_equal(models.n, 0);
    cached_models_free(&models);
}

static void checksums_are_of_both_kinds(void **state)
{
    (void)state;
    char *folder = scratch_make();
    char *path = scratch_write(folder, "f", SLICE("hello\n"));
    struct error err = {0};
    assert_true(checksum_verify(
        path, "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03", &err));
    assert_true(checksum_verify(path, "ce013625030ba8dba906f756967f9e9ca394464a", &err));
    assert_false(checksum_verify(path, "ce013625030ba8dba906f756967f9e9ca394464b", &err));
    assert_int_equal(err.code, ERR_FORMAT);
    assert_false(checksum_verify(path, "12", &err));
    free(path);
    scratch_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_layout_is_the_one_the_tools_share),
        cmocka_unit_test(quantizations_are_chosen_as_upstream_does),
        cmocka_unit_test(a_repository_of_safetensors_gives_its_folder),
        cmocka_unit_test(without_a_network_the_cache_serves),
        cmocka_unit_test(refusals_say_what_to_do),
        cmocka_unit_test(only_a_token_of_the_right_form_is_sent),
        cmocka_unit_test(an_interrupted_download_is_gone_on_with),
        cmocka_unit_test(bytes_of_another_version_are_not_mixed_in),
        cmocka_unit_test(a_damaged_download_is_thrown_away),
        cmocka_unit_test(a_download_that_gets_nowhere_gives_up),
        cmocka_unit_test(two_processes_do_not_fight),
        cmocka_unit_test(urls_go_to_the_cache_or_where_the_path_says),
        cmocka_unit_test(docker_models_are_fetched_by_their_layer),
        cmocka_unit_test(the_cache_is_where_the_environment_says),
        cmocka_unit_test(checksums_are_of_both_kinds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
