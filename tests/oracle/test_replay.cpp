/* test_replay.cpp - small plans by hand, legal and not, one at least for each rule of docs/formats.md. */
#include "replay.cpp"

static int failures, cases;

/* s with the first `from` replaced; that it is there is part of the test. */
static std::string with(std::string s, const std::string &from, const std::string &to)
{
    const size_t at = s.find(from);
    if (at == std::string::npos) {
        ++failures;
        std::printf("no '%s' in:\n%s\n", from.c_str(), s.c_str());
        return s;
    }
    return s.replace(at, from.size(), to);
}

static rmtest::Result replay(const std::string &graph, const std::string &plan)
{
    rmtest::Result r;
    rmtest_replay("rockmate graph 1\n" + graph, "rockmate plan 1\n" + plan, rmtest::Options(), r);
    ++cases;
    return r;
}

static void expect(const char *name, bool good, const rmtest::Result &r)
{
    if (good) return;
    ++failures;
    std::printf("%s: verdict %d, time %llu, first %llu, arena %llu, live %llu, host %llu: %s\n", name, r.figures.verdict,
                static_cast<unsigned long long>(r.figures.time_ns), static_cast<unsigned long long>(r.figures.first_ns),
                static_cast<unsigned long long>(r.figures.arena_bytes), static_cast<unsigned long long>(r.figures.live_bytes),
                static_cast<unsigned long long>(r.figures.host_bytes), r.message.c_str());
}

static rmtest::Result legal(const char *name, const std::string &graph, const std::string &plan, uint64_t time_ns)
{
    const rmtest::Result r = replay(graph, plan);
    expect(name, r.legal && r.figures.time_ns == time_ns && r.message.empty(), r);
    return r;
}

/* The message holds `fact`. */
static void illegal(const char *name, const std::string &graph, const std::string &plan, const char *fact)
{
    const rmtest::Result r = replay(graph, plan);
    expect(name, r.figures.verdict == RMTEST_ILLEGAL && !r.legal && r.message.find(fact) != std::string::npos, r);
}

static void unreadable(const char *graph, const char *fact)
{
    const rmtest::Result r = replay(graph, "arena 0 host 0\n");
    expect(graph, r.figures.verdict == RMTEST_UNREADABLE && r.message.find(fact) != std::string::npos, r);
}

/* One layer and a loss, over a link of a byte a nanosecond. */
static const std::string G = "link h2d=1000000000 d2h=1000000000 add=500000000\n"
                             "tensor x input 100\n"
                             "tensor w param 100 state=50 opt=7 opt_host=9\n"
                             "op a in=x,w out=h:100 needs=x fwd=10 bwd=11\n"
                             "op l in=h out=l:4 needs=none fwd=5 bwd=6\n"
                             "output l\n";
static const std::string H = "arena 1000 host 1000\nresident x 0\nresident w 100\nresident state:w 200\n";
static const std::string FWD = "alloc h 300\nalloc l 400\nrun fwd a\nrun fwd l\n";
static const std::string BWD = "alloc grad:h 500\nrun bwd l\nalloc grad:w 600\nrun bwd a\n";
static const std::string OPT = "run opt w\n";
static const std::string P = H + FWD + BWD + OPT;

static void test_basics()
{
    const rmtest::Result r = legal("one layer", G, P, 39);
    expect("its figures", r.figures.first_ns == 39 && r.figures.compute_ns == 39 && r.figures.floor_ns == 32 && r.figures.arena_bytes == 700 &&
           r.figures.live_bytes == 554 && r.figures.host_bytes == 0 && r.figures.recomputed_ns == 0, r);
    legal("freed by hand", G, P + "free h\nfree grad:h\nfree grad:w\nfree x\n", 39);
    const std::string hash = rmtest::detail::Text("rockmate graph 1\n" + G).hash();
    legal("its graph", G, "graph " + hash + "\n" + P, 39);
    illegal("another graph", G + "anyorder\n", "graph " + hash + "\n" + P, "another graph");
    illegal("arena twice", G, "arena 1\n" + P, "stands twice");
    illegal("arena late", G, with(P, "arena 1000 host 1000\nresident x 0\n", "resident x 0\narena 1000 host 1000\n"), "before the arena was given");
    illegal("unknown statement", G, P + "move h 0\n", "line 15: move h 0: no statement");
    illegal("unknown buffer", G, P + "free q\n", "q is not declared");
    illegal("words left over", G, P + "free h h\n", "number of words");
    illegal("preamble after the start", G, P + "resident x 0\n", "no statement of a step");
    illegal("an activation has no place", G, with(P, "alloc h 300\n", "resident h 300\n"), "have a place");
    illegal("a place twice", G, with(P, "resident w", "resident x 900\nresident w"), "stands twice");
}

static void test_memory()
{
    illegal("overlap", G, with(P, "alloc h 300", "alloc h 201"), "overlap");
    illegal("residents overlap", G, with(P, "state:w 200", "state:w 199"), "overlap");
    illegal("past the end", G, with(P, "alloc h 300", "alloc h 901"), "past the end");
    illegal("allocated twice", G, with(P, "alloc h 300\n", "alloc h 300\nalloc h 800\n"), "there already");
    illegal("free of nothing", G, P + "free h\nfree h\n", "not on the device");
    illegal("read of freed bytes", G, with(P, "run fwd l\n", "free h\nrun fwd l\n"), "h is not on the device");
    illegal("read of unwritten bytes", G, with(P, "run fwd a\n", ""), "h holds nothing");
    illegal("no bytes for an output", G, with(P, "alloc l 400\n", ""), "l is not on the device");
    legal("bytes used again", G, with(P, "alloc grad:w 600", "free h\nalloc grad:w 300"), 39);
    const std::string W = with(G, "fwd=10 bwd=11", "fwd=10 bwd=11 fwd_ws=30");
    const std::string WP = with(P, "run fwd a\n", "alloc ws:a 700\nrun fwd a\nfree ws:a\n");
    legal("workspace", W, WP, 39);
    illegal("no workspace", W, P, "ws:a is not on the device");
    illegal("a workspace outlives its run", W, with(WP, "free ws:a\n", ""), "lives for one run");
    illegal("a workspace before another run", W, with(WP, "run fwd l\n", "alloc ws:a 700\nrun fwd l\n"), "no run that wants it");
    const std::string Z = with(G, "h:100", "h:0");
    const std::string ZP = with(with(P, "alloc h 300\n", ""), "alloc grad:h 500\n", "");
    legal("no bytes need no statement", Z, ZP, 39);
    illegal("no bytes must be written all the same", Z, with(ZP, "run fwd a\n", ""), "h holds nothing");
    const std::string E = with(with(G, "x input 100", "x input 100 external"), "opt_host=9", "opt_host=9 external");
    const std::string EP = "arena 1000 host 1000\n" + FWD + with(BWD, "alloc grad:w 600\n", "") + OPT;
    legal("the caller's memory", E, EP, 39);
    illegal("the caller's is not freed", E, EP + "free x\n", "the caller's");
    illegal("the caller's has no place", E, with(EP, "alloc h", "resident x 0\nalloc h"), "the caller's");
}

static void test_runs()
{
    const rmtest::Result r = legal("recomputation", G, with(P, "run fwd l\n", "run fwd l\nrun fwd a\n"), 49);
    expect("its time", r.figures.recomputed_ns == 10, r);
    legal("again=", with(G, "fwd=10", "fwd=10 again=3"), with(P, "run fwd l\n", "run fwd l\nrun fwd a\n"), 42);
    illegal("once", with(G, "bwd=11", "bwd=11 once"), with(P, "run fwd l\n", "run fwd l\nrun fwd a\n"), "runs once");
    illegal("once is not never", G + "tensor m const 4\nop q in=m out=z nograd once\n", P, "op q must run");
    illegal("no backward", G, with(P, "run bwd l\n", "run bwd l\nrun bwd l\n"), "had this share");
    illegal("gradient of the output incomplete", G, with(P, "run bwd l\n", ""), "grad:h holds nothing");
    illegal("no update", G, H + FWD + BWD, "w has not been updated");
    illegal("two updates", G, P + OPT, "updated already");
    illegal("update too early", G, with(H + FWD + OPT + BWD, "run opt", "alloc grad:w 600\nrun opt"), "grad:w holds nothing");
    illegal("forward after the update", G, P + "run fwd a\n", "w is updated already");
    illegal("an update that is not declared", with(G, " opt=7", ""), P, "not declared for this place");
    illegal("output gone", G, P + "free l\n", "l is an output");
    const std::string N = with(G, " opt=7 opt_host=9", ""), NP = H + FWD + BWD;
    legal("the caller updates", N, NP, 32);
    illegal("a share is missing", N, with(NP, "run bwd a\n", ""), "op a has not given");
    illegal("and wants the gradient", N, NP + "free grad:w\n", "grad:w is not complete in one place");
    illegal("wanted gradient of an input", with(G, "x input 100", "x input 100 grad"),
            with(P, "run bwd a", "alloc grad:x 700\nrun bwd a\nfree grad:x"), "grad:x is wanted");
    legal("frozen", with(G, " opt=7", " frozen opt=7"), H + FWD, 15);
    illegal("no backward in a forward step", G, with(P, "resident", "step forward\nresident"), "no backward to run");
    legal("forward step", G, with(H + FWD, "resident", "step forward\nresident"), 15);
}

static void test_consts()
{
    const std::string C = "tensor x input 8\ntensor c const 8\n"
                          "op r in=x,c out=a fwd=1\nop m in=x,c out=b mutates=c fwd=2\nop s in=x,c out=d fwd=4\nop n in=c out=e mutates=c fwd=8\n";
    const std::string A = "arena 100\nresident x 0\nresident c 8\nalloc a 16\nalloc b 24\nalloc d 32\nalloc e 40\n";
    const auto runs = [&A](const char *ops) {
        std::string s = A;
        for (; *ops; ++ops) s += std::string("run fwd ") + *ops + "\n";
        return s;
    };
    legal("in the order of declaration", C, runs("rmsn"), 15);
    legal("a mutator again, with either", C, runs("rmmsn"), 17);
    illegal("the old value after", C, runs("mrsn"), "c was changed by other ops");
    illegal("the new value before", C, runs("srmn"), "c was changed by other ops");
    illegal("mutators change places", C, runs("rnm"), "c was changed by other ops");
    illegal("a mutator again, after another", C, runs("rmsnm"), "c was changed by other ops");
    illegal("a mutator never runs", C, runs("rms"), "op n must run");
    illegal("at home in its old version", "link h2d=1 d2h=1\n" + C, with(with(runs("rmsn"), "arena 100", "arena 100 host 8"), "alloc a", "home c 0\nalloc a"), "stale");
}

static void test_saved_and_variants()
{
    const std::string S = with(G, "needs=x ", "needs=x,saved saved=8 ") + "variant a V saved=20 fwd=9 bits=other\nvariant a U saved=20 bwd=1\n";
    const std::string SP = with(P, "run fwd a\n", "alloc saved:a 700\nrun fwd a\n");
    legal("saved", S, SP, 39);
    illegal("not saved", S, P, "saved:a is not on the device");
    legal("saved by a recomputation", S, with(P, "run bwd a\n", "alloc saved:a 700\nrun fwd a\nrun bwd a\n"), 49);
    illegal("saved by another variant", S, with(SP, "run fwd a", "run fwd a@V"), "left by another variant");
    legal("of the variant that saved", S, with(with(SP, "run fwd a", "run fwd a@U"), "run bwd a", "run bwd a@U"), 29);
    illegal("of other bits", S, with(SP, "run bwd a", "run fwd a@V\nrun bwd a"), "other bits");
    illegal("too small for the variant", S, with(SP, "run bwd a", "run fwd a@U\nrun bwd a@U"), "too small");
    illegal("no such variant", S, with(SP, "run fwd a", "run fwd a@W"), "no variant");
    illegal("nothing leaves it", S, SP + "free saved:a\nalloc saved:a 700\n", "nothing uses it");
    const std::string X = with(G, "x input 100", "x input 100 grad") + "part a dX grads=x needs=w bwd=4\npart a dW grads=w needs=x bwd=3\n";
    const std::string XP = with(P, "run bwd a\n", "run bwd a:dW\nalloc grad:x 700\nfree h\nrun bwd a:dX\n");
    legal("parts in any order", X, XP, 35);
    illegal("a part is left out", X, with(XP, "run bwd a:dW\n", ""), "grad:w");
    illegal("a part twice", X, with(XP, "run bwd a:dW\n", "run bwd a:dW\nrun bwd a:dW\n"), "had this share");
    illegal("parts do not run as a whole", X, with(XP, "run bwd a:dW\n", "run bwd a\n"), "no such part");
}

/* Two layers with one weight, and a residual addition. */
static const std::string R = "link h2d=1000000000 d2h=1000000000 add=500000000\n"
                             "tensor x input 100\n"
                             "tensor w param 100\n"
                             "op a in=x,w out=h:100 needs=x fwd=1 bwd=2\n"
                             "op b in=h,w out=i:100 needs=h fwd=3 bwd=4 inplace=h inplace_bwd=h:i\n"
                             "op s in=h,i out=j:100 needs=none fwd=5 bwd=6 share_bwd=h,i inplace_bwd=i\n"
                             "op l in=j out=l:4 needs=j fwd=7 bwd=8 inplace_bwd=j:j\n";
static const std::string RH = "arena 1000 host 1000\nresident x 0\nresident w 100\n";
static const std::string RF = "alloc h 200\nalloc i 300\nalloc j 400\nalloc l 500\nrun fwd a\nrun fwd b\nrun fwd s\nrun fwd l\n";
static const std::string RL = "reuse grad:j j\nrun bwd l\n";
static const std::string RS = "alloc grad:i 600\nalloc grad:h 700\nrun bwd s\n";
static const std::string RB = "alloc grad:w 800\nrun bwd b\nrun bwd a\n";
static const std::string RP = RH + RF + RL + RS + RB;

static void test_sharing()
{
    legal("residual", R, RP, 36);
    legal("one shared, one written", R, with(RP, "alloc grad:i 600", "alias grad:i grad:j"), 36);
    const std::string both = with(RP, RS, "alias grad:h grad:j\nalias grad:i grad:j\nrun bwd s\n");
    illegal("no write while others are alive", R, both, "shares the bytes");
    illegal("nor while the output's gradient is", R, with(both, "alias grad:i grad:j", "alloc grad:i 600"), "shares the bytes");
    legal("shared for nothing", R, with(with(both, "alloc grad:w", "free grad:j\noffload grad:i 0\nfree grad:i\nalloc grad:i 700\nprefetch grad:i\nalloc grad:w"),
                                        "run bwd l", "run bwd l"), 230);
    illegal("not what is shared", R, with(RP, "alloc grad:i 600", "alias grad:x grad:j"), "does not share");
    illegal("shared too late", R, with(RP, "run bwd s\n", "run bwd s\nfree grad:i\nalias grad:i grad:j\n"), "grad:i holds nothing");
    legal("renamed", R, with(RP, "alloc grad:i 600\nalloc grad:h 700\n", "alloc grad:h 700\nreuse grad:i grad:j\n"), 36);
    legal("over what is read", R, with(RP, RS, "alias grad:i grad:j\nalloc grad:h 700\nrun bwd s\nfree grad:j\n"), 36);
    illegal("not declared to be in place", R, with(RP, "reuse grad:j j", "reuse grad:j i"), "may not take these bytes");
    illegal("the run is another", R, with(RP, "reuse grad:j j\nrun bwd l\n", "alloc grad:j 900\nreuse grad:h i\nrun bwd l\n"), "may not take these bytes");
    illegal("renamed, then no run", R, RP + "reuse grad:x x\n", "never came");
    const std::string A = "tensor x input 100\nop a in=x out=h:100 fwd=1\nop v in=h out=u:50 view=h+50 needs=none\nop b in=u out=y:40 fwd=2 inplace=u\noutput y\n";
    const std::string AP = "arena 1000 host 1000\nresident x 0\nalloc h 100\nrun fwd a\nalias u h\n";
    const rmtest::Result r = legal("view", A, AP + "free h\nreuse y u\nrun fwd b\n", 3);
    expect("its bytes", r.figures.arena_bytes == 200 && r.figures.live_bytes == 200, r);
    illegal("in place of what is shared", A, AP + "reuse y u\nrun fwd b\n", "other names share");
    illegal("larger than what it takes over", with(A, "y:40", "y:60"), AP + "free h\nreuse y u\nrun fwd b\n", "may not take these bytes");
    illegal("a variant that is not in place", A + "variant b N inplace=none\n", AP + "free h\nreuse y u\nrun fwd b@N\n", "may not take these bytes");
    legal("one that is", A + "variant b V fwd=5\n", AP + "free h\nreuse y u\nrun fwd b@V\n", 6);
    illegal("a view has no run", A, with(AP, "alias u h\n", "run fwd v\n"), "by alias");
    illegal("no view of this", A, with(AP, "alias u h", "alias u x"), "no view");
    illegal("a view of nothing", A, with(AP, "run fwd a\n", ""), "h holds nothing");
    illegal("the stretch stays taken", A, AP + "free h\nreuse y u\nrun fwd b\nalloc h 150\n", "overlap");
    const std::string V = "tensor x input 100 grad\nop v in=x out=u:100 view=x needs=none bwd=9\nop l in=u out=l:4 needs=none fwd=1 bwd=2\noutput l\n";
    const std::string VP = "arena 1000\nresident x 0\nalias u x\nalloc l 100\nrun fwd l\nalloc grad:u 200\nrun bwd l\n";
    legal("a view's gradient is renamed", V, VP + "reuse grad:x grad:u\nrun bwd v\n", 3);
    legal("or written", V, VP + "alloc grad:x 300\nrun bwd v\n", 12);
    const std::string smaller = with(V, "bwd=9", "bwd=9 inplace_bwd=x") + "grad u 120\n";
    legal("a rename at another size takes its time", smaller, VP + "reuse grad:x grad:u\nrun bwd v\n", 12);
    illegal("never by alias", V, VP + "alias grad:x grad:u\nrun bwd v\n", "does not share");
}

static void test_gradients()
{
    const std::string any = "anyorder\ntensor x input 9\ntensor w param 9\nop a in=x,w out=h:4 needs=x bwd=1\nop b in=x,w out=i:4 needs=x bwd=2\n";
    const std::string anyp = "arena 100\nresident x 0\nresident w 9\nalloc grad:w 18\nrun bwd a\nrun bwd b\n";
    legal("any order", any, anyp, 3);
    illegal("if it is said", with(any, "anyorder\n", ""), anyp, "reverse order");
    const std::string M = with(RP, "run bwd b\n", "run bwd b\noffload grad:w 0\nfree grad:w\nalloc grad:w 900\n");
    illegal("shares in two places", R, M, "grad:w is not complete in one place");
    const rmtest::Result r = legal("merged", R, M + "merge grad:w 100\n", 100 + 100 + 200);
    expect("its lanes", r.figures.d2h_ns == 200 && r.figures.host_ns == 200 && r.figures.host_bytes == 200, r);
    illegal("staging bytes are taken", R, M + "merge grad:w 50\n", "overlap");
    illegal("the same shares twice", R, with(RP, "run bwd b\n", "run bwd b\noffload grad:w 0\nmerge grad:w 100\n"), "same shares");
    illegal("merged with nothing", R, with(RP, "run bwd b\n", "run bwd b\nmerge grad:w 100\n"), "no shares in both");
    illegal("gradients of activations are not merged", R, with(RP, "run bwd s\n", "run bwd s\noffload grad:h 0\nmerge grad:h 100\n"), "only gradients of params");
    for (const char *kind : {"first", "middle"}) {
        const std::string step = with(with(RP, "resident", std::string("step ") + kind + "\nresident"), "alloc grad:w 800\n", "");
        legal("accumulation on the device", R, with(step, "alloc h", "resident grad:w 800\nalloc h"), 36);
        illegal("accumulation nowhere", R, with(step, "run bwd b\n", "alloc grad:w 800\nrun bwd b\n"), "grad:w");
    }
    const std::string home = with(with(RP, "resident", "step middle\nresident"), "alloc h", "home grad:w 0\nalloc h");
    legal("accumulation in host memory", R, home + "merge grad:w 100\n", 300);
    illegal("earlier shares are overwritten", R, home + "offload grad:w 0\n", "grad:w is not complete");
    const std::string last = with(P, "resident", "step last\nresident");
    illegal("the last step has earlier shares", G, last, "grad:w is not complete");
    legal("and finds them", G, with(with(last, "alloc grad:w 600\n", ""), "alloc h", "resident grad:w 600\nalloc h"), 39);
}

static void test_moves()
{
    const std::string off = "offload h 0\nfree h\nalloc h 800\n";
    legal("there and back", with(G, "needs=none", "needs=h"), with(P, "run bwd l\n", off + "prefetch h\nrun bwd l\n"), 234);
    illegal("back without bytes", G, with(P, "run bwd l\n", "offload h 0\nfree h\nprefetch h\nrun bwd l\n"), "h is not on the device");
    illegal("back from nowhere", G, with(P, "run bwd l\n", "free h\nalloc h 800\nprefetch h\nrun bwd l\n"), "not in host memory");
    illegal("dropped", G, with(P, "run bwd l\n", off + "drop_host h\nprefetch h\nrun bwd l\n"), "not in host memory");
    illegal("a copy of nothing", G, with(P, "run fwd a\n", "offload h 0\nrun fwd a\n"), "holds nothing");
    illegal("no link", with(G, "link h2d=1000000000 d2h=1000000000 add=500000000\n", ""), P + "offload h 0\n", "no link");
    illegal("past the end of host memory", G, P + "offload h 901\n", "past the end");
    illegal("overlap in host memory", G, P + "offload h 0\noffload x 99\n", "overlap");
    illegal("a weight must be back", G, P + "free w\n", "not there at the end");
    illegal("at its place", G, P + "offload w 0\nfree w\nalloc w 800\nprefetch w\n", "not there at the end");
    illegal("in its newest version", G, with(P, "alloc h", "home w 0\nalloc h"), "stale");
    legal("which is copied home", G, with(P, "alloc h", "home w 0\nalloc h") + "offload w 0\n", 7 + 100);
    legal("the next batch needs no copy", G, P + "free x\n", 39);
    const std::string host = with(P, "alloc h", "home w 0\nhome state:w 100\nalloc h");
    const std::string update = "offload grad:w 200\nrun opt w@host\nprefetch w\nprefetch state:w\n";
    const rmtest::Result r = legal("update on the host", G, with(host, OPT, update), 10 + 5 + 6 + 11 + 100 + 9 + 100);
    expect("its lanes", r.figures.host_ns == 9 && r.figures.h2d_ns == 150 && r.figures.first_ns == 32 + 100 + 9 + 150, r);
    illegal("without its gradient there", G, with(host, OPT, with(update, "offload grad:w 200\n", "")), "grad:w is not whole in host memory");
    illegal("the device keeps the old one", G, with(host, OPT, with(update, "prefetch w\n", "")), "stale");
}

static void test_updates()
{
    const std::string D = with(G, "opt=7", "reduce=3 opt=7");
    legal("reduced", D, with(P, OPT, "run reduce w\nrun opt w\n"), 42);
    illegal("not reduced", D, P, "grad:w is not reduced");
    illegal("reduced twice", D, with(P, OPT, "run reduce w\nrun reduce w\nrun opt w\n"), "reduced already");
    illegal("the host's copy is stale", D, with(with(P, "alloc h", "home w 0\nhome state:w 100\nalloc h"), OPT,
            "offload grad:w 200\nrun reduce w\nrun opt w@host\nprefetch w\nprefetch state:w\n"), "grad:w is not whole in host memory");
    const std::string B = G + "barrier clip ns=4\n";
    legal("barrier", B, with(P, OPT, "run barrier clip\nrun opt w\n"), 43);
    illegal("barrier after the update", B, P + "run barrier clip\n", "a barrier comes first");
    illegal("barrier before the gradients", B, with(P, BWD + OPT, "run barrier clip\n" + BWD + OPT), "grad:w is not complete");
    illegal("barrier twice", B, with(P, OPT, "run barrier clip\nrun barrier clip\nrun opt w\n"), "no barrier to pass");
    illegal("barrier before the reduction", with(B, "opt=7", "reduce=3 opt=7"), with(P, OPT, "run barrier clip\nrun reduce w\nrun opt w\n"), "not reduced");
}

static void test_lanes()
{
    const std::string T = "link h2d=1000000000 d2h=1000000000 latency=5\ntensor x input 100\nop a in=x out=h:100 fwd=50\nop b in=x out=i:100 fwd=70\n"
                          "op c in=h out=j:4 fwd=1\n";
    const std::string TP = "arena 1000 host 1000\nresident x 0\nalloc h 100\nrun fwd a\noffload h 0\nfree h\n";
    const rmtest::Result r = legal("copies run beside runs", T, TP + "alloc i 200\nrun fwd b\n", 155);
    expect("from empty lanes", r.figures.first_ns == 155 && r.figures.compute_ns == 120 && r.figures.d2h_ns == 105, r);
    legal("freed bytes wait for the copy", T, TP + "alloc i 150\nrun fwd b\n", 50 + 105 + 70);
    legal("and are free in part", T, with(TP, "free h\n", "free h\nalloc i 300\nrun fwd b\n") + "alloc h 100\nprefetch h\nalloc j 500\nrun fwd c\n", 50 + 105 + 105 + 1);
    legal("a home is read by the next step", T, "arena 1000 host 1000\nhome x 0\nalloc x 0\nprefetch x\nalloc h 100\nrun fwd a\n", 155);
    legal("early, with other bytes", T, "arena 1000 host 1000\nhome x 0\nalloc x 0\nprefetch x\nalloc h 100\nrun fwd a\nfree x\nalloc x 200\n", 155);
    const std::string slow = with(T, "h2d=1000000000 d2h=1000000000", "h2d=3 d2h=4611686018427387903");
    legal("rounded up", slow, "arena 1000 host 1000\nhome x 0\nalloc x 0\nprefetch x\n", 33333333334 + 5);
    rmtest::Options o;
    rmtest::Result s;
    o.link = "d2h=50000000,latency=0";
    rmtest_replay("rockmate graph 1\n" + T, "rockmate plan 1\n" + TP, o, s);
    expect("another link", s.legal && s.figures.d2h_ns == 2000, s);
}

static void test_reader()
{
    unreadable("op a in=x out=y\n", "x is not declared");
    unreadable("tensor x input 1\ntensor x const 1\n", "twice");
    unreadable("tensor none input 1\n", "not a name");
    unreadable("tensor x input 4611686018427387904\n", "2^62");
    unreadable("tensor x input 1 frozen\n", "unknown");
    unreadable("tensor x input 1\nop a in=x out=y fwd=1 fwd=2\n", "stands twice");
    unreadable("tensor x input 1\nop a in=x out=y view=x+1\n", "ends after");
    unreadable("tensor x input 1\nop a in=x out=y mutates=x\n", "only consts");
    unreadable("tensor x input 1\nop a in=x out=y\npart a p grads=x\n", "must be given");
    unreadable("tensor x input 1 grad\nop a in=x out=y\npart a p grads=none needs=none\n", "one part");
    unreadable("block a\n", "not ended");
    unreadable("end\n", "no block");
    unreadable("link h2d=0 d2h=1\n", "above zero");
    unreadable("tensor x input 1\noutput x\n", "outputs are activations");
    unreadable("what\n", "a name is missing");
    rmtest_result c;
    const std::string g = "rockmate graph 1 # one\n\n" + G, p = "rockmate plan 1\r\n" + P;
    if (rmtest_replay_c(g.data(), g.size(), p.data(), p.size(), 1000, 1000, &c) || c.time_ns != 39 || c.message[0]) ++failures;
    if (rmtest_replay_c(g.data(), g.size(), p.data(), p.size(), 999, 1000, &c) != RMTEST_ILLEGAL || !std::strstr(c.message, "over the budget")) ++failures;
    if (rmtest_replay_c(g.data(), g.size(), p.data(), p.size(), 1000, 999, &c) != RMTEST_ILLEGAL || !std::strstr(c.message, "host memory is over")) ++failures;
    if (rmtest_graph_c(g.data(), g.size(), &c) || c.floor_ns != 32) ++failures;
    cases += 4;
}

int main()
{
    test_basics();
    test_memory();
    test_runs();
    test_consts();
    test_saved_and_variants();
    test_sharing();
    test_gradients();
    test_moves();
    test_updates();
    test_lanes();
    test_reader();
    std::printf("%d passed, %d failed, 0 skipped\n", cases - failures, failures);
    return failures != 0;
}
