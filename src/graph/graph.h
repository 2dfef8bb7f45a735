/* Graphs: what to compute, as a list of nodes.
 *
 *     zn_graph *g = zn_graph_new();
 *     zn_node *x = zn_graph_input(g, "image", ZN_SHAPE(1, 64, 64, 3));
 *     zn_node *y = zn_relu(x);
 *     ZN_TRY(zn_graph_status(g));                  // the one place where building can fail
 *
 * Building cannot fail halfway: the first bad shape marks the graph as failed and stores the error text. Later calls
 * return a harmless poison node, and the caller checks once. So model code has no error handling. ops/passes/autodiff.c
 * adds gradients, ops/passes/fuse.c merges nodes, exec.h plans memory and runs the graph. */
#ifndef ZN_GRAPH_H
#define ZN_GRAPH_H

#include "base/arena.h"
#include "base/packed.h"
#include "base/threads.h"
#include "kernels/conv.h"
#include "kernels/device.h"
#include "kernels/type.h"
#include "tensor/shape.h"

typedef struct zn_graph zn_graph;
typedef struct zn_node zn_node;
typedef struct zn_op zn_op;

enum { ZN_MAX_SOURCES = 10 };

/* How the layout of a parameter in a file maps to the layout in memory ("ours"). */
typedef enum zn_layout {
    ZN_LAYOUT_PLAIN,
    ZN_LAYOUT_CONV,    /* file OIHW, ours [kh,kw,in,out] */
    ZN_LAYOUT_CONV3D,  /* file [out,in,kt,kh,kw], ours [kt,kh,kw,in,out]: one for each frame, by zn_row */
    ZN_LAYOUT_LINEAR,  /* file [out,in], ours [1,1,in,out] */
    ZN_LAYOUT_LINEARS, /* file [rows,out,in], ours [rows,1,1,in,out]: one matrix for each row, selected with zn_row */
    ZN_LAYOUT_ROWS,    /* file [out,in], ours [1,1,out,in]: same order, floats or packed */
    ZN_LAYOUT_CONV1D,  /* file [out,in,1], ours [1,1,in,out] */
    ZN_LAYOUT_PATCH2,  /* file [2,2,in,out], ours [1,1,4*in,out]: a convolution with kernel = stride, run on patches */
    ZN_LAYOUT_PATCH4,  /* file [4,4,in,out], ours [1,1,16*in,out] */
    ZN_LAYOUT_INDEX,   /* each row is a permutation of 0..(last dimension - 1); constant: neither counted nor trained */
} zn_layout;

/* What a parameter is used for; training reads it (train/optimiser/learner.h). */
typedef enum zn_role {
    ZN_ROLE_WEIGHT,     /* weight of a convolution or a matrix */
    ZN_ROLE_BIAS,       /* added to a channel */
    ZN_ROLE_GAIN,       /* factors of one channel: gains of norms, filter taps along the channels */
    ZN_ROLE_UNIT_GAIN,  /* gains initialised to 1/C for C channels */
    ZN_ROLE_GATE,       /* spectral gates, thresholds and layer scales */
    ZN_ROLE_BLOCK_GATE, /* scales and biases of gates that skip blocks of channels */
    ZN_ROLE_EMBEDDING,  /* a table of vectors */
    ZN_ROLE_CONSTANT,   /* not learned: permutations, statistics */
    ZN_ROLES
} zn_role;

/* How a new network fills a parameter (nn/start.h). fill NULL: as its architecture fills parameters of this role. */
struct zn_fresh;
typedef struct zn_start {
    void (*fill)(const struct zn_fresh *p, float a);
    float a;
} zn_start;

/* Values of a parameter that are read from their file when a step packs them, and not kept. */
typedef struct zn_deferred {
    zn_status (*read)(const struct zn_deferred *self, float *out); /* all of them, in our layout */
    /* Optional, if the file has 8 bits for each: reads these as numbers from 0 to 255, and what they stand for into
     * meanings[256] (kernels/coded.h). That of 0 is 0. */
    zn_status (*read_codes)(const struct zn_deferred *self, float *out, float *meanings);
    size_t stored; /* bytes in the file, which are in memory while they are read */
} zn_deferred;

struct zn_node {
    const zn_op *op;
    zn_graph *graph;
    int index;        /* position in creation order, which is a valid execution order */
    const char *name; /* name of the layer ("decoder.3.conv.0"), or of the input or parameter itself */
    zn_shape shape;
    zn_type type; /* of the values in memory (types.h); data then points to numbers of this type */
    int source_count;
    zn_node *source[ZN_MAX_SOURCES];
    void *attribute; /* settings of the op, in the graph's arena: plain values, no pointers */
    size_t attribute_size;
    bool constant;           /* computed from parameters alone */
    bool placed;             /* an output whose memory the owner provides: the plan does not move it */
    bool wide;               /* F32 in any precision: the network may be cut here (pipeline/codec/segment.h), or on a
                              * device, a value that stays between runs (partner) */
    zn_node *partner;        /* a value that stays between runs may be 16 bits, and a device neither gets nor gives it:
                              * of an output, the input that reads it in the next run, and of that the output, as both
                              * have one type; the node itself: none. The owner keeps a twin of its memory. */
    bool on_host;            /* runs on the CPU although the executor has a device, which has no kernel for it */
    int64_t whole_rows;      /* height of the whole feature map if shape may be that of one band; else 0 */
    zn_layout layout;        /* parameters */
    zn_role role;            /* parameters */
    zn_start start;          /* parameters */
    float *data;             /* parameters and inputs: set by the owner; other nodes: set by the plan */
    const zn_packed *packed; /* parameters of ZN_LAYOUT_ROWS: replaces data; set by the owner */
    const zn_deferred *deferred; /* parameters: replaces data for steps that pack it; set by the owner */
    zn_node *gradient;           /* used by autodiff only */
};

/* Resources for running one node. */
typedef struct zn_launch_context {
    zn_pool *pool;
    zn_device *device;     /* runs the launched kernels; NULL: the pool runs them */
    void *scratch;         /* scratch of thread 0, of the size that the op requested */
    size_t scratch_stride; /* bytes between the scratch of two threads */
    void *shared;
    void *prepared;     /* output of zn_op.prepare */
    const void *packed; /* output of zn_op.pack */
    void *refreshed;    /* output of zn_op.refresh */
} zn_launch_context;

/* Graphs compute in fp32 by default; handles that prefer another precision ask for it. */
static inline zn_precision zn_precision_or_f32(zn_precision p)
{
    return p == ZN_PRECISION_DEFAULT ? ZN_PRECISION_F32 : p;
}

/* Settings for preparing a graph. */
typedef struct zn_prepare {
    zn_precision math; /* not DEFAULT */
    uint32_t cpu;      /* features of the CPU, or of the device that runs the graph (zn_device_flags) */
    bool
        constant_parameters; /* weights may be packed once; nodes computed from parameters alone run once, on the CPU */
    bool whole;              /* the graph is complete, not one tile of a larger graph */
    int threads;
    int lean; /* how little packed weights take, even where others are quicker: zn_conv_wish.lean */
} zn_prepare;

/* Bytes that an op needs during a run, and between runs. */
typedef struct zn_needs {
    size_t thread_scratch, shared_scratch;
    size_t prepared;  /* kept between runs */
    size_t packed;    /* made from constant weights only, kept between runs, same for every image size (packs.h) */
    size_t refreshed; /* made from constants in every run, before the node runs, because parameters change */
    bool replaces;    /* packed replaces the weights that it is made from, which a device then needs no copy of */
} zn_needs;

/* Which values of a node may be kept in 16 bits. */
typedef struct zn_node_types {
    bool result;
    unsigned sources; /* bit i: source i */
    unsigned alike;   /* bit i: source i, one of those, has the type of the result */
} zn_node_types;

/* Everything that the output of zn_op.pack depends on. */
typedef struct zn_packing {
    const void *kernel; /* kernel that reads the packed weights */
    int geometry[10];   /* geometry of the layer, never of the image */
    unsigned sources;   /* bit i: pack reads source i, which is constant */
    size_t coded;       /* not 0: bytes that pack writes, to be kept as codes (kernels/coded.h); packed is their size */
    zn_type type;       /* with coded: of the numbers that pack writes */
} zn_packing;

struct zn_op {
    const char *name;
    /* Checks sources and attribute and sets node->shape. On failure returns ZN_FAIL(...). */
    zn_status (*shape)(zn_node *n);
    /* Computes the node. Allocates nothing and cannot fail. */
    void (*run)(const zn_node *n, const zn_launch_context *c);
    /* Adds zn_accumulate(source, ...) for each source that needs a gradient. NULL: not differentiable. */
    void (*gradient)(zn_node *n, zn_node *dy);
    /* Optional: memory needs, and one-time work such as choosing a kernel (called when needs.prepared > 0). */
    zn_needs (*needs)(const zn_node *n, const zn_prepare *p);
    void (*prepare)(const zn_node *n, const zn_prepare *p, void *prepared);
    /* Both or neither: pack writes needs.packed bytes of weights; packing returns what they depend on. */
    void (*pack)(const zn_node *n, const zn_prepare *p, void *packed);
    zn_packing (*packing)(const zn_node *n, const zn_prepare *p);
    /* Optional: writes needs.refreshed bytes and reads constants only (zn_is_constant). Several nodes are refreshed in
     * parallel, each on one thread with the scratch of that thread. */
    void (*refresh)(const zn_node *n, const void *prepared, void *refreshed, void *scratch);
    /* With refresh, for ops that a device can execute: the same with zn_launch, into c->refreshed. */
    void (*launch_refresh)(const zn_node *n, const zn_launch_context *c);
    /* Optional: operations of the direct algorithm, and operations actually executed, for the profile. NULL: flops is
     * 0, and flops_done is flops. */
    double (*flops)(const zn_node *n);
    double (*flops_done)(const zn_node *n, const zn_prepare *p);
    /* Optional: lower bound of the arithmetic, in the slots that ops/slots.h defines. NULL: half of flops_done, as if
     * every operation were part of a multiply-add. */
    double (*slots)(const zn_node *n, const zn_prepare *p);
    const char *(*kernel)(const zn_node *n, const zn_prepare *p);
    /* Optional: the precision that its multiplications actually use. NULL: fp32. */
    zn_precision (*math)(const zn_node *n, const zn_prepare *p);
    /* Optional: replaces output positions [*lo,*hi) along H or W with the positions [*lo,*hi) of the first source that
     * they depend on, exact to the last bit. NULL: the same positions. */
    void (*reach)(const zn_node *n, const zn_prepare *p, int64_t *lo, int64_t *hi);
    /* Optional: outputs are computed in squares with this side; see kernels/conv.h. NULL: 1. */
    int (*block)(const zn_node *n, const zn_prepare *p);
    bool global;    /* every output depends on every input position */
    bool mirrors;   /* positions from reach outside the feature map are read mirrored at its border */
    bool cuts_rows; /* if block > 1: may run for fewer rows than its source provides; the rows keep the same bits */
    /* Optional: index of the source whose memory the output may reuse, or -1. */
    int (*in_place)(const zn_node *n);
    /* Optional, for a constant op: where in source 0 its result is, if that is a parameter, so that no copy is needed.
     */
    float *(*view)(const zn_node *n);
    /* Optional: number of floats stored after the result, for ops that read more of this node than its result. */
    int64_t (*tail)(const zn_node *n);
    /* Optional: true if the result is FP8 codes wherever the node runs (type E4M3); their scales, one for each row, are
     * its tail (kernels/fp8.h), or it has none, and those who read it know the scale. NULL: false. */
    bool (*codes)(const zn_node *n);
    /* Optional: true if run does all its work with zn_launch, so that a device can execute it. NULL: false. */
    bool (*launches)(const zn_node *n);
    /* Optional: values that the device's kernels can read or write in 16 bits; and the CPU's in BF16. NULL: none. */
    zn_node_types (*types)(const zn_node *n, const zn_prepare *p);
    zn_node_types (*host_types)(const zn_node *n, const zn_prepare *p);
    bool is_leaf;      /* input or parameter */
    bool joins;        /* its launches can be queued (zn_device_group_begin): steps in a row that do not depend on each
                        * other become one launch */
    bool takes_packed; /* sources may be packed instead of floats */
};

/* Height of the whole feature map, even while the shape is that of one band. */
static inline int64_t zn_whole_rows(const zn_node *n) { return n->whole_rows ? n->whole_rows : n->shape.dim[1]; }

/* True for a parameter and for a node computed from parameters only. */
bool zn_is_constant(const zn_node *n);

zn_graph *zn_graph_new(void); /* NULL when out of memory */
void zn_graph_free(zn_graph *g);

/* ZN_OK, or the first failure while building, with its error text. */
ZN_MUST_USE zn_status zn_graph_status(const zn_graph *g);

zn_node *zn_graph_input(zn_graph *g, const char *name, zn_shape shape);
/* Returns the parameter with this name; the same name gives the same node. The role is ZN_ROLE_WEIGHT until the caller
 * sets another. */
zn_node *zn_graph_parameter(zn_graph *g, const char *name, zn_shape shape, zn_layout layout);

/* Memory that lives as long as the graph. */
zn_arena *zn_graph_arena(zn_graph *g);

int zn_graph_count(const zn_graph *g);
zn_node *zn_graph_at(const zn_graph *g, int index);
/* Pixels of the largest image or feature map in the graph. In an extracted graph (zn_graph_extract) at least the
 * largest of the whole network, scaled to the new input size. */
int64_t zn_graph_largest_map(const zn_graph *g);
/* Whether the last map is as large as the largest, as in a decoder. In an extracted graph: that of the whole network.
 */
bool zn_graph_grows(const zn_graph *g);

/* Gives the nodes another order, in which no node comes before its sources: order[zn_graph_count] has each once. */
void zn_graph_reorder(zn_graph *g, zn_node *const *order);

/* Appends a node. attribute (may be NULL) is copied. count is 1 to ZN_MAX_SOURCES; no source may be NULL. */
zn_node *zn_apply(const zn_op *op, const void *attribute, size_t attribute_size, zn_node *const *sources, int count);

/* Sets the name of all nodes appended after this call (layer names for profiles and messages). */
void zn_graph_name_layer(zn_graph *g, const char *name);

/* Marks the graph as failed unless it has failed already. Returns the poison node. */
zn_node *zn_graph_poison(zn_graph *g, zn_status code, const char *text);
bool zn_is_poison(const zn_node *n);

/* Copies the part of the graph from `from` to `to`. `from` becomes an input of the given shape. Parameters keep their
 * data. *input and *output are the new input and output. Returns NULL when out of memory. */
zn_graph *zn_graph_extract(const zn_graph *g, const zn_node *from, const zn_node *to, zn_shape shape, zn_node **input,
                           zn_node **output);

/* Operations needed to compute `output` with direct algorithms. Constants are not counted. Negative: out of memory.
 */
double zn_graph_flops(const zn_graph *g, const zn_node *output);

extern const zn_op zn_op_input, zn_op_parameter;

#endif
