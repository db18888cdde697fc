/* api.h - the routes: JSON in, engine requests, events, JSON out.
 *
 * One struct api serves one model; its handlers run on the HTTP room's workers.
 * Depends on: base, text, model, sample, chat, engine, http, options. */
#ifndef MLXCEL_API_API_H
#define MLXCEL_API_API_H

#include "base/error.h"
#include "base/json.h"
#include "engine/engine.h"
#include "http/http.h"
#include "options/options.h"

#include <stdbool.h>

struct api;

/* The routes' own state. Options and engine must outlive it; the engine may
 * still be loading. Fails for options that contradict each other (a key file
 * without keys, a template that is no template, ...), naming them. */
bool api_create(const struct options *options, struct engine *engine, struct api **out,
                struct error *err);
/* After http_server_stop. NULL is fine. */
void api_free(struct api *api);

/* What http_server_start needs: address, keys, CORS, the route table with api
 * as its context. Points into api and its options. */
bool api_http_settings(struct api *api, struct http_settings *out, struct error *err);

/* The model is there: chat templates are loaded and probed, defaults that the
 * model recommends taken over. Called once, before http_server_ready. Fails for
 * a chat template that does not parse, a grammar or an id that the model's
 * vocabulary refuses. */
bool api_model_loaded(struct api *api, struct error *err);

/* The live tables as JSON, for the manifest: {"routes":[{"method","path"}],
 * "fields":[{"name","type","aliases",...}]}. NULL when out of memory; the caller
 * owns it. */
json_t *api_surface(void);

#endif
