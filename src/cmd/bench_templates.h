/* bench_templates.h - what rendering a long conversation costs, without a model. */
#ifndef MLXCEL_CMD_BENCH_TEMPLATES_H
#define MLXCEL_CMD_BENCH_TEMPLATES_H

/* Render a made-up conversation of 200 messages with ten tools by every template
 * (*.jinja) of a folder, or by the one file that path is, and print a line each:
 * the prompt's size and the processor time of one request, which renders twice
 * (with the generation prompt and without, to find it). runs: how often; the
 * median counts. Returns the exit code: 1 when a template cannot be read. */
int bench_templates(const char *path, int runs);

#endif
