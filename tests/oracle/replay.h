/* replay.h - a second opinion on plans: replays a plan over a graph as docs/formats.md defines both.

   It shares no code with rockmate.h. C sees rmtest_replay_c; C++ also sees rmtest_replay. Nothing is kept between calls,
   so that several threads may call at once. */
#ifndef RMTEST_REPLAY_H
#define RMTEST_REPLAY_H

#include <stddef.h>
#include <stdint.h>

#define RMTEST_LEGAL 0
#define RMTEST_ILLEGAL 1
#define RMTEST_UNREADABLE 2

#define RMTEST_NO_BUDGET UINT64_MAX

typedef struct rmtest_result {
    int verdict;            /* RMTEST_LEGAL, RMTEST_ILLEGAL (the plan) or RMTEST_UNREADABLE (the graph) */
    char message[512];      /* the first offence: line, statement, fact; empty if legal */
    uint64_t time_ns;       /* a step in the steady state: the third's end less the second's */
    uint64_t first_ns;      /* the first step, from empty lanes */
    uint64_t compute_ns;    /* work on the compute lane in a step; likewise the six below */
    uint64_t h2d_ns;
    uint64_t d2h_ns;
    uint64_t host_ns;
    uint64_t comm_ns;
    uint64_t load_ns;
    uint64_t store_ns;
    uint64_t h2d_bytes;     /* copied to the device in a step; to host memory, from disk, to disk */
    uint64_t d2h_bytes;
    uint64_t load_bytes;
    uint64_t store_bytes;
    uint64_t floor_ns;      /* every forward and backward of the compute lane once, at its cheapest */
    uint64_t recomputed_ns; /* forwards after the first, in a step */
    uint64_t arena_bytes;   /* the highest byte of the arena that is used */
    uint64_t live_bytes;    /* the highest sum of live buffers on the device */
    uint64_t host_bytes;    /* the highest byte of host memory that is used */
    uint64_t pageable_bytes; /* of it, that is pageable */
    uint64_t disk_bytes;    /* the highest byte of the disk that is used */
} rmtest_result;

#ifdef __cplusplus
extern "C" {
#endif
/* Texts need no terminating zero. Returns out->verdict; RMTEST_NO_BUDGET: no limit. */
int rmtest_replay_c(const char *graph, size_t graph_len, const char *plan, size_t plan_len, uint64_t budget, uint64_t host_budget,
                    rmtest_result *out);
/* Reads the graph alone: RMTEST_LEGAL or RMTEST_UNREADABLE, and floor_ns. */
int rmtest_graph_c(const char *graph, size_t graph_len, rmtest_result *out);
#ifdef __cplusplus
}

#include <string>

namespace rmtest {

struct Options {
    uint64_t budget = RMTEST_NO_BUDGET;
    uint64_t host_budget = RMTEST_NO_BUDGET;
    std::string link; /* "h2d=…,d2h=…,latency=…,add=…": instead of the graph's */
};

struct Result {
    bool legal = false;
    std::string message;
    rmtest_result figures = rmtest_result();
};

} // namespace rmtest

/* Returns figures.verdict. */
int rmtest_replay(const std::string &graph_text, const std::string &plan_text, const rmtest::Options &options, rmtest::Result &result);
#endif
#endif
