/* Which weft this is: the headers' version here, the loaded library's from weft_version(); and which structs the loaded
 * library has, for bindings that describe them in a language of their own. */
#ifndef WEFT_VERSION_H_
#define WEFT_VERSION_H_

#include "weft/types.h"

/* The version of the headers. */
#define WEFT_VERSION_MAJOR 0
#define WEFT_VERSION_MINOR 1
#define WEFT_VERSION_PATCH 0
#define WEFT_VERSION_STRING "0.1.0"

WEFT_BEGIN_DECLS

/* Version of the loaded library, major * 10000 + minor * 100 + patch. Any thread. */
WEFT_EXPORT int weft_version(void);

/* The size in bytes that a struct of weft's headers, "weft_call_t" say, has in the loaded library; 0 if that has none of
 * the name. If it is larger than yours, the library has fields that you do not know; if it is smaller, it does not have your
 * last ones (docs/abi.md). NULL is fine. Any thread. */
WEFT_EXPORT size_t weft_struct_size(const char* name);

WEFT_END_DECLS

#endif /* WEFT_VERSION_H_ */
