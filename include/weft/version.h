/* Which weft this is: the headers' version here, the loaded library's from weft_version(). */
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

WEFT_END_DECLS

#endif /* WEFT_VERSION_H_ */
