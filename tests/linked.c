/* The one object that the test programs link: linked.h. */
#define RMTEST_OBJECT
#include "linked.h"
#define ROCKMATE_IMPLEMENTATION
#include "rockmate.h"

struct rmtest_limits rmtest_limits = {0, 50000u, 10000u};
