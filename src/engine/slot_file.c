/* slot_file.c - a slot's cache as a file, and back.
 *
 * Layout, little endian:
 *   0   8  magic "MLXCSLOT"
 *   8   4  version (1)
 *   12  4  CRC-32 of everything after this field
 *   16  8  fingerprint of the model
 *   24  8  n_tokens
 *   32  8  bytes of state
 *   40     tokens (4 each), then the state as kv_seq_save wrote it
 * Files are read, checked and written by whoever asks, not by the scheduler, which
 * only copies between its cache and memory. What a file says of itself is checked
 * before more of it is read than that. */
#include "engine/internal.h"

#include "base/file.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <zlib.h>

#define SLOT_MAGIC "MLXCSLOT"

enum { SLOT_VERSION = 1, CHECKED_FROM = 16 };

static void put_u32(unsigned char *to, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        to[i] = (unsigned char)(value >> 8 * i);
}

static void put_u64(unsigned char *to, uint64_t value)
{
    put_u32(to, (uint32_t)value);
    put_u32(to + 4, (uint32_t)(value >> 32));
}

static uint32_t get_u32(const unsigned char *from)
{
    return (uint32_t)from[0] | (uint32_t)from[1] << 8 | (uint32_t)from[2] << 16 |
           (uint32_t)from[3] << 24;
}

static uint64_t get_u64(const unsigned char *from)
{
    return get_u32(from) | (uint64_t)get_u32(from + 4) << 32;
}

/* FNV-1a (Fowler, Noll, Vo) over what makes two caches interchangeable. */
static uint64_t model_fingerprint(const struct engine *engine)
{
    const struct model_info *info = &engine->info;
    char text[512];
    int n = snprintf(text, sizeof text, "%s|%s|%d|%d|%d|%" PRIu64 "|%" PRIu64 "|%d|%d", info->arch,
                     info->ftype, (int)info->n_vocab, (int)info->n_embd, (int)info->n_layers,
                     info->n_params, info->n_bytes, (int)engine->settings.context.type_k,
                     (int)engine->settings.context.type_v);
    uint64_t hash = 14695981039346656037u;
    for (int i = 0; i < n && i < (int)sizeof text; i++)
        hash = (hash ^ (unsigned char)text[i]) * 1099511628211u;
    return hash;
}

static uint32_t checksum(const unsigned char *data, size_t len)
{
    return (uint32_t)crc32_z(crc32_z(0, NULL, 0), data, len);
}

void slot_file_limits(const struct engine *engine, struct slot_file_limits *out)
{
    *out = (struct slot_file_limits){.fingerprint = model_fingerprint(engine),
                                     .n_ctx = engine->n_ctx_slot,
                                     .n_vocab = engine->info.n_vocab};
    context_kv_layout(engine->context, &out->layout);
}

/* ---- writing ---- */

bool slot_file_build(struct engine *engine, const struct slot *slot, struct str *out,
                     struct error *err)
{
    unsigned char header[SLOT_FILE_HEAD] = {0};
    str_append(out, header, sizeof header);
    for (size_t i = 0; i < slot->cache.n; i++) {
        unsigned char id[4];
        put_u32(id, (uint32_t)slot->cache.data[i]);
        str_append(out, id, sizeof id);
    }
    size_t before = out->len;
    if (out->failed || !kv_seq_save(engine->context, slot->id, out))
        return error_memory(err);
    unsigned char *bytes = (unsigned char *)out->data;
    memcpy(bytes, SLOT_MAGIC, 8);
    put_u32(bytes + 8, SLOT_VERSION);
    put_u64(bytes + 16, engine->file_limits.fingerprint);
    put_u64(bytes + 24, slot->cache.n);
    put_u64(bytes + 32, out->len - before);
    return true;
}

void slot_file_seal(struct str *file)
{
    unsigned char *bytes = (unsigned char *)file->data;
    put_u32(bytes + 12, checksum(bytes + CHECKED_FROM, file->len - CHECKED_FROM));
}

/* ---- reading ---- */

bool slot_file_check_head(const struct slot_file_limits *limits, const unsigned char *bytes,
                          uint64_t size, struct slot_file *out, struct error *err)
{
    *out = (struct slot_file){0};
    if (size < SLOT_FILE_HEAD || memcmp(bytes, SLOT_MAGIC, 8) != 0)
        return error_set(err, ERR_INVALID, "not a slot file of this server");
    if (get_u32(bytes + 8) != SLOT_VERSION)
        return error_set(err, ERR_INVALID, "slot file version %u, this server reads %d",
                         get_u32(bytes + 8), SLOT_VERSION);
    if (get_u64(bytes + 16) != limits->fingerprint)
        return error_set(err, ERR_INVALID, "the slot file belongs to another model or cache type");
    uint64_t n_tokens = get_u64(bytes + 24), n_state = get_u64(bytes + 32);
    if (n_tokens > (uint64_t)limits->n_ctx)
        return error_set(err, ERR_INVALID, "Restored prompt does not fit in the slot context");
    uint64_t body = size - SLOT_FILE_HEAD, n_ids = n_tokens * 4;
    if (n_ids > body || n_state != body - n_ids)
        return error_set(err, ERR_INVALID, "the slot file is truncated");
    out->n_tokens = (int32_t)n_tokens;
    out->n_state = n_state;
    return true;
}

/* That the state is as large as its own head says: as the size of the file was. */
static bool check_state_size(const struct slot_file_limits *limits, const struct slot_file *file,
                             const unsigned char *head, struct error *err)
{
    uint64_t want;
    if (file->n_state < KV_SAVED_HEAD_BYTES)
        return error_set(err, ERR_INVALID, "the slot file is truncated");
    if (!kv_saved_bytes(&limits->layout, head, file->n_tokens, &want, err)) {
        err->code = ERR_INVALID;
        return false;
    }
    return want == file->n_state || error_set(err, ERR_INVALID, "the slot file is truncated");
}

bool slot_file_check(const struct slot_file_limits *limits, struct slice bytes,
                     struct slot_file *out, struct error *err)
{
    const unsigned char *data = (const unsigned char *)bytes.data;
    if (!slot_file_check_head(limits, data, bytes.len, out, err))
        return false;
    out->tokens = data + SLOT_FILE_HEAD;
    out->state = slice_from(bytes, SLOT_FILE_HEAD + (size_t)out->n_tokens * 4);
    if (!check_state_size(limits, out, (const unsigned char *)out->state.data, err))
        return false;
    if (get_u32(data + 12) != checksum(data + CHECKED_FROM, bytes.len - CHECKED_FROM))
        return error_set(err, ERR_INVALID, "the slot file is damaged (wrong checksum)");
    for (int32_t i = 0; i < out->n_tokens; i++)
        if (slot_file_token(out, i) < 0 || slot_file_token(out, i) >= limits->n_vocab)
            return error_set(err, ERR_INVALID, "Invalid tokens in slot save file");
    return kv_saved_is_dense(out->state, out->n_tokens) ||
           error_set(err, ERR_INVALID, "the slot file's tokens and cache do not agree");
}

int32_t slot_file_token(const struct slot_file *file, int32_t i)
{
    return (int32_t)get_u32(file->tokens + 4 * (size_t)i);
}

/* Both heads, before anything is read or allocated by their word. */
static bool check_heads(const struct slot_file_limits *limits, int fd, const char *path,
                        uint64_t size, struct error *err)
{
    unsigned char head[SLOT_FILE_HEAD] = {0}, state[KV_SAVED_HEAD_BYTES] = {0};
    struct slot_file file;
    size_t n = size < sizeof head ? (size_t)size : sizeof head;
    if (!file_read_at(fd, path, head, n, 0, err) ||
        !slot_file_check_head(limits, head, size, &file, err))
        return false;
    uint64_t at = sizeof head + (uint64_t)file.n_tokens * 4;
    n = file.n_state < sizeof state ? (size_t)file.n_state : sizeof state;
    return file_read_at(fd, path, state, n, at, err) && check_state_size(limits, &file, state, err);
}

static bool read_checked(const struct slot_file_limits *limits, int fd, const char *path,
                         uint64_t size, struct slot_file *out, struct error *err)
{
    if (!check_heads(limits, fd, path, size, err))
        return false;
    char *bytes = malloc((size_t)size);
    if (!bytes)
        return error_memory(err);
    if (file_read_at(fd, path, bytes, (size_t)size, 0, err) &&
        slot_file_check(limits, (struct slice){bytes, (size_t)size}, out, err)) {
        out->bytes = bytes;
        out->n_bytes = (size_t)size;
        return true;
    }
    free(bytes);
    *out = (struct slot_file){0};
    return false;
}

bool slot_file_read(const struct slot_file_limits *limits, const char *path, struct slot_file *out,
                    struct error *err)
{
    int fd;
    struct stat info;
    *out = (struct slot_file){0};
    if (!file_open_regular(path, O_RDONLY, SIZE_MAX / 2, &fd, &info, err)) {
        if (err->code == ERR_NOT_FOUND)
            error_set(err, ERR_INVALID, "No available space in KV cache or invalid slot save file");
        err->code = ERR_INVALID;
        return false;
    }
    bool ok = read_checked(limits, fd, path, (uint64_t)info.st_size, out, err);
    close(fd);
    return ok;
}

void slot_file_free(struct slot_file *file)
{
    free(file->bytes);
    *file = (struct slot_file){0};
}
