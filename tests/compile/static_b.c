#define ROCKMATE_STATIC
#define ROCKMATE_IMPLEMENTATION
#include "rockmate.h"
const char *from_b(void);
const char *from_b(void) { return rm_result_name(RM_OK); }
