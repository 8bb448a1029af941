/* The implementation alone: must compile without a warning in every language and standard that users have. */
#define ROCKMATE_IMPLEMENTATION
#include "rockmate.h"
int main(void) { return 0; }
