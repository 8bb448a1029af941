/* The second translation unit of user_api: the implementation. */
#define ROCKMATE_IMPLEMENTATION
#include "rockmate.h"
