/* conform_client.c - sending a recorded request through libcurl. */
#include "cmd/conform_client.h"

#include <ctype.h>
#include <curl/curl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { TIMEOUT_SECONDS = 120, REPLY_MAX_BYTES = 256 << 20 };

struct reply {
    struct str body;
    json_t *headers; /* lower-case name: text */
};

static size_t take_body(char *data, size_t size, size_t n, void *arg)
{
    struct reply *reply = arg;
    if (reply->body.len + size * n > REPLY_MAX_BYTES || !str_append(&reply->body, data, size * n))
        return 0;
    return size * n;
}

static size_t take_header(char *data, size_t size, size_t n, void *arg)
{
    struct reply *reply = arg;
    size_t len = size * n;
    char *colon = memchr(data, ':', len);
    if (!colon)
        return len;
    char *name = slice_duplicate((struct slice){data, (size_t)(colon - data)});
    struct slice value = {colon + 1, len - (size_t)(colon + 1 - data)};
    while (value.len && isspace((unsigned char)value.data[0]))
        value = slice_from(value, 1);
    while (value.len && isspace((unsigned char)value.data[value.len - 1]))
        value.len--;
    for (char *p = name; p && *p; p++)
        *p = (char)tolower((unsigned char)*p);
    if (name)
        json_object_set_new(reply->headers, name, json_string_from(value));
    free(name);
    return len;
}

/* ---- The request ------------------------------------------------------ */

struct outgoing {
    CURL *curl;
    struct str url, body;
    struct curl_slist *headers;
    curl_mime *form;
};

static void add_header(struct outgoing *out, const char *line)
{
    struct curl_slist *longer = curl_slist_append(out->headers, line);
    if (longer)
        out->headers = longer;
}

/* A text whose code points are bytes: how a recording holds bytes that are no
 * UTF-8. */
static void append_latin1(struct str *out, struct slice text)
{
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.data[i];
        if (c >= 0xC0 && i + 1 < text.len)
            c = (unsigned char)((c << 6) | ((unsigned char)text.data[++i] & 0x3F));
        str_append_char(out, (char)c);
    }
}

/* A form is {NAME: "text" | {"content", "filename"?, "type"?}}. */
static void set_form(struct outgoing *out, const json_t *form)
{
    json_t *fields = (json_t *)(uintptr_t)form;
    const char *name;
    json_t *field;
    out->form = curl_mime_init(out->curl);
    json_object_foreach(fields, name, field)
    {
        curl_mimepart *part = curl_mime_addpart(out->form);
        struct slice content =
            json_slice(json_is_object(field) ? json_object_get(field, "content") : field);
        curl_mime_name(part, name);
        curl_mime_data(part, content.data, content.len);
        if (json_object_get(field, "filename"))
            curl_mime_filename(part, json_string_value(json_object_get(field, "filename")));
        if (json_object_get(field, "type"))
            curl_mime_type(part, json_string_value(json_object_get(field, "type")));
    }
    curl_easy_setopt(out->curl, CURLOPT_MIMEPOST, out->form);
}

static void set_body(struct outgoing *out, const json_t *request, bool has_type)
{
    const json_t *json = json_object_get(request, "json");
    const json_t *body = json_object_get(request, "body");
    const json_t *latin1 = json_object_get(request, "body_latin1");
    const json_t *form = json_object_get(request, "form");
    if (form) {
        set_form(out, form);
        return;
    }
    if (json)
        json_append(&out->body, json);
    else if (body)
        str_append_slice(&out->body, json_slice(body));
    else if (latin1)
        append_latin1(&out->body, json_slice(latin1));
    if (json || body || latin1) {
        if (!has_type)
            add_header(out, "Content-Type: application/json");
        curl_easy_setopt(out->curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)out->body.len);
        curl_easy_setopt(out->curl, CURLOPT_POSTFIELDS, str_text(&out->body));
    } else if (strcmp(json_string_value(json_object_get(request, "method")), "POST") == 0) {
        curl_easy_setopt(out->curl, CURLOPT_POSTFIELDSIZE, 0L);
        curl_easy_setopt(out->curl, CURLOPT_POSTFIELDS, "");
    }
}

static void set_request(struct outgoing *out, const char *base_url, const json_t *request)
{
    const char *method = json_string_value(json_object_get(request, "method"));
    json_t *headers = json_object_get(request, "headers");
    const char *name;
    json_t *value;
    bool has_type = false;
    str_append_format(&out->url, "%s%s", base_url,
                      json_string_value(json_object_get(request, "path")));
    json_object_foreach(headers, name, value)
    {
        char *line = text_format("%s: %s", name, json_string_value(value));
        if (line)
            add_header(out, line);
        free(line);
        has_type = has_type || strcasecmp(name, "content-type") == 0;
    }
    add_header(out, "Expect:");
    set_body(out, request, has_type);
    curl_easy_setopt(out->curl, CURLOPT_URL, str_text(&out->url));
    curl_easy_setopt(out->curl, CURLOPT_CUSTOMREQUEST, method);
    if (strcmp(method, "HEAD") == 0)
        curl_easy_setopt(out->curl, CURLOPT_NOBODY, 1L);
    curl_easy_setopt(out->curl, CURLOPT_HTTPHEADER, out->headers);
}

static void set_manners(CURL *curl, struct reply *reply)
{
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take_body);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, reply);
    curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, take_header);
    curl_easy_setopt(curl, CURLOPT_HEADERDATA, reply);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT, (long)TIMEOUT_SECONDS);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_NOPROXY, "*");
    /* "/../secret" is asked for as it stands. */
    curl_easy_setopt(curl, CURLOPT_PATH_AS_IS, 1L);
    curl_easy_setopt(curl, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
}

/* ---- The answer ------------------------------------------------------- */

/* The value of a line "name: value" or "name:value"; false for another line. */
static bool field_of(struct slice line, const char *name, struct slice *value)
{
    size_t len = strlen(name);
    if (!slice_starts_with(line, slice_of(name)) || line.len <= len || line.data[len] != ':')
        return false;
    *value = slice_from(line, len + 1);
    if (value->len && value->data[0] == ' ')
        *value = slice_from(*value, 1);
    return true;
}

static void end_event(json_t *events, json_t **event, struct str *data)
{
    if (data->len > 0) {
        json_t *json = json_parse(str_slice(data), NULL);
        if (!*event)
            *event = json_object();
        if (json)
            json_object_set_new(*event, "data", json);
        else
            json_object_set_new(*event, "data_text", json_string_from(str_slice(data)));
    }
    if (*event)
        json_array_append_new(events, *event);
    *event = NULL;
    str_clear(data);
}

/* Server-sent events; comments (pings) are not events. */
static json_t *parse_events(struct slice body)
{
    json_t *events = json_array(), *event = NULL;
    struct str data = {0};
    while (body.len) {
        const char *end = memchr(body.data, '\n', body.len);
        struct slice line = {body.data, end ? (size_t)(end - body.data) : body.len};
        body = slice_from(body, line.len + (end != NULL));
        if (line.len && line.data[line.len - 1] == '\r')
            line.len--;
        struct slice value;
        if (line.len == 0) {
            end_event(events, &event, &data);
        } else if (field_of(line, "data", &value)) {
            if (data.len)
                str_append_char(&data, '\n');
            str_append_slice(&data, value);
        } else if (field_of(line, "event", &value)) {
            if (!event)
                event = json_object();
            json_object_set_new(event, "event", json_string_from(value));
        }
    }
    end_event(events, &event, &data);
    str_free(&data);
    return events;
}

/* Headers that recordings keep. */
static json_t *kept_headers(const json_t *all)
{
    static const char *const kept[] = {
        "content-type",
        "access-control-allow-origin",
        "access-control-allow-credentials",
        "access-control-allow-methods",
        "access-control-allow-headers",
    };
    json_t *headers = json_object();
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        json_t *value = json_object_get(all, kept[i]);
        if (value)
            json_object_set(headers, kept[i], value);
    }
    return headers;
}

static json_t *describe(const struct reply *reply, long status, bool head_only)
{
    json_t *response = json_object();
    struct slice type = json_slice(json_object_get(reply->headers, "content-type"));
    struct slice body = str_slice(&reply->body);
    json_object_set_new(response, "status", json_integer(status));
    json_object_set_new(response, "headers", kept_headers(reply->headers));
    if (head_only)
        return response;
    json_t *json = NULL;
    if (slice_starts_with(type, SLICE("text/event-stream")))
        json_object_set_new(response, "events", parse_events(body));
    else if (body.len && slice_starts_with(type, SLICE("application/json")) &&
             (json = json_parse(body, NULL)))
        json_object_set_new(response, "json", json);
    else
        json_object_set_new(response, "text", json_string_from(body));
    return response;
}

json_t *conform_send(const char *base_url, const json_t *request, struct error *err)
{
    struct outgoing out = {.curl = curl_easy_init()};
    struct reply reply = {.headers = json_object()};
    json_t *response = NULL;
    if (!out.curl || !reply.headers) {
        error_memory(err);
    } else {
        long status = 0;
        set_request(&out, base_url, request);
        set_manners(out.curl, &reply);
        CURLcode code = curl_easy_perform(out.curl);
        curl_easy_getinfo(out.curl, CURLINFO_RESPONSE_CODE, &status);
        if (code == CURLE_OK)
            response =
                describe(&reply, status, json_is_true(json_object_get(request, "head_only")));
        else
            error_set(err, ERR_IO, "no answer: %s", curl_easy_strerror(code));
    }
    curl_mime_free(out.form);
    curl_slist_free_all(out.headers);
    curl_easy_cleanup(out.curl);
    str_free(&out.url);
    str_free(&out.body);
    str_free(&reply.body);
    json_decref(reply.headers);
    return response;
}

long conform_probe(const char *base_url, const char *path)
{
    json_t *request = json_pack("{s:s, s:s, s:b}", "method", "GET", "path", path, "head_only", 1);
    json_t *response = request ? conform_send(base_url, request, NULL) : NULL;
    long status = (long)json_integer_value(json_object_get(response, "status"));
    json_decref(request);
    json_decref(response);
    return status;
}
