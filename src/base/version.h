/* version.h - what this program is, and which release its answers are those of. */
#ifndef MLXCEL_BASE_VERSION_H
#define MLXCEL_BASE_VERSION_H

/* The release of llama-server that answers are compared with. */
#define REFERENCE_RELEASE "b10621"

/* How answers name their server: clients of the reference read its release from
 * the beginning. */
#define SYSTEM_FINGERPRINT REFERENCE_RELEASE "-mlxcel-" MLXCEL_VERSION

#endif
