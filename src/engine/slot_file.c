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
 * A file is written beside its place and renamed into it, so that a reader
 * never sees half of one. */
#include "engine/internal.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#define SLOT_MAGIC "MLXCSLOT"

enum { SLOT_VERSION = 1, HEADER_BYTES = 40, CHECKED_FROM = 16 };

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

/* ---- writing ---- */

static bool build_file(struct engine *engine, const struct slot *slot, struct str *out,
                       struct error *err)
{
    unsigned char header[HEADER_BYTES] = {0};
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
    put_u64(bytes + 16, model_fingerprint(engine));
    put_u64(bytes + 24, slot->cache.n);
    put_u64(bytes + 32, out->len - before);
    put_u32(bytes + 12, checksum(bytes + CHECKED_FROM, out->len - CHECKED_FROM));
    return true;
}

static bool write_all(int fd, const char *data, size_t len)
{
    while (len) {
        ssize_t n = write(fd, data, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        data += n;
        len -= (size_t)n;
    }
    return true;
}

static bool write_atomically(const char *path, struct slice data, struct error *err)
{
    char *temporary = text_format("%s.%ld.tmp", path, (long)getpid());
    if (!temporary)
        return error_memory(err);
    int fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    bool ok = fd >= 0 && write_all(fd, data.data, data.len) && fsync(fd) == 0;
    int why = errno;
    if (fd >= 0 && close(fd) != 0 && ok) {
        why = errno;
        ok = false;
    }
    if (ok && rename(temporary, path) != 0) {
        why = errno;
        ok = false;
    }
    if (!ok) {
        unlink(temporary);
        error_set(err, ERR_IO, "Unable to save slot: %s: %s", path, strerror(why));
    }
    free(temporary);
    return ok;
}

/* ---- reading ---- */

static bool read_whole(const char *path, struct str *out, struct error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat info;
    if (fd < 0 || fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
        int why = fd < 0 ? errno : EINVAL;
        if (fd >= 0)
            close(fd);
        return error_set(err, ERR_INVALID, "%s",
                         why == ENOENT ? "No available space in KV cache or invalid slot save file"
                                       : strerror(why));
    }
    bool ok = str_reserve(out, (size_t)info.st_size);
    while (ok && out->len < (size_t)info.st_size) {
        ssize_t n = read(fd, out->data + out->len, (size_t)info.st_size - out->len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        out->len += (size_t)n;
    }
    close(fd);
    return ok || error_memory(err);
}

/* What a checked file holds; points into its bytes. */
struct slot_file {
    const unsigned char *tokens;
    uint64_t n_tokens;
    struct slice state;
};

static bool check_file(const struct engine *engine, struct slice file, struct slot_file *out,
                       struct error *err)
{
    const unsigned char *bytes = (const unsigned char *)file.data;
    if (file.len < HEADER_BYTES || memcmp(bytes, SLOT_MAGIC, 8) != 0)
        return error_set(err, ERR_INVALID, "not a slot file of this server");
    if (get_u32(bytes + 8) != SLOT_VERSION)
        return error_set(err, ERR_INVALID, "slot file version %u, this server reads %d",
                         get_u32(bytes + 8), SLOT_VERSION);
    uint64_t n_tokens = get_u64(bytes + 24);
    uint64_t n_state = get_u64(bytes + 32);
    uint64_t body = file.len - HEADER_BYTES;
    if (n_tokens > body / 4 || n_state != body - n_tokens * 4)
        return error_set(err, ERR_INVALID, "the slot file is truncated");
    if (get_u32(bytes + 12) != checksum(bytes + CHECKED_FROM, file.len - CHECKED_FROM))
        return error_set(err, ERR_INVALID, "the slot file is damaged (wrong checksum)");
    if (get_u64(bytes + 16) != model_fingerprint(engine))
        return error_set(err, ERR_INVALID, "the slot file belongs to another model or cache type");
    if (n_tokens > (uint64_t)engine->n_ctx_slot)
        return error_set(err, ERR_INVALID, "Restored prompt does not fit in the slot context");
    for (uint64_t i = 0; i < n_tokens; i++)
        if (get_u32(bytes + HEADER_BYTES + 4 * i) >= (uint32_t)engine->info.n_vocab)
            return error_set(err, ERR_INVALID, "Invalid tokens in slot save file");
    *out = (struct slot_file){bytes + HEADER_BYTES, n_tokens,
                              slice_from(file, HEADER_BYTES + (size_t)n_tokens * 4)};
    return true;
}

/* Put the file's cache into the slot; a failure leaves the slot as it was. */
static bool restore(struct engine *engine, struct slot *slot, const struct slot_file *file,
                    struct error *err)
{
    struct str backup = {0};
    struct token_vec tokens = {0};
    bool ok = VEC_RESERVE(&tokens, (size_t)file->n_tokens) &&
              kv_seq_save(engine->context, slot->id, &backup);
    if (!ok) {
        error_memory(err);
        goto out;
    }
    for (uint64_t i = 0; i < file->n_tokens; i++)
        tokens.data[tokens.n++] = (int32_t)get_u32(file->tokens + 4 * i);
    ok = kv_seq_load(engine->context, slot->id, file->state, err);
    if (ok && kv_seq_pos_max(engine->context, slot->id) + 1 != (int32_t)tokens.n)
        ok = error_set(err, ERR_INVALID, "the slot file's tokens and cache do not agree");
    if (!ok) {
        struct error ignored;
        if (!kv_seq_load(engine->context, slot->id, str_slice(&backup), &ignored))
            slot_forget_cache(engine, slot);
        goto out;
    }
    VEC_FREE(&slot->cache);
    checkpoints_free(&slot->checkpoints);
    slot->cache = tokens;
    slot->n_exact = 0; /* the file does not say */
    tokens = (struct token_vec){0};
out:
    VEC_FREE(&tokens);
    str_free(&backup);
    return ok;
}

/* ---- the commands ---- */

static bool save_slot(struct engine *engine, struct slot *slot, const char *path,
                      struct engine_event *event, struct error *err)
{
    struct str file = {0};
    bool ok = build_file(engine, slot, &file, err) && write_atomically(path, str_slice(&file), err);
    event->n_slot_tokens = (int32_t)slot->cache.n;
    event->n_bytes = file.len;
    str_free(&file);
    return ok;
}

static bool restore_slot(struct engine *engine, struct slot *slot, const char *path,
                         struct engine_event *event, struct error *err)
{
    struct str bytes = {0};
    struct slot_file file;
    bool ok = read_whole(path, &bytes, err) && check_file(engine, str_slice(&bytes), &file, err) &&
              restore(engine, slot, &file, err);
    if (!ok)
        error_prefix(err, "Unable to restore slot");
    event->n_slot_tokens = (int32_t)slot->cache.n;
    event->n_bytes = bytes.len;
    str_free(&bytes);
    return ok;
}

void slot_run_command(struct engine *engine, struct slot *slot, const struct command *command)
{
    struct engine_event *event = event_create(ENGINE_EVENT_SLOT, NULL, slot);
    if (!event) {
        mailbox_put(command->mailbox, NULL);
        return;
    }
    event->index = command->index;
    uint64_t begin = clock_monotonic_us();
    bool ok = true;
    switch (command->action) {
    case ENGINE_SLOT_SAVE:
        ok = save_slot(engine, slot, command->text, event, &event->error);
        break;
    case ENGINE_SLOT_RESTORE:
        ok = restore_slot(engine, slot, command->text, event, &event->error);
        break;
    case ENGINE_SLOT_ERASE:
        event->n_slot_tokens = (int32_t)slot->cache.n;
        slot_forget_cache(engine, slot);
        break;
    }
    event->t_ms = (double)(clock_monotonic_us() - begin) / 1000.0;
    event->success = ok;
    if (!ok)
        event->kind = ENGINE_EVENT_ERROR;
    mailbox_put(command->mailbox, event);
}
