/* Graphs: what to compute, as a list of nodes.
 *
 *     zn_graph *g = zn_graph_new();
 *     zn_node *x = zn_graph_input(g, "image", ZN_SHAPE(1, 64, 64, 3));
 *     zn_node *y = zn_relu(x);
 *     ZN_TRY(zn_graph_status(g));                  // the one place where building can fail
 *
 * Building cannot fail halfway: the first bad shape marks the graph and keeps its sentence; later calls return a
 * harmless poison node, and the caller asks once. So model code has no error handling in it. ops/passes/autodiff.c adds
 * gradients and ops/passes/fuse.c merges nodes; exec.h plans memory and runs. */
#ifndef ZN_GRAPH_H
#define ZN_GRAPH_H

#include "base/arena.h"
#include "base/packed.h"
#include "base/threads.h"
#include "kernels/conv.h"
#include "kernels/device.h"
#include "tensor/shape.h"

typedef struct zn_graph zn_graph;
typedef struct zn_node zn_node;
typedef struct zn_op zn_op;

enum { ZN_MAX_SOURCES = 10 };

/* How a parameter's file layout maps to ours. */
typedef enum zn_layout {
    ZN_LAYOUT_PLAIN,
    ZN_LAYOUT_CONV,    /* file OIHW, ours [kh,kw,in,out] */
    ZN_LAYOUT_CONV3D,  /* file [out,in,kt,kh,kw], ours [kt,kh,kw,in,out]: one for each frame, taken by zn_row */
    ZN_LAYOUT_LINEAR,  /* file [out,in], ours [1,1,in,out] */
    ZN_LAYOUT_LINEARS, /* file [rows,out,in], ours [rows,1,1,in,out]: one for each row, taken by zn_row */
    ZN_LAYOUT_ROWS,    /* file [out,in], ours [1,1,out,in]: as it is, floats or packed */
    ZN_LAYOUT_CONV1D,  /* file [out,in,1], ours [1,1,in,out] */
    ZN_LAYOUT_PATCH2,  /* file [2,2,in,out], ours [1,1,4*in,out]: a convolution with kernel = stride, on patches */
    ZN_LAYOUT_PATCH4,  /* file [4,4,in,out], ours [1,1,16*in,out] */
    ZN_LAYOUT_INDEX,   /* rows of permutations of 0..last side-1; constant: neither counted nor trained */
} zn_layout;

/* What a parameter is for; training asks for it (train/optimiser/learner.h). */
typedef enum zn_role {
    ZN_ROLE_WEIGHT,     /* of a convolution or matrix */
    ZN_ROLE_BIAS,       /* added to a channel */
    ZN_ROLE_GAIN,       /* factors of one channel: gains of norms, taps along the channels */
    ZN_ROLE_UNIT_GAIN,  /* gains that start at 1/C for C channels */
    ZN_ROLE_GATE,       /* spectral gates, thresholds and layer scales */
    ZN_ROLE_BLOCK_GATE, /* scales and biases of gates that skip blocks of channels */
    ZN_ROLE_EMBEDDING,  /* a table of vectors */
    ZN_ROLE_CONSTANT,   /* not learned: permutations, statistics */
} zn_role;

struct zn_node {
    const zn_op *op;
    zn_graph *graph;
    int index;        /* position in creation order, which is an order of execution */
    const char *name; /* of the layer: "decoder.3.conv.0"; of inputs and parameters: their own */
    zn_shape shape;
    int source_count;
    zn_node *source[ZN_MAX_SOURCES];
    void *attribute; /* the op's own settings, in the graph's arena: plain values, no pointers */
    size_t attribute_size;
    bool constant;           /* computed from parameters alone */
    bool placed;             /* an output whose data is its owner's: the plan leaves it where it is */
    int64_t whole_rows;      /* height of the whole map where shape may be that of a band of it; else 0 */
    zn_layout layout;        /* parameters */
    zn_role role;            /* parameters */
    float *data;             /* parameters, inputs: set by the owner; others: by the plan */
    const zn_packed *packed; /* parameters of ZN_LAYOUT_ROWS, instead of data: set by the owner */
    zn_node *gradient;       /* while differentiating */
};

/* What a run of one node may use. */
typedef struct zn_launch_context {
    zn_pool *pool;
    zn_device *device;     /* that runs what is launched; NULL: the pool does */
    void *scratch;         /* shared + for each thread, as the op asked for */
    size_t scratch_stride; /* between the threads' parts */
    void *shared;
    void *prepared;     /* what prepare made */
    const void *packed; /* what pack made */
    void *refreshed;    /* what refresh made */
} zn_launch_context;

/* Settings under which a graph is prepared. */
typedef struct zn_prepare {
    zn_math math;
    uint32_t cpu;             /* what the CPU has, or the device that is to run it (zn_device_flags) */
    bool constant_parameters; /* weights may be packed once */
    bool whole;               /* the graph stands for itself: it is no tile of a larger one */
    int threads;
} zn_prepare;

/* Memory an op wants while it runs, and once. */
typedef struct zn_needs {
    size_t thread_scratch, shared_scratch;
    size_t prepared; /* kept between runs */
    size_t packed;   /* made of constant weights alone, kept between runs, the same for every size: packs.h shares it */
    size_t refreshed; /* made in every run, before the node runs, from constants alone: parameters changed */
} zn_needs;

/* What zn_op.pack makes depends on this, and on nothing else. */
typedef struct zn_packing {
    const void *kernel; /* that it is made for */
    int geometry[10];   /* of the layer, never of the image */
    unsigned sources;   /* bit i: source i, which is constant, is read */
} zn_packing;

struct zn_op {
    const char *name;
    /* Checks sources and attribute, sets node->shape; on failure returns ZN_FAIL(...). */
    zn_status (*shape)(zn_node *n);
    /* Computes. Allocates nothing and cannot fail. */
    void (*run)(const zn_node *n, const zn_launch_context *c);
    /* Adds zn_accumulate(source, ...) for each source that needs it. NULL: not differentiable. */
    void (*gradient)(zn_node *n, zn_node *dy);
    /* Optional: memory, and one-time work such as the choice of a kernel (called when needs.prepared > 0). */
    zn_needs (*needs)(const zn_node *n, const zn_prepare *p);
    void (*prepare)(const zn_node *n, const zn_prepare *p, void *prepared);
    /* Both or none: make needs.packed bytes of weights, and tell what they depend on. */
    void (*pack)(const zn_node *n, const zn_prepare *p, void *packed);
    zn_packing (*packing)(const zn_node *n, const zn_prepare *p);
    /* Optional: makes needs.refreshed bytes; reads constants only (zn_is_constant). Nodes are refreshed several at
     * once, each on one thread, with that thread's scratch. */
    void (*refresh)(const zn_node *n, const void *prepared, void *refreshed, void *scratch);
    /* Optional: work as if done directly, and as really done; what runs, for the profile. Both 0 when NULL. */
    double (*flops)(const zn_node *n);
    double (*flops_done)(const zn_node *n, const zn_prepare *p);
    /* Optional: the least that the arithmetic takes, as ops/slots.h counts. NULL: half of flops_done, as if all of it
     * were multiply-adds. */
    double (*slots)(const zn_node *n, const zn_prepare *p);
    const char *(*kernel)(const zn_node *n, const zn_prepare *p);
    /* Optional: the precision that its multiplications really have. NULL: fp32. */
    zn_math (*math)(const zn_node *n, const zn_prepare *p);
    /* Optional: which of the first source's positions [*lo,*hi) along H or W output positions [*lo,*hi) depend on, down
     * to the last bit. NULL: the same ones. */
    void (*reach)(const zn_node *n, const zn_prepare *p, int64_t *lo, int64_t *hi);
    /* Optional: outputs are computed in squares of this side, see kernels/conv.h. NULL: 1. */
    int (*block)(const zn_node *n, const zn_prepare *p);
    bool global;    /* every output depends on every input position */
    bool mirrors;   /* where reach goes beyond the map, the map is read mirrored at its border */
    bool cuts_rows; /* where block > 1: may be run for fewer rows than its source makes, which keep their bits */
    /* Optional: index of the source whose memory the output may take over, or -1. */
    int (*in_place)(const zn_node *n);
    /* Optional: floats kept behind the result, for ops that read more of this node than its result. */
    int64_t (*tail)(const zn_node *n);
    /* Optional: whether run does all its work by zn_launch, so that a device can do it. NULL: it does not. */
    bool (*launches)(const zn_node *n);
    bool is_leaf;      /* input or parameter */
    bool takes_packed; /* sources may be packed instead of floats */
};

/* Height of a map, also while the shape is that of a band of it. */
static inline int64_t zn_whole_rows(const zn_node *n) { return n->whole_rows ? n->whole_rows : n->shape.dim[1]; }

/* A parameter, or computed from parameters alone. */
bool zn_is_constant(const zn_node *n);

zn_graph *zn_graph_new(void); /* NULL when out of memory */
void zn_graph_free(zn_graph *g);

/* ZN_OK, or the first failure while building, with its sentence as the error text. */
ZN_MUST_USE zn_status zn_graph_status(const zn_graph *g);

zn_node *zn_graph_input(zn_graph *g, const char *name, zn_shape shape);
/* A parameter; the same name gives the same node. Its role is that of a weight until the caller sets another. */
zn_node *zn_graph_parameter(zn_graph *g, const char *name, zn_shape shape, zn_layout layout);

/* Memory that lives as long as the graph. */
zn_arena *zn_graph_arena(zn_graph *g);

int zn_graph_count(const zn_graph *g);
zn_node *zn_graph_at(const zn_graph *g, int index);
/* Pixels of the largest picture or map in it, or that there would be in the network it was extracted from. */
int64_t zn_graph_largest_map(const zn_graph *g);

/* Appends a node. attribute (may be NULL) is copied. At least one source, at most ZN_MAX_SOURCES, none of them NULL. */
zn_node *zn_apply(const zn_op *op, const void *attribute, size_t attribute_size, zn_node *const *sources, int count);

/* Name given to the nodes appended from now on (layer names for profiles and messages). */
void zn_graph_name_layer(zn_graph *g, const char *name);

/* Marks the graph as failed unless it is already; returns the poison node. */
zn_node *zn_graph_poison(zn_graph *g, zn_status code, const char *text);
bool zn_is_poison(const zn_node *n);

/* A copy of the part between `from` (exclusive: becomes an input of the given shape) and `to`. Parameters keep their
 * data. *input and *output are the new ends. NULL when out of memory. */
zn_graph *zn_graph_extract(const zn_graph *g, const zn_node *from, const zn_node *to, zn_shape shape, zn_node **input,
                           zn_node **output);

/* Work of everything that leads to `output`, as if done directly; constants are not counted. Negative: out of memory.
 */
double zn_graph_flops(const zn_graph *g, const zn_node *output);

extern const zn_op zn_op_input, zn_op_parameter;

#endif
