/* fuzz_slot_file.c - a byte that chooses a model, then a slot file, any bytes at all,
 * under a checksum that is right: it is refused with a reason, or its cells can be
 * restored, computed behind and saved again as the same bytes. */
#include "engine/internal.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { N_CELLS = 1024, N_CTX = 64, N_MODELS = 2, HEADS = SLOT_FILE_HEAD + KV_SAVED_HEAD_BYTES };

/* The seeds were written with this one in them. */
static const uint64_t fingerprint = UINT64_C(0x1122334455667788);

static struct {
    struct model_context *ctx;
    struct slot_file_limits limits;
} made[N_MODELS];

static void make(int which)
{
    static const char *const specs[N_MODELS] = {
        "llama:10m:f32:layers=2:embd=64:heads=4:kv_heads=2:ff=64:vocab=320",
        "gemma2:10m:f32:layers=2:embd=64:heads=4:kv_heads=2:ff=64:vocab=300:window=8",
    };
    static struct worker_pool *pool;
    struct worker_settings one = {.n_threads = 1};
    struct context_settings s = context_settings_default();
    struct model *model;
    struct error err;
    if ((!pool && !(pool = worker_pool_create(&one, &err))) ||
        !model_synthetic(specs[which], NULL, pool, &model, &err))
        abort();
    s.n_ctx = N_CELLS; /* more than a window takes: it gets a ring */
    s.n_batch = s.n_ubatch = 16;
    s.pool = pool;
    if (!context_create(model, &s, &made[which].ctx, &err))
        abort();
    made[which].limits = (struct slot_file_limits){
        .fingerprint = fingerprint, .n_ctx = N_CTX, .n_vocab = model_info(model)->n_vocab};
    context_kv_layout(made[which].ctx, &made[which].limits.layout);
}

/* The heads alone say no more than the whole does. */
static void check_heads(const struct slot_file_limits *limits, struct slice bytes, bool whole)
{
    unsigned char head[SLOT_FILE_HEAD] = {0};
    struct slot_file file;
    struct error err = {0};
    memcpy(head, bytes.data, bytes.len < sizeof head ? bytes.len : sizeof head);
    if (!slot_file_check_head(limits, head, bytes.len, &file, &err) && (whole || !err.message[0]))
        abort();
}

static void use(struct model_context *ctx, const struct slot_file *file)
{
    struct error err = {0};
    struct str again = {0};
    if (!kv_seq_load(ctx, 0, file->state, &err))
        abort(); /* what was checked can be loaded: nobody else holds cells */
    if (!kv_seq_save(ctx, 0, &again) || !slice_equal(str_slice(&again), file->state))
        abort();
    str_free(&again);
    int32_t token[] = {1}, pos[] = {file->n_tokens}, seq[] = {0};
    struct batch b = {1, token, pos, seq, NULL, NULL, NULL};
    if (!model_decode(ctx, &b, &err) && !err.message[0])
        abort();
    kv_seq_remove(ctx, 0, -1, -1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    int which = data[0] % N_MODELS;
    if (!made[which].ctx)
        make(which);
    struct str bytes = {0};
    struct slot_file file;
    struct error err = {0};
    if (!str_append(&bytes, data + 1, size - 1) || !str_reserve(&bytes, HEADS))
        abort();
    if (bytes.len >= SLOT_FILE_HEAD)
        slot_file_seal(&bytes);
    bool ok = slot_file_check(&made[which].limits, str_slice(&bytes), &file, &err);
    check_heads(&made[which].limits, str_slice(&bytes), ok);
    if (ok)
        use(made[which].ctx, &file);
    else if (err.code == ERR_NONE || !err.message[0])
        abort(); /* a refusal says why */
    str_free(&bytes);
    return 0;
}
