/* conform_client.h - sending a recorded request, and an answer as JSON. */
#ifndef MLXCEL_CMD_CONFORM_CLIENT_H
#define MLXCEL_CMD_CONFORM_CLIENT_H

#include "base/json.h"

/* Send the request {"method", "path", "headers"?, "json" | "body" |
 * "body_latin1" | "form"?, "head_only"?} to base_url (http://HOST:PORT) and give
 * back {"status", "headers", "json" | "text" | "events"}. NULL with *err when no
 * answer came. Any thread; curl_global_init has been called. */
json_t *conform_send(const char *base_url, const json_t *request, struct error *err);

/* The status of a GET, 0 when nothing answers. */
long conform_probe(const char *base_url, const char *path);

#endif
