/* folder.h - the parts of opening a Hugging Face folder. */
#ifndef MLXCEL_FILES_FOLDER_H
#define MLXCEL_FILES_FOLDER_H

#include "files/model_file.h"

/* FOLDER/NAME; the caller frees. NULL: out of memory. */
char *folder_path(const char *folder, const char *name);
bool folder_has(const char *folder, const char *name);
/* Whether a name from a file can only lead to an entry of the folder itself. */
bool folder_holds(const char *name);
/* Always false: why this folder is not a model, as helpfully as can be. */
bool folder_refuse(const char *folder, struct error *err);

/* Open PREFIX NAME and take its tensors, each with the prefix before its name. */
bool folder_add_safetensors(struct model_file *file, const char *prefix, const char *name,
                            const struct model_file_settings *settings, struct error *err);
/* Find the weights and take their tensors: what the index names where all of it is
 * there, else model.safetensors, else all safetensors that could be the model's. What
 * is unusual is said; a tensor that stands in two files with other bytes is an error. */
bool folder_add_weights(struct model_file *file, const struct model_file_settings *settings,
                        struct error *err);

#endif
