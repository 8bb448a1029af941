/* Static in two translation units: no symbol may clash. */
#define ROCKMATE_STATIC
#define ROCKMATE_IMPLEMENTATION
#include "rockmate.h"
const char *from_a(void);
const char *from_b(void);
const char *from_a(void) { return rm_result_name(RM_OK); }
int main(void) { return strcmp(from_a(), from_b()) != 0; }
