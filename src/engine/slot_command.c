/* slot_command.c - saving, restoring and erasing slots. */
#include "engine/internal.h"

#include "base/clock.h"
#include "base/file.h"

#include <stdlib.h>

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
    for (int32_t i = 0; i < file->n_tokens; i++)
        tokens.data[tokens.n++] = slot_file_token(file, i);
    ok = kv_seq_load(engine->context, slot->id, file->state, err);
    if (!ok) {
        struct error ignored;
        if (!kv_seq_load(engine->context, slot->id, str_slice(&backup), &ignored))
            slot_forget_cache(engine, slot);
        error_prefix(err, "Unable to restore slot");
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

/* What the slot holds goes along with the event; whoever takes that writes it. */
static bool save(struct engine *engine, struct slot *slot, const struct command *command,
                 struct engine_event *event)
{
    event->slot_path = slice_duplicate(slice_of(command->text));
    if (!event->slot_path)
        return error_memory(&event->error);
    event->saving = &engine->n_saving;
    atomic_fetch_add(event->saving, 1);
    return slot_file_build(engine, slot, &event->slot_file, &event->error);
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
        ok = save(engine, slot, command, event);
        event->n_bytes = event->slot_file.len;
        break;
    case ENGINE_SLOT_RESTORE:
        ok = restore(engine, slot, &command->file, &event->error);
        event->n_bytes = command->file.n_bytes;
        break;
    case ENGINE_SLOT_ERASE:
        break;
    }
    event->n_slot_tokens = (int32_t)slot->cache.n;
    if (command->action == ENGINE_SLOT_ERASE)
        slot_forget_cache(engine, slot);
    event->t_ms = (double)(clock_monotonic_us() - begin + command->t_read_us) / 1000.0;
    event->success = ok;
    if (!ok)
        event->kind = ENGINE_EVENT_ERROR;
    mailbox_put(command->mailbox, event);
}

void slot_save_release(struct engine_event *event)
{
    str_free(&event->slot_file);
    if (event->saving)
        atomic_fetch_sub(event->saving, 1);
    event->saving = NULL;
}

void engine_slot_save_finish(struct engine_event *event)
{
    if (event->kind != ENGINE_EVENT_SLOT || !event->slot_path)
        return;
    uint64_t begin = clock_monotonic_us();
    slot_file_seal(&event->slot_file);
    if (!file_replace(event->slot_path, str_slice(&event->slot_file), 0600, &event->error)) {
        error_prefix(&event->error, "Unable to save slot");
        event->kind = ENGINE_EVENT_ERROR;
        event->success = false;
    }
    event->t_ms += (double)(clock_monotonic_us() - begin) / 1000.0;
    slot_save_release(event);
}
