/* Ops on sequences and scattered points. */
#include "op_case.h"

static zn_node *scan(zn_node **in)
{
    return zn_scan(&(zn_scan_sources){ in[0], in[1], in[2], in[3], in[4], in[5], in[6], in[7] });
}
static zn_node *causal_conv(zn_node **in) { return zn_causal_conv(in[0], in[1], in[2]); }
static zn_node *fourier(zn_node **in)
{
    static float frequencies[] = { 0.3f, -0.1f, 0.2f, 0.4f, -0.5f, 0.1f };
    zn_node *b = zn_graph_parameter(in[0]->graph, "B", ZN_SHAPE(3, 2), ZN_LAYOUT_PLAIN);
    b->data = frequencies;
    return zn_fourier(in[0], b);
}
/* Two orders of five tokens in two sequences; the second has four. */
static zn_node *orders(zn_graph *g)
{
    static float table[] = { 2, 0, 4, 1, 3, 3, 1, 4, 0, 2, 3, 0, 1,  4, -1, 4, 1, 0,  3, -1,
                             1, 3, 0, 4, 2, 3, 1, 4, 0, 2, 1, 2, -1, 0, 3,  2, 1, -1, 3, 0 };
    zn_node *n = zn_graph_parameter(g, "orders", ZN_SHAPE(2, 2, 2, 5), ZN_LAYOUT_PLAIN);
    n->data = table;
    return n;
}
static zn_node *gather(zn_node **in) { return zn_gather_tokens(in[0], orders(in[0]->graph), 1); }
static zn_node *merge(zn_node **in) { return zn_merge_tokens(in, 2, orders(in[0]->graph), 0.5f); }
static zn_node *mean_tokens(zn_node **in) { return zn_mean_tokens(in[0], orders(in[0]->graph)); }

const op_case op_cases_sequence[] = {
    { "scan",
      { MAP(1, 1, 70, 5), MAP(1, 1, 70, 5), MAP(1, 1, 70, 6), MAP(1, 1, 70, 6), ROWS(5, 6), ROW(5), ROW(5),
        CUBE(1, 5, 6) },
      scan,
      false },
    { "scan",
      { MAP(2, 1, 3, 130), MAP(2, 1, 3, 130), MAP(2, 1, 3, 4), MAP(2, 1, 3, 4), ROWS(130, 4), ROW(130), ROW(130),
        CUBE(2, 130, 4) },
      scan,
      false },
    { "scan",
      { MAP(1, 1, 4, 3), MAP(1, 1, 4, 3), MAP(1, 1, 4, 2), MAP(1, 1, 4, 2), ROWS(3, 2), ROW(3), ROW(3) },
      scan,
      false },
    { "causal_conv", { MAP(2, 1, 7, 5), ROWS(5, 4), ROW(5) }, causal_conv, false },
    { "causal_conv", { MAP(3, 1, 2, 3), CUBE(3, 1, 4) }, causal_conv, false },
    { "gather", { MAP(2, 1, 5, 3) }, gather, false },
    { "gather", { MAP(2, 1, 5, 3), MAP(2, 1, 5, 3) }, merge, false },
    { "mean_tokens", { MAP(2, 1, 5, 3) }, mean_tokens, false },
    { "fourier", { MAP(2, 1, 3, 2) }, fourier, false },
    { NULL, { ROW(0) }, NULL, false },
};
