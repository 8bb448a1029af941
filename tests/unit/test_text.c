/* test_text.c - the .rmg and .rmp readers and writers: round trips, messages with line and column, damage, lack of memory.

   cc -std=c99 -I. tests/unit/test_text.c -o build/test_text && build/test_text [../shared/instances]
*/
#define ROCKMATE_IMPLEMENTATION
#include "rockmate.h"

#include "../common.h"
#include "../data/plan_text.h"
#include <stdio.h>

static int failures, passes, skips;
#define CHECK(cond)                                                        \
    do {                                                                   \
        if (cond) {                                                        \
            passes++;                                                      \
        } else {                                                           \
            failures++;                                                    \
            printf("%s:%d: not so: %s\n", __FILE__, __LINE__, #cond);      \
        }                                                                  \
    } while (0)

/* --- text in memory */
typedef tm_text text;


/* --- samples */
static const char everything[] =
    "\t# a comment first\r\n"
    "rockmate  graph\t1 # then the header\r\n"
    "\n"
    "link d2h=007 h2d=5 latency=3\n"
    "tensor x input 64 grad external\n"
    "tensor w param 32 state=64 opt=9 opt_host=90 opt_ws=5 reduce=4 grad=16\n"
    "tensor f param 32 frozen external opt=1\n"
    "tensor run const 8\n"
    "anyorder\n"
    "block h\n"
    "block none.of\n"
    "op fc in=x,w,x out=h:64,aux:0 needs=aux,w,saved,x,w saved=12 fwd=5 bwd=6 fwd_ws=1 bwd_ws=2 saving_ws=0 bits=exact inplace=x inplace_bwd=x:saved,w:h\n"
    "variant fc fast fwd_ws=4 fwd=3 bits= zero_bwd=w,x,w inplace_bwd=none needs=none\n"
    "variant fc slow again=5 saving_ws=1 saved=0 needs=w,x,aux,saved # nothing new but again's default and saved\n"
    "variant fc over inplace=none fwd=5\n"
    "part fc dx grads=x needs=w,saved bwd=4\n"
    "part fc dw needs=x,none.t bwd=0 bwd_ws=7 grads=w\n";

static const char good[] =
    "\t# a comment first\r\n"
    "rockmate  graph\t1 # then the header\r\n"
    "\n"
    "link d2h=007 h2d=5 latency=3\n"
    "tensor x input 64 grad external\n"
    "tensor w param 32 state=64 opt=9 opt_host=90 opt_ws=5 reduce=4 grad=16\n"
    "tensor f param 32 frozen external opt=1\n"
    "tensor run const 8\n"
    "anyorder\n"
    "block h\n"
    "block none.of\n"
    "op fc in=x,w,x out=h,aux:0 needs=aux,w,saved,x,w saved=12 fwd=5 bwd=6 fwd_ws=1 bwd_ws=2 saving_ws=0 bits=exact inplace=x inplace_bwd=x:saved,w:h\n"
    "variant fc fast fwd_ws=4 fwd=3 bits= zero_bwd=w,x,w inplace_bwd=none needs=none\n"
    "variant fc slow again=5 saving_ws=1 saved=0 needs=w,x,aux,saved # nothing new but saved: again is 5 anyway\n"
    "variant fc over inplace=none fwd=5 again=8\n"
    "part fc dx grads=x needs=w,saved bwd=4\n"
    "part fc dw needs=x,aux bwd=0 bwd_ws=7 grads=w\n"
    "part fc@over all needs=none grads=w,x\n"
    "end\n"
    "op relu in=h out=r needs=saved,h,r inplace_bwd=h rng once mutates=run\n"
    "op sum in=r,h out=s needs=none same_bwd=h,r share_bwd=h,r nograd external\n"
    "end\n"
    "op v in=r out=vr:60 view=r+4\n"
    "tensor late const 1\n"
    "op loss in=vr out=l:4 needs=vr,l again=2 fwd=2 zero_bwd=vr\n"
    "variant loss two zero_bwd=vr bwd=1\n"
    "variant loss writes zero_bwd=none\n"
    "grad h 65\n"
    "grad r 64\n"
    "barrier b2 ns=5\n"
    "barrier b1\n"
    "output l s\n"
    "output r\n"
    "tensor last input 0";

static const char canonical[] =
    "rockmate graph 1\n"
    "link h2d=5 d2h=7 latency=3\n"
    "anyorder\n"
    "tensor x input 64 grad external\n"
    "tensor w param 32 grad=16 state=64 opt=9 opt_host=90 opt_ws=5 reduce=4\n"
    "tensor f param 32 opt=1 frozen external\n"
    "tensor run const 8\n"
    "block h\n"
    "block none.of\n"
    "op fc in=x,w,x out=h,aux:0 needs=x,w,aux,saved saved=12 fwd=5 bwd=6 fwd_ws=1 saving_ws=0 bwd_ws=2 inplace=x inplace_bwd=x:saved,w:h bits=exact\n"
    "part fc dx grads=x needs=w,saved bwd=4\n"
    "part fc dw grads=w needs=x,aux bwd_ws=7\n"
    "variant fc fast needs=none fwd=3 fwd_ws=4 inplace_bwd=none zero_bwd=x,w bits=\n"
    "variant fc slow saved=0 saving_ws=1\n"
    "variant fc over again=8 inplace=none\n"
    "part fc@over all grads=x,w needs=none\n"
    "grad h 65\n"
    "end\n"
    "op relu in=h out=r inplace_bwd=h mutates=run rng once\n"
    "op sum in=r,h out=s needs=none share_bwd=r,h same_bwd=r,h nograd external\n"
    "end\n"
    "op v in=r out=vr:60 view=r+4\n"
    "tensor late const 1\n"
    "op loss in=vr out=l:4 needs=vr,l fwd=2 zero_bwd=vr\n"
    "variant loss two bwd=1\n"
    "variant loss writes zero_bwd=none\n"
    "tensor last input 0\n"
    "barrier b2 ns=5\n"
    "barrier b1\n"
    "output r s l\n";

/* --- reading what is right */
static void round_trip(const char *what, const char *s, size_t n)
{
    rm_graph *g = NULL, *h = NULL;
    text one, two;
    uint64_t statements;
    memset(&one, 0, sizeof one);
    memset(&two, 0, sizeof two);
    if (rm_graph_read(s, n, NULL, &g) != RM_OK) {
        failures++;
        printf("%s: %s\n", what, rm_graph_error(g));
        rm_graph_destroy(g);
        return;
    }
    CHECK(rm_graph_write(g, tm_sink, &one) == RM_OK);
    CHECK(rm_graph_read(one.s, one.n, NULL, &h) == RM_OK);
    CHECK(rm_graph_write(h, tm_sink, &two) == RM_OK);
    CHECK(one.n == two.n && !memcmp(one.s, two.s, one.n));
    CHECK(rm_graph_op_count(g) == rm_graph_op_count(h) && rm_graph_tensor_count(g) == rm_graph_tensor_count(h));
    statements = rmi_fnv(RMI_FNV_START, one.s, one.n);
    CHECK(rmi_txt_graph_hash(h) == statements);
    g->hashed = 0;
    CHECK(rmi_txt_graph_hash(g) == statements);
    if (rm_graph_result(h)) printf("%s: %s\n", what, rm_graph_error(h));
    rm_graph_destroy(g);
    rm_graph_destroy(h);
    tm_clear(&one);
    tm_clear(&two);
}

static void test_canonical(void)
{
    rm_graph *g;
    text out;
    memset(&out, 0, sizeof out);
    CHECK(rm_graph_read(good, sizeof good - 1, NULL, &g) == RM_OK);
    if (rm_graph_result(g)) printf("%s\n", rm_graph_error(g));
    CHECK(rm_graph_write(g, tm_sink, &out) == RM_OK);
    CHECK(out.s && !strcmp(out.s, canonical));
    if (out.s && strcmp(out.s, canonical)) printf("--- written:\n%s", out.s);
    CHECK(g->hashed && g->hash != rmi_fnv(RMI_FNV_START, canonical, sizeof canonical - 1)); /* 007 is 7, but not in the hash */
    CHECK(rm_graph_write(g, tm_full_sink, NULL) == RM_ERROR_WRITE);
    CHECK(rm_graph_write(g, NULL, NULL) == RM_ERROR_ARGUMENT);
    rm_graph_destroy(g);
    tm_clear(&out);
    round_trip("good", good, sizeof good - 1);
    round_trip("canonical", canonical, sizeof canonical - 1);
    CHECK(rm_graph_read(everything, sizeof everything - 1, NULL, &g) == RM_ERROR_TEXT);
    CHECK(strstr(rm_graph_error(g), "17:20: found 'none.t', expected an input or output of op fc") != NULL);
    CHECK(!rm_graph_op_count(g) && !rm_graph_tensor_count(g));
    rm_graph_destroy(g);
}

/* What the hash is of: words joined by one blank, a newline after each statement. */
static void test_hash(void)
{
    static const char loose[] = "# c\n rockmate\tgraph  1\r\n\ntensor x   input 08 #\r\nop a in=x out=y";
    static const char tight[] = "rockmate graph 1\ntensor x input 08\nop a in=x out=y\n";
    rm_graph *g;
    CHECK(rm_graph_read(loose, sizeof loose - 1, NULL, &g) == RM_OK);
    CHECK(rmi_txt_graph_hash(g) == rmi_fnv(RMI_FNV_START, tight, sizeof tight - 1));
    rm_graph_link(g, 1000, 1000, 0, 0); /* given beside the text: plans still belong to that */
    CHECK(g->has_link && rmi_txt_graph_hash(g) == rmi_fnv(RMI_FNV_START, tight, sizeof tight - 1));
    rm_graph_destroy(g);
}

/* --- a graph from the builder */
static void test_builder(void)
{
    rm_graph *g = rm_graph_create(NULL);
    rm_kind conv, add, view;
    rm_op_desc d;
    rm_param_desc p;
    rm_tensor x, w, h, y;
    text out;
    memset(&out, 0, sizeof out);
    memset(&conv, 0, sizeof conv);
    memset(&add, 0, sizeof add);
    memset(&view, 0, sizeof view);
    conv.name = "conv";
    conv.needs = RM_IN(0) | RM_IN(1);
    conv.inplace = RM_IN(0);
    conv.part[0].name = "dx";
    conv.part[0].grads = RM_IN(0);
    conv.part[0].needs = RM_IN(1);
    conv.part[1].name = "dw";
    conv.part[1].grads = RM_IN(0) | RM_IN(1); /* the input has no gradient: said twice, that is no error here */
    conv.over[0].grad_of = RM_IN(0);
    conv.over[0].bytes_of = RM_DOUT;
    add.name = "add";
    add.needs = RM_NOTHING;
    add.share_grad = RM_IN(0) | RM_IN(1);
    view.name = "view";
    view.view = RM_IN(0);
    x = rm_input_add(g, "x", 100, 0);
    memset(&p, 0, sizeof p);
    p.name = "w";
    p.bytes = 50;
    p.update_ns = 7;
    rm_block_begin(g, "h");
    w = rm_param_add(g, &p);
    memset(&d, 0, sizeof d);
    d.in[0] = x;
    d.in[1] = w;
    d.out[0] = 100;
    h = rm_op_add(g, &conv, &d);
    conv.name = "winograd";
    conv.inplace = 0; /* a variant that cannot do what its op can */
    memset(conv.part, 0, sizeof conv.part);
    memset(&d, 0, sizeof d);
    d.fwd_ns = 3;
    d.fwd_ws = 1000;
    d.bits = "wino";
    rm_variant_add(g, h, &conv, &d);
    rm_block_end(g);
    memset(&d, 0, sizeof d);
    d.in[0] = h;
    d.in[1] = h;
    y = rm_op_add(g, &add, &d);
    memset(&d, 0, sizeof d);
    d.in[0] = y;
    d.out[0] = 10;
    d.view_offset = 20;
    y = rm_op_add(g, &view, &d);
    rm_grad_bytes(g, h, 200);
    rm_output_add(g, y);
    CHECK(rm_graph_write(g, tm_sink, &out) == RM_OK);
    if (rm_graph_result(g)) printf("%s\n", rm_graph_error(g));
    CHECK(out.s && strstr(out.s, "op h[0]/conv.0 in=x,h[0]/w out=h[0]/conv.0 needs=x,h[0]/w fwd=") != NULL);
    CHECK(out.s && strstr(out.s, "part h[0]/conv.0 dw grads=x,h[0]/w needs=") != NULL);
    CHECK(out.s && strstr(out.s, "inplace=none bits=wino\n") != NULL);
    round_trip("built", out.s, out.n);
    tm_clear(&out);
    rm_graph_destroy(g);

    g = rm_graph_create(NULL); /* flags of tensors that are given */
    memset(&d, 0, sizeof d);
    memset(&p, 0, sizeof p);
    p.name = "w", p.bytes = 4, p.flags = RM_FROZEN | RM_STAYS;
    d.in[0] = rm_input_add(g, "x", 4, RM_EXTERNAL | RM_STAYS | RM_INPUT_GRAD);
    d.in[1] = rm_param_add(g, &p);
    rm_const_add(g, "c", RM_EMPTY, RM_EXTERNAL);
    rm_op_add(g, &add, &d);
    CHECK(rm_graph_write(g, tm_sink, &out) == RM_OK && strstr(out.s, "tensor x input 4 grad external stays\n"));
    CHECK(out.s && strstr(out.s, "tensor w param 4 frozen stays\n") && strstr(out.s, "tensor c const 0 external\n"));
    tm_clear(&out);
    rm_graph_destroy(g);

    g = rm_graph_create(NULL); /* a class of bits with a name that text cannot hold */
    memset(&d, 0, sizeof d);
    d.in[0] = d.in[1] = rm_input_add(g, "x", 4, 0);
    d.bits = "two words";
    rm_op_add(g, &add, &d);
    CHECK(rm_graph_write(g, tm_sink, &out) == RM_ERROR_GRAPH);
    CHECK(strstr(rm_graph_error(g), "two words") != NULL);
    rm_graph_destroy(g);
    tm_clear(&out);
}

/* --- reading what is wrong: after these five lines, the sixth is bad */
static const char before[] =
    "rockmate graph 1\n"
    "tensor x input 8\n"
    "tensor w param 4\n"
    "tensor c const 4\n"
    "op a in=x,w out=h,z:2 needs=x\n";

typedef struct bad {
    const char *line;
    unsigned column;
    const char *found, *expected;
} bad;

static const bad bads[] = {
    {"opp b in=h out=k", 1, "found 'opp'", "one of link ranks tier tensor op"},
    {"  resident w 0", 3, "found 'resident'", "one of link"},
    {"rockmate graph 1", 1, "found 'rockmate'", "one of link"},
    {"\xC2\xA0op b in=h out=k", 1, "found '\\xC2\\xA0op'", "one of link"},
    {"op b in=h\rout=k", 10, "found the end of the statement", "out=NAME[:BYTES]"},
    {"op b in=h\fout=k", 9, "found 'h\\x0Cout=k'", "tensor that is declared above"},
    {"op", 3, "op '': not a name", "1 to 255"},
    {"op none in=h out=k", 4, "op 'none': not a name", "neither 'none' nor 'saved'"},
    {"op saved in=h out=k", 4, "op 'saved'", "not a name; take"},
    {"op b:1 in=h out=k", 4, "op 'b:1'", "not a name; take"},
    {"op a in=h out=k", 4, "op a: declared twice", "another name"},
    {"op b in=h out=k out=l", 17, "found 'out=l'", "'out=' only once"},
    {"op b in=h out=k rng fwd=1 rng", 27, "found 'rng'", "'rng' only once"},
    {"op b in=h out=k fwd=1 speed=2", 23, "found 'speed=2'", "one of in= out= needs="},
    {"op b in=h out=k rng=1", 17, "found 'rng=1'", "one of in="},
    {"op b in=h out=k fwd", 17, "found 'fwd'", "one of in="},
    {"op b in=h", 10, "found the end of the statement", "out=NAME[:BYTES]"},
    {"op b in=q out=k", 9, "found 'q'", "tensor that is declared above"},
    {"op b in=h,q,x out=k", 11, "found 'q'", "tensor that is declared above"},
    {"op b in=h,,x out=k", 11, "found nothing", "tensor that is declared above"},
    {"op b in=h, out=k", 11, "found nothing", "tensor that is declared above"},
    {"op b in=h,none out=k", 11, "found 'none'", "tensor that is declared above"},
    {"op b in= out=k", 9, "found nothing", "tensor that is declared above"},
    {"op b in=k out=k", 9, "found 'k'", "tensor that is declared above"},
    {"op b in=h out=h", 15, "tensor h: declared twice", "another name"},
    {"op b in=h out=k,k", 17, "tensor k: declared twice", "another name"},
    {"op b in=h out=k:", 17, "found nothing", "a decimal integer below 2^62"},
    {"op b in=h out=k:1k", 17, "found '1k'", "a decimal integer below 2^62"},
    {"op b in=h out=k:-1", 17, "found '-1'", "a decimal integer"},
    {"op b in=h out=k:4611686018427387904", 17, "found '4611686018427387904'", "a decimal integer below 2^62"},
    {"op b in=h out=k:99999999999999999999999999", 17, "found '99999999999999999999999999'", "a decimal integer below 2^62"},
    {"op b in=h out=none", 15, "found 'none'", "at least one output"},
    {"op b in=h out=saved", 15, "tensor 'saved'", "not a name; take"},
    {"op b out=k", 10, "found 'k'", "NAME:BYTES"},
    {"op b in=h out=k fwd=", 21, "found nothing", "a decimal integer"},
    {"op b in=h out=k fwd=0x1", 21, "found '0x1'", "a decimal integer"},
    {"op b in=h out=k bwd= fwd=1", 21, "found nothing", "a decimal integer"},
    {"op b in=h out=k needs=x", 23, "found 'x'", "an input or output of op b"},
    {"op b in=h out=k needs=h,q", 25, "found 'q'", "an input or output of op b"},
    {"op b in=h out=k inplace=x", 25, "found 'x'", "an input of op b"},
    {"op b in=h out=k inplace=k", 25, "found 'k'", "an input of op b"},
    {"op b in=h out=k inplace=none", 25, "found 'none'", "an input of op b"},
    {"op b in=h out=k inplace_bwd=x", 29, "found 'x'", "an input of op b"},
    {"op b in=h out=k inplace_bwd=h:x", 31, "found 'x'", "an input or output of op b"},
    {"op b in=h out=k inplace_bwd=h:k,h", 33, "found 'h'", "each gradient only once"},
    {"op b in=h out=k same_bwd=k", 26, "found 'k'", "an input of op b"},
    {"op b in=h out=k zero_bwd=k", 26, "found 'k'", "an input of op b"},
    {"op b in=h out=k zero_bwd=h inplace_bwd=h", 4, "op b: the gradient of h arrives zeroed (zero_grads, in text zero_bwd)", "drop one of the two"},
    {"op b in=h out=k share_bwd=k", 27, "found 'k'", "an input of op b"},
    {"op b in=h out=k share_bwd=saved", 27, "found 'saved'", "an input of op b"},
    {"op b in=h out=k view=x", 22, "found 'x'", "an input of op b"},
    {"op b in=h out=k view=h+1", 4, "op b: its view ends at byte 9 of h, which has 8", "correct its offset or its size"},
    {"op b in=h out=k view=h+", 24, "found nothing", "a decimal integer"},
    {"op b in=h out=k:1,l:1 view=h", 4, "op b: a view has one output, this has 2", "give one size"},
    {"op b in=h out=k mutates=w", 25, "found 'w'", "a const"},
    {"op b in=h out=k mutates=c,q", 27, "found 'q'", "tensor that is declared above"},
    {"op b in=h out=k bits=a+b", 22, "found 'a+b'", "a name"},
    {"op b in=h out=k bits=", 22, "found nothing", "a name"},
    {"tensor", 7, "found the end of the statement", "one of input param const"},
    {"tensor y inputs 4", 10, "found 'inputs'", "one of input param const"},
    {"tensor y act 4", 10, "found 'act'", "one of input param const"},
    {"tensor y input", 15, "found the end of the statement", "a decimal integer"},
    {"tensor y input 4 # 5\n", 0, "", ""}, /* right, to see that the table is */
    {"tensor h input 4", 8, "tensor h: declared twice", "another name"},
    {"tensor y input 4 state=1", 18, "found 'state=1'", "one of external grad"},
    {"tensor y const 4 grad", 18, "found 'grad'", "one of external stays"},
    {"tensor y param 4 grad", 18, "found 'grad'", "one of external frozen grad= state="},
    {"tensor y param 4 opt=1 opt=2", 24, "found 'opt=2'", "'opt=' only once"},
    {"tensor y param 4 reduce=", 25, "found nothing", "a decimal integer"},
    {"link h2d=1", 11, "found the end of the statement", "'d2h=' above zero"},
    {"link h2d=0 d2h=1", 10, "found '0'", "'h2d=' above zero"},
    {"link h2d=1 d2h=1 add=0", 22, "found '0'", "'add=' above zero"},
    {"link h2d=1 d2h=1 duplex", 18, "found 'duplex'", "one of h2d= d2h= latency= add="},
    {"variant b v fwd=1", 9, "found 'b'", "an op that is declared above"},
    {"variant h v fwd=1", 9, "found 'h'", "an op that is declared above"},
    {"variant a", 10, "op a: variant ''", "no usable name; set another"},
    {"variant a v in=x", 13, "found 'in=x'", "one of needs= saved= fwd="},
    {"variant a v rng", 13, "found 'rng'", "one of needs="},
    {"variant a v needs=c", 19, "found 'c'", "an input or output of op a"},
    {"part a p grads=w", 17, "found the end of the statement", "needs="},
    {"part a p needs=none", 20, "found the end of the statement", "grads="},
    {"part a p grads=h needs=none", 16, "found 'h'", "an input of op a"},
    {"part a p grads=saved needs=none", 16, "found 'saved'", "an input of op a"},
    {"part a p grads=w needs=none again=1", 29, "found 'again=1'", "one of grads= needs= bwd="},
    {"part a@v p grads=w needs=none", 8, "found 'v'", "a variant of op a"},
    {"part a@ p grads=w needs=none", 8, "found nothing", "a variant of op a"},
    {"grad x 4", 6, "found 'x'", "an activation"},
    {"grad q 4", 6, "found 'q'", "tensor that is declared above"},
    {"grad h", 7, "found the end of the statement", "a decimal integer"},
    {"grad h 4 5", 10, "found '5'", "the end of the statement"},
    {"output w", 8, "found 'w'", "an activation"},
    {"output h z h", 12, "found 'h'", "each output only once"},
    {"output", 7, "found the end of the statement", "tensor that is declared above"},
    {"barrier", 8, "barrier '': not a name", "names are 1 to 255"},
    {"barrier b ns=", 14, "found nothing", "a decimal integer"},
    {"barrier b at=3", 11, "found 'at=3'", "only ns="},
    {"anyorder 1", 10, "found '1'", "the end of the statement"},
    {"block", 6, "block '': not a name", "take 1 to 255"},
    {"block none", 7, "block 'none': not a name", "neither 'none' nor"},
    {"block h i", 9, "found 'i'", "the end of the statement"},
    {"  block h", 9, "block h: it is never ended", "an end"},
    {"end", 1, "end: no block is open", "needs its block"},
};

static void expect(const char *s, size_t n, unsigned line, unsigned column, const char *found, const char *expected)
{
    rm_graph *g = NULL;
    char at[64];
    rm_result r = rm_graph_read(s, n, NULL, &g);
    const char *message = rm_graph_error(g);
    snprintf(at, sizeof at, "%u:%u: ", line, column);
    if (!column ? r != RM_OK : r != RM_ERROR_TEXT || rm_graph_result(g) != r || strncmp(message, at, strlen(at)) || !strstr(message, found) || !strstr(message, expected) || rm_graph_op_count(g) || rm_graph_tensor_count(g)) {
        failures++;
        printf("%.*s\n  wanted %s%s, expected %s\n  got    %s\n", (int)n, s, at, found, expected, message);
    } else {
        passes++;
    }
    rm_graph_destroy(g);
}

static void test_bad_lines(void)
{
    char all[2048];
    size_t i;
    for (i = 0; i < sizeof bads / sizeof bads[0]; i++) {
        int n = snprintf(all, sizeof all, "%s%s\n# more\n", before, bads[i].line);
        expect(all, (size_t)n, 6, bads[i].column, bads[i].found, bads[i].expected);
    }
}

static void test_bad_texts(void)
{
    static const struct {
        const char *text;
        unsigned line, column;
        const char *found, *expected;
    } all[] = {
        {"", 1, 1, "found the end of the text", "'rockmate graph 1'"},
        {"\n\n# nothing\n", 4, 1, "found the end of the text", "'rockmate graph 1'"},
        {"# nothing", 1, 10, "found the end of the text", "'rockmate graph 1'"},
        {"rockmate", 1, 9, "found the end of the text", "'rockmate graph 1'"},
        {"rockmate plan 1\n", 1, 10, "found 'plan'", "'rockmate graph 1'"},
        {"\n rockmate graph 2\n", 2, 17, "found '2'", "this library reads version 1"},
        {"rockmate graph 1 1\n", 1, 18, "found '1'", "the end of the statement"},
        {"\xEF\xBB\xBFrockmate graph 1\n", 1, 1, "found '\\xEF\\xBB\\xBFrockmate'", "'rockmate graph 1'"},
        {"rockmate graph 1\n", 2, 1, "graph: it has no op", "add the layers"},
        {"rockmate graph 1\nlink h2d=1 d2h=1\nlink h2d=1 d2h=1\n", 3, 1, "found 'link'", "one link only"},
        {"rockmate graph 1\ntensor x input 4\nop a in=x out=y\nvariant a v\nvariant a v\n", 5, 11, "op a: variant 'v' is there already", "set another"},
        {"rockmate graph 1\ntensor x input 4\nop a in=x out=y\npart a p grads=x needs=none\npart a p grads=none needs=none\n", 5, 8, "op a: part p is declared twice", "another name"},
        {"rockmate graph 1\ntensor x input 4 grad\nop a in=x out=y\npart a p grads=x needs=none\npart a q grads=x needs=none\n", 3, 4, "op a: the gradient of x stands in 2 parts", "exactly one"},
        {"rockmate graph 1\ntensor x input 4 grad\nop a in=x out=y\npart a p grads=none needs=none\n", 3, 4, "op a: the gradient of x stands in 0 parts", "exactly one"},
        {"rockmate graph 1\ntensor x input 4\nop a in=x out=y\ngrad y 3\ngrad y 3\n", 5, 6, "found 'y'", "only once"},
        {"rockmate graph 1\nbarrier b\nbarrier b\n", 3, 9, "barrier b: declared twice", "another name"},
        {"rockmate graph 1\nop a out=x:1\nblock b\nblock c\nend\n", 3, 7, "block b: it is never ended", "an end"},
        {"rockmate graph 1\nop a out=x:4611686018427387903,y:4611686018427387903\n", 3, 1, "graph: all sizes together", "2^62"},
    };
    static const char zero[] = "rockmate graph 1\ntensor a\0b input 4\n";
    char name[400];
    size_t i;
    for (i = 0; i < sizeof all / sizeof all[0]; i++) expect(all[i].text, strlen(all[i].text), all[i].line, all[i].column, all[i].found, all[i].expected);
    expect(zero, sizeof zero - 1, 2, 8, "found 'a\\x00b'", "text without zero bytes");
    memset(name, 'n', sizeof name);
    memcpy(name, "rockmate graph 1\ntensor ", 24);
    memcpy(name + 24 + 256, " input 4\n", 9);
    expect(name, 24 + 256 + 9, 2, 8, "tensor 'nnnn", "not a name; take 1 to 255");
    memcpy(name + 24 + 255, " input 4\nop a out=b:1\n", 22);
    expect(name, 24 + 255 + 22, 0, 0, "", "");
}

/* --- damage: no text crashes the reader (the sanitizers look), and what it takes it can write */
static void read_any(const char *s, size_t n)
{
    char *exact = (char *)malloc(n ? n : 1); /* so that a read past the end is seen */
    rm_graph *g = NULL;
    if (!exact) return;
    memcpy(exact, s, n);
    if (rm_graph_read(exact, n, NULL, &g) == RM_OK) {
        free(exact);
        exact = NULL;
        round_trip("damaged", s, n);
    } else {
        CHECK(rm_graph_error(g)[0] && !rm_graph_op_count(g));
    }
    rm_graph_destroy(g);
    free(exact);
}

static void test_damage(void)
{
    static const char bytes[] = {0, '\n', ' ', '#', ',', ':', '=', '0', 'x', '\r', '@', '+', (char)0xFF};
    size_t i, k, n = sizeof good - 1;
    char *copy = (char *)malloc(n);
    CHECK(copy != NULL);
    if (!copy) return;
    for (i = 0; i <= n; i++) read_any(good, i);
    for (i = 0; i < n; i++)
        for (k = 0; k < sizeof bytes; k++) {
            memcpy(copy, good, n);
            copy[i] = bytes[k];
            read_any(copy, n);
        }
    for (i = 0; i < n; i++) { /* without one byte */
        memcpy(copy, good, n);
        memmove(copy + i, copy + i + 1, n - i - 1);
        read_any(copy, n - 1);
    }
    free(copy);
}

/* --- lack of memory */
typedef struct budget {
    size_t left, live;
} budget;
static void *budget_alloc(size_t n, void *user)
{
    budget *b = (budget *)user;
    if (!b->left) return NULL;
    b->left--;
    b->live++;
    return malloc(n);
}
static void budget_free(void *p, void *user)
{
    ((budget *)user)->live--;
    free(p);
}
static int count_sink(void *user, const char *s, size_t n)
{
    (void)s;
    *(size_t *)user += n;
    return 0;
}

/* Reads with k allocations for k = 0, 1, ... until they suffice. */
static void memory_of(const char *s, size_t n, size_t canonical_n)
{
    size_t k, written, last = 0;
    rm_graph *g;
    rm_graph_desc d;
    budget b;
    memset(&d, 0, sizeof d);
    d.allocator.alloc = budget_alloc;
    d.allocator.free = budget_free;
    d.allocator.user = &b;
    for (k = 0; !last; k++) {
        rm_result r;
        b.left = k;
        b.live = 0;
        g = NULL;
        written = 0;
        r = rm_graph_read(s, n, &d, &g);
        CHECK(r == RM_OK || r == RM_ERROR_MEMORY);
        CHECK(r == RM_OK || !g || (rm_graph_result(g) == r && !rm_graph_op_count(g)));
        if (r == RM_OK) {
            last = k;
            b.left = 0; /* writing takes none */
            CHECK(rm_graph_write(g, count_sink, &written) == RM_OK && (!canonical_n || written == canonical_n));
        }
        rm_graph_destroy(g);
        CHECK(!b.live);
    }
    CHECK(last > 1);
}

static void test_memory(void)
{
    size_t i, written = 0;
    rm_graph *g;
    text many;
    memory_of(good, sizeof good - 1, sizeof canonical - 1);
    memset(&many, 0, sizeof many);
    tm_sink(&many, "rockmate graph 1\ntensor x input 8\n", 34);
    for (i = 0; i < 700; i++) { /* large enough that every kind of table grows */
        char line[300];
        int n = snprintf(line, sizeof line, "block h\nop o%u in=x out=t%u\nvariant o%u v needs=x\nvariant o%u u\npart o%u p grads=x needs=none\nbarrier b%u\nend\noutput t%u\ntensor c%u const %u\n",
                         (unsigned)i, (unsigned)i, (unsigned)i, (unsigned)i, (unsigned)i, (unsigned)i, (unsigned)i, (unsigned)i, (unsigned)i);
        tm_sink(&many, line, (size_t)n);
    }
    memory_of(many.s, many.n, 0);
    tm_clear(&many);
    CHECK(rm_graph_read(good, sizeof good - 1, NULL, NULL) == RM_ERROR_ARGUMENT);
    CHECK(rm_graph_read(NULL, 5, NULL, &g) == RM_ERROR_ARGUMENT);
    rm_graph_destroy(g);
    CHECK(rm_graph_write(NULL, count_sink, &written) == RM_ERROR_ARGUMENT);
}

/* --- plans */
static const char plan_middle[] =
    "rockmate plan 1\n"
    "arena 1024 host 256\n"
    "step middle\n"
    "resident x 0\n"
    "resident w 64\n"
    "resident first 96\n"
    "resident out.w 112\n"
    "resident grad:out.w 344\n"
    "resident grad:first 352\n"
    "home grad:w 0\n"
    "home state:w 128\n"
    "alloc a 128\n"
    "alloc ws:first 512\n"
    "alloc saved:first 320\n"
    "run fwd first\n"
    "free ws:first\n"
    "alloc r 400\n"
    "run fwd relu\n"
    "free a\n"
    "alloc s 192\n"
    "run fwd fc\n"
    "alloc t 256\n"
    "run fwd res\n"
    "free s\n"
    "alias tv t\n"
    "alloc l 120\n"
    "run fwd loss\n"
    "alloc grad:tv 192\n"
    "run bwd loss\n"
    "free tv\n"
    "free t\n"
    "reuse grad:t grad:tv\n"
    "run bwd v\n"
    "alias grad:s grad:t\n"
    "alloc grad:r 256\n"
    "run bwd res\n"
    "free grad:t\n"
    "run bwd fc\n"
    "free grad:s\n"
    "alloc grad:a 512\n"
    "run bwd relu\n"
    "free r\n"
    "free grad:r\n"
    "alloc ws:first 640\n"
    "alloc grad:w 368\n"
    "run bwd first:dw\n"
    "free ws:first\n"
    "merge grad:w 64\n"
    "free grad:w\n";

static rm_graph *read_graph(const char *s)
{
    rm_graph *g = NULL;
    if (rm_graph_read(s, strlen(s), NULL, &g) != RM_OK) {
        failures++;
        printf("%s\n", rm_graph_error(g));
    }
    return g;
}

static rm_result read_plan(rm_graph *g, const char *s, size_t n, rmi_arena *mem, rmi_program *p, rmi_error *err)
{
    rm_result r;
    memset(err, 0, sizeof *err);
    r = rmi_txt_read_program(g, s, n, mem, p, err);
    CHECK(r == err->result && (r == RM_OK || (!p->n && !p->st && !p->n_homes)));
    return r;
}

static void write_plan(const rm_graph *g, const rmi_program *p, text *out)
{
    rmi_sink s;
    s.write = tm_sink;
    s.user = out;
    s.failed = 0;
    CHECK(rmi_txt_write_program(g, p, &s) == RM_OK);
}

/* Reads a plan, writes it, reads that and writes it again: same bytes, same figures. */
static void plan_round_trip(const char *what, const rm_graph *g, const char *s, size_t n, rmi_figures *fig)
{
    rmi_arena mem = rmi_arena_make(NULL);
    rmi_error err;
    rmi_program p, q;
    text one, two;
    memset(&one, 0, sizeof one);
    memset(&two, 0, sizeof two);
    if (read_plan(g, s, n, &mem, &p, &err) != RM_OK) {
        failures++;
        printf("%s: %s\n", what, err.text);
    } else {
        write_plan(g, &p, &one);
        CHECK(read_plan(g, one.s, one.n, &mem, &q, &err) == RM_OK);
        write_plan(g, &q, &two);
        CHECK(one.n == two.n && !memcmp(one.s, two.s, one.n));
        CHECK(p.n == q.n && p.n_homes == q.n_homes && p.arena == q.arena && !memcmp(p.host, q.host, sizeof p.host) && p.step == q.step);
        CHECK(!memcmp(&p.fig, &q.fig, sizeof p.fig));
        if (fig) *fig = p.fig;
    }
    rmi_arena_free(&mem);
    tm_clear(&one);
    tm_clear(&two);
}

static void test_plan_good(void)
{
    rm_graph *g = read_graph(plan_graph);
    rmi_figures f;
    rmi_arena mem = rmi_arena_make(NULL);
    rmi_program p;
    rmi_error err;
    text out;
    size_t body = strlen("rockmate plan 1\n");
    memset(&out, 0, sizeof out);
    memset(&f, 0, sizeof f);
    plan_round_trip("single", g, plan_single, sizeof plan_single - 1, &f);
    CHECK(f.time_ns == 303 && f.live_bytes == 392 && f.arena_top == 640 && f.host_top[0] == 192); /* what the referee says */
    plan_round_trip("middle", g, plan_middle, sizeof plan_middle - 1, &f);
    CHECK(f.time_ns == 46 && f.first_ns == 81 && f.live_bytes == 356);
    CHECK(read_plan(g, plan_single, sizeof plan_single - 1, &mem, &p, &err) == RM_OK);
    write_plan(g, &p, &out); /* the same but for the graph's hash */
    CHECK(out.n == sizeof plan_single - 1 + strlen("graph 0123456789abcdef\n"));
    CHECK(!strncmp(out.s + body, "graph ", 6) && !strcmp(out.s + body + 23, plan_single + body));
    rmi_arena_free(&mem);
    tm_clear(&out);
    rm_graph_destroy(g);
}

/* What is no plan, and what is one that is not legal. */
static const struct {
    const char *text;
    unsigned line, column;
    rm_result result;
    const char *found, *expected;
} bad_plans[] = {
    {"", 1, 1, RM_ERROR_TEXT, "found the end of the text", "'rockmate plan 1'"},
    {"rockmate graph 1\n", 1, 10, RM_ERROR_TEXT, "found 'graph'", "'rockmate plan 1'"},
    {"rockmate plan 2\n", 1, 15, RM_ERROR_TEXT, "found '2'", "reads version 1"},
    {"rockmate plan 1\n", 2, 1, RM_ERROR_PLAN, "the end of the text", ""},
    {"rockmate plan 1\ngraph 12\n", 2, 7, RM_ERROR_TEXT, "found '12'", "16 hexadecimal digits"},
    {"rockmate plan 1\ngraph 0123456789ABCDEF\n", 2, 7, RM_ERROR_TEXT, "found '0123456789ABCDEF'", "16 hexadecimal digits"},
    {"rockmate plan 1\ngraph 0123456789abcdef\n", 2, 7, RM_ERROR_PLAN, "found '0123456789abcdef', expected '", "for another graph"},
    {"rockmate plan 1\nresident x 0\n", 2, 1, RM_ERROR_TEXT, "found 'resident'", "'arena BYTES' before"},
    {"rockmate plan 1\narena 9\narena 9\n", 3, 1, RM_ERROR_TEXT, "found 'arena'", "once each"},
    {"rockmate plan 1\narena\n", 2, 6, RM_ERROR_TEXT, "found the end of the statement", "a decimal integer"},
    {"rockmate plan 1\narena 9 guest 1\n", 2, 9, RM_ERROR_TEXT, "found 'guest'", "'host BYTES'"},
    {"rockmate plan 1\narena 9 host\n", 2, 13, RM_ERROR_TEXT, "found the end of the statement", "a decimal integer"},
    {"rockmate plan 1\narena 9 host 1 2\n", 2, 16, RM_ERROR_TEXT, "found '2'", "the end of the statement"},
    {"rockmate plan 1\nstep second\n", 2, 6, RM_ERROR_TEXT, "found 'second'", "one of single first"},
    {"rockmate plan 1\narena 99\nresident a 0\n", 3, 10, RM_ERROR_TEXT, "found 'a'", "what a step starts with"},
    {"rockmate plan 1\narena 99\nresident grad:x 0\n", 3, 10, RM_ERROR_TEXT, "found 'grad:x'", "what a step starts with"},
    {"rockmate plan 1\narena 99\nresident x\n", 3, 11, RM_ERROR_TEXT, "found the end of the statement", "a decimal integer"},
    {"rockmate plan 1\narena 99\nhome state:x 0\n", 3, 12, RM_ERROR_TEXT, "found 'x'", "a param of the graph"},
    {"rockmate plan 1\narena 99\nfree x\nresident x 0\n", 4, 1, RM_ERROR_TEXT, "found 'resident'", "stands before it"},
    {"rockmate plan 1\nalloc q 0\n", 2, 7, RM_ERROR_TEXT, "found 'q'", "a tensor of the graph"},
    {"rockmate plan 1\nalloc gard:x 0\n", 2, 7, RM_ERROR_TEXT, "found 'gard:x'", "a buffer: T, grad:T"},
    {"rockmate plan 1\nalloc grad: 0\n", 2, 12, RM_ERROR_TEXT, "found nothing", "a tensor of the graph"},
    {"rockmate plan 1\nalloc saved:x 0\n", 2, 13, RM_ERROR_TEXT, "found 'x'", "an op of the graph"},
    {"rockmate plan 1\nalloc ws:x 0\n", 2, 10, RM_ERROR_TEXT, "found 'x'", "an op or a param"},
    {"rockmate plan 1\nalloc a -1\n", 2, 9, RM_ERROR_TEXT, "found '-1'", "a decimal integer"},
    {"rockmate plan 1\nalloc a\n", 2, 8, RM_ERROR_TEXT, "found the end of the statement", "a decimal integer"},
    {"rockmate plan 1\nfree a 0\n", 2, 8, RM_ERROR_TEXT, "found '0'", "the end of the statement"},
    {"rockmate plan 1\nreuse r\n", 2, 8, RM_ERROR_TEXT, "found the end of the statement", "a tensor of the graph"},
    {"rockmate plan 1\nrun\n", 2, 4, RM_ERROR_TEXT, "found the end of the statement", "one of fwd bwd opt"},
    {"rockmate plan 1\nrun foward a\n", 2, 5, RM_ERROR_TEXT, "found 'foward'", "one of fwd bwd opt"},
    {"rockmate plan 1\nrun fwd a\n", 2, 9, RM_ERROR_TEXT, "found 'a'", "an op of the graph"},
    {"rockmate plan 1\nrun fwd first:dw\n", 2, 15, RM_ERROR_TEXT, "found 'dw'", "no part"},
    {"rockmate plan 1\nrun fwd fc@slow\n", 2, 12, RM_ERROR_TEXT, "found 'slow'", "a variant of op fc"},
    {"rockmate plan 1\nrun fwd fc@\n", 2, 12, RM_ERROR_TEXT, "found nothing", "a variant of op fc"},
    {"rockmate plan 1\nrun bwd first\n", 2, 9, RM_ERROR_TEXT, "found 'first'", "comes in parts"},
    {"rockmate plan 1\nrun bwd first:dx\n", 2, 15, RM_ERROR_TEXT, "found 'dx'", "a part of the backward of first"},
    {"rockmate plan 1\nrun bwd fc:dx@fast\n", 2, 12, RM_ERROR_TEXT, "found 'dx'", "a part of the backward of fc"},
    {"rockmate plan 1\nrun bwd fc:\n", 2, 12, RM_ERROR_TEXT, "found nothing", "a part of the backward of fc"},
    {"rockmate plan 1\nrun opt x\n", 2, 9, RM_ERROR_TEXT, "found 'x'", "a param of the graph"},
    {"rockmate plan 1\nrun opt w@hots\n", 2, 11, RM_ERROR_TEXT, "found 'hots'", "host"},
    {"rockmate plan 1\nrun reduce w@host\n", 2, 12, RM_ERROR_TEXT, "found 'w@host'", "a param of the graph"},
    {"rockmate plan 1\nrun barrier clap\n", 2, 13, RM_ERROR_TEXT, "found 'clap'", "a barrier of the graph"},
    {"rockmate plan 1\nrun fwd fc now\n", 2, 12, RM_ERROR_TEXT, "found 'now'", "the end of the statement"},
    {"rockmate plan 1\nmove x 3\n", 2, 1, RM_ERROR_TEXT, "found 'move'", "one of alloc free"},
    {"rockmate plan 1\narena 99\nresident x 0\nfree w\n", 4, 1, RM_ERROR_PLAN, "'free w'", "w is not on the device"},
    {"rockmate plan 1\narena 80 host 80\nresident x 0\nresident w 64\n", 4, 1, RM_ERROR_PLAN, "'resident w 64'", "w ends at byte 96"},
    {"rockmate plan 1\narena 99\nresident x 0\nresident x 0\n", 4, 1, RM_ERROR_PLAN, "'resident x 0'", "x is placed twice"},
};

static void test_plan_bad(void)
{
    rm_graph *g = read_graph(plan_graph);
    size_t i;
    for (i = 0; i < sizeof bad_plans / sizeof bad_plans[0]; i++) {
        rmi_arena mem = rmi_arena_make(NULL);
        rmi_program p;
        rmi_error err;
        char at[64];
        rm_result r = read_plan(g, bad_plans[i].text, strlen(bad_plans[i].text), &mem, &p, &err);
        snprintf(at, sizeof at, "%u:%u: ", bad_plans[i].line, bad_plans[i].column);
        if (r != bad_plans[i].result || strncmp(err.text, at, strlen(at)) || !strstr(err.text, bad_plans[i].found) || !strstr(err.text, bad_plans[i].expected)) {
            failures++;
            printf("%s  wanted %s%s, %s\n  got    %s\n", bad_plans[i].text, at, bad_plans[i].found, bad_plans[i].expected, err.text);
        } else {
            passes++;
        }
        rmi_arena_free(&mem);
    }
    rm_graph_destroy(g);
}

static void read_any_plan(const rm_graph *g, const char *s, size_t n)
{
    rmi_arena mem = rmi_arena_make(NULL);
    rmi_program p;
    rmi_error err;
    char *exact = (char *)malloc(n ? n : 1);
    if (!exact) return;
    memcpy(exact, s, n);
    if (read_plan(g, exact, n, &mem, &p, &err) == RM_OK) plan_round_trip("damaged", g, s, n, NULL);
    else CHECK(err.text[0] != 0);
    free(exact);
    rmi_arena_free(&mem);
}

static void test_plan_damage(void)
{
    static const char bytes[] = {0, '\n', ' ', '#', ':', '0', '9', '@', 'w', (char)0xFF};
    const char *const plans[2] = {plan_single, plan_middle};
    rm_graph *g = read_graph(plan_graph);
    size_t i, k, which;
    for (which = 0; which < 2; which++) {
        size_t n = strlen(plans[which]);
        char *copy = (char *)malloc(n);
        if (!copy) break;
        for (i = 0; i <= n; i++) read_any_plan(g, plans[which], i);
        for (i = 0; i < n; i++)
            for (k = 0; k < sizeof bytes; k++) {
                memcpy(copy, plans[which], n);
                copy[i] = bytes[k];
                read_any_plan(g, copy, n);
            }
        for (i = 0; i < n; i++) { /* without one line, from byte i on */
            const char *stop = (const char *)memchr(plans[which] + i, '\n', n - i);
            size_t cut = stop ? (size_t)(stop + 1 - plans[which]) : n;
            memcpy(copy, plans[which], i);
            memcpy(copy + i, plans[which] + cut, n - cut);
            read_any_plan(g, copy, i + n - cut);
        }
        free(copy);
    }
    rm_graph_destroy(g);
}

static void test_plan_memory(void)
{
    size_t k, last = 0;
    rm_graph *g;
    rm_graph_desc d;
    budget b;
    memset(&d, 0, sizeof d);
    d.allocator.alloc = budget_alloc;
    d.allocator.free = budget_free;
    d.allocator.user = &b;
    b.left = SIZE_MAX;
    b.live = 0;
    CHECK(rm_graph_read(plan_graph, sizeof plan_graph - 1, &d, &g) == RM_OK);
    for (k = 0; !last; k++) {
        rmi_arena mem = rmi_arena_make(&d.allocator);
        rmi_program p;
        rmi_error err;
        size_t live = b.live;
        rm_result r;
        b.left = k;
        r = read_plan(g, plan_single, sizeof plan_single - 1, &mem, &p, &err);
        CHECK(r == RM_OK || r == RM_ERROR_MEMORY);
        if (r == RM_OK) last = k;
        rmi_arena_free(&mem);
        CHECK(b.live == live);
    }
    CHECK(last > 1);
    rm_graph_destroy(g);
    CHECK(!b.live);
}

/* Plans of the planner, where the graph allows one: written, read, written. */
static void planned_round_trip(const char *path, const char *s, size_t n, uint32_t steps)
{
    rm_graph *g = NULL;
    rm_plan *p = NULL;
    rm_plan_desc d;
    rm_plan_info info;
    uint32_t step;
    memset(&d, 0, sizeof d);
    d.steps = steps;
    d.preset = "every-block";
    if (rm_graph_read(s, n, NULL, &g) == RM_OK && rm_plan_create(g, &d, &p) == RM_OK) {
        for (step = RM_SINGLE; step <= RM_FORWARD; step <<= 1) {
            text out;
            rmi_figures f;
            memset(&out, 0, sizeof out);
            memset(&f, 0, sizeof f);
            if (!(steps & step)) continue;
            CHECK(rm_plan_write(p, step, tm_sink, &out) == RM_OK);
            plan_round_trip(path, g, out.s, out.n, &f);
            CHECK(rm_plan_get_info(p, step, &info) == RM_OK && info.time_ns == f.time_ns && info.live_bytes == f.live_bytes);
            tm_clear(&out);
        }
        CHECK(rm_plan_write(p, 0, tm_full_sink, NULL) == RM_ERROR_WRITE && rm_plan_write(p, 0, NULL, NULL) == RM_ERROR_ARGUMENT);
        CHECK(rm_plan_write(NULL, 0, tm_full_sink, NULL) == RM_ERROR_ARGUMENT && rm_plan_write(p, 77, tm_full_sink, NULL) == RM_ERROR_ARGUMENT);
    } else {
        failures++;
        printf("%s: %s\n", path, rm_graph_error(g));
    }
    rm_plan_destroy(p);
    rm_graph_destroy(g);
}

/* --- addresses alone */
static void test_place(void)
{
    rm_place_item x[3] = {{0, (uint64_t)1 << 63, 5, 9}, {7, 8, 3, 9}, {(uint64_t)1 << 62, UINT64_MAX, 3, 9}};
    uint64_t height = 9, bound = 9;
    size_t k, done = 0;
    rm_allocator a;
    budget b;
    CHECK(rm_place(NULL, x, 3, 0, 0, &height, &bound) == RM_OK && height == 8 && bound == 8);
    CHECK((x[0].offset == 0 && x[1].offset == 5 && x[2].offset == 5) || (x[0].offset == 3 && x[1].offset == 0 && x[2].offset == 0));
    CHECK(rm_place(NULL, x, 3, 4, 100, NULL, NULL) == RM_OK && x[0].offset % 4 == 0 && x[1].offset % 4 == 0);
    CHECK(rm_place(NULL, NULL, 0, 1, 0, &height, &bound) == RM_OK && height == 0 && bound == 0);
    CHECK(rm_place(NULL, NULL, 1, 1, 0, &height, &bound) == RM_ERROR_ARGUMENT);
    a.alloc = budget_alloc;
    a.free = budget_free;
    a.user = &b;
    for (k = 0; !done; k++) {
        rm_result r;
        b.left = k;
        b.live = 0;
        x[0].offset = 77;
        r = rm_place(&a, x, 3, 1, 0, &height, &bound);
        CHECK(r == RM_OK || (r == RM_ERROR_MEMORY && x[0].offset == 77));
        CHECK(!b.live);
        done = r == RM_OK;
    }
    x[1].end = x[1].start;
    CHECK(rm_place(NULL, x, 3, 1, 0, &height, &bound) == RM_ERROR_ARGUMENT);
    x[1].end++;
    x[1].size = x[2].size = ((uint64_t)1 << 62) - 1;
    CHECK(rm_place(NULL, x, 3, 1, 0, &height, &bound) == RM_ERROR_ARGUMENT);
    x[1].size = x[2].size = UINT64_MAX;
    CHECK(rm_place(NULL, x, 3, 256, 0, &height, &bound) == RM_ERROR_ARGUMENT);
}

/* --- the real graphs, where they are */
static void test_instances(const char *root)
{
    static const char *const names[] = {
        "small/t_rl12_203", "small/s_incep_nobn", "small/t_chain8", "small/t_dense2", "small/t_rl14_205", "small/s_rl8", "small/t_rlw12_301",
        "small/t_bottleneck", "small/s_chain12", "small/s_rl16", "small/t_uchain12", "small/t_rl10_201", "small/s_gpt2l", "small/s_unet_d2",
        "monet/unet_b11", "monet/resnet50_b184", "monet/vgg16_b176", "monet/googlenet_b320", "monet/mobilenet_v2_b272",
        "models/llama3_8b_b1_t8192", "models/resnet50_b184", "models/vgg16_b176", "models/transformer_encdec_6_6_b64", "models/gpt2_124m_b8_t1024",
        "models/llama3_8b_full_t16384", "models/unet_b11_416x608"};
    size_t i, found = 0;
    for (i = 0; i < sizeof names / sizeof names[0]; i++) {
        char path[1024];
        text t;
        memset(&t, 0, sizeof t);
        snprintf(path, sizeof path, "%s/%s.rmg", root, names[i]);
        tm_read(path, &t);
        if (t.n) {
            passes++;
            found++;
            round_trip(path, t.s, t.n);
            planned_round_trip(path, t.s, t.n, RM_SINGLE);
        }
        tm_clear(&t);
    }
    if (!found) skips++;
    printf("%u graph files of %s read, planned and written\n", (unsigned)found, root);
}

/* Rows of a graph's costs are by the last word of a name, and calls that are only counted stand in one; names of layers do not. */
static void test_costs(void)
{
    static const char text[] = "rockmate graph 1\ntensor x input 64\n"
                               "op h.0.attn/addmm in=x out=a:64 fwd=100 bwd=200\nop h.1.attn/addmm_17 in=a out=b:64 fwd=100 bwd=200\n"
                               "op relu_1 in=b out=c:64 fwd=10 bwd=10\nop relu in=c out=d:64 fwd=10 bwd=10\n"
                               "op block/fc1 in=d out=e:64 fwd=5 bwd=5\nop block/fc2 in=e out=f:4 fwd=5 bwd=5\nop _7 in=f out=g:4 fwd=1 bwd=1\n";
    tm_text t = {0};
    rm_graph *g = NULL;
    CHECK(rm_graph_read(text, sizeof text - 1, NULL, &g) == RM_OK);
    CHECK(rm_graph_summary(g, tm_sink, &t) == RM_OK);
    CHECK(strstr(t.s, "\n  addmm                   2  ") && strstr(t.s, "\n  relu                    2  ") && strstr(t.s, "\n  _7                      1  "));
    CHECK(strstr(t.s, "\n  fc1                     1  ") && strstr(t.s, "\n  fc2                     1  ") && !strstr(t.s, "_17") && !strstr(t.s, "relu_1"));
    CHECK(rm_graph_summary(g, tm_full_sink, NULL) == RM_ERROR_WRITE);
    tm_clear(&t);
    rm_graph_destroy(g);
}

int main(int argc, char **argv)
{
    test_costs();
    test_canonical();
    test_hash();
    test_builder();
    test_bad_lines();
    test_bad_texts();
    test_damage();
    test_memory();
    test_place();
    test_plan_good();
    test_plan_bad();
    test_plan_damage();
    test_plan_memory();
    planned_round_trip("plan_graph", plan_graph, sizeof plan_graph - 1, RM_SINGLE | RM_FIRST | RM_MIDDLE | RM_LAST | RM_FORWARD);
    test_instances(argc > 1 ? argv[1] : "../shared/instances");
    printf("%d passed, %d failed, %d skipped\n", passes, failures, skips);
    return failures != 0;
}
