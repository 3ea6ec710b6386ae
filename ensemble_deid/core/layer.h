/* A layer of BERT and its working memory. */
#ifndef ENSEMBLE_DEID_LAYER_H
#define ENSEMBLE_DEID_LAYER_H

#include <stddef.h>
#include <stdint.h>

#define STEP 16  /* sizes are multiples of it */
#define GROUP 64 /* outputs of a matrix computed at once */
#define ROWS 48  /* pieces that go through a matrix together: their activations stay in the cache */

/* A matrix in groups of 64 outputs: for each four inputs the 256 weights, output by output; then the sums of the
   outputs' weights, int32. Zeros fill the last group. */
typedef struct {
    size_t outputs, inputs;
    const int8_t *packed;
    const float *scale, *bias;
} matrix;

#define GROUPS(outputs) (((outputs) + GROUP - 1) / GROUP)
#define GROUP_BYTES(inputs) ((inputs) * GROUP + GROUP * 4)
#define MOST_INPUTS 65536 /* so that sums of products fit 32 bits */

typedef struct {
    size_t width, inner, heads;
    float eps;
    matrix looks, seen, within, outer;
    const float *first_scale, *first_bias, *second_scale, *second_bias;
} layer;

typedef struct {
    float *joined;   /* (pieces, 3 * width) */
    float *context;  /* (pieces, width) */
    float *between;  /* (ROWS, width) */
    float *spread;   /* (ROWS, inner) */
    float *scales;   /* (ROWS,) */
    float *keys;     /* (width of a head, pieces rounded up to STEP) */
    float *weights;  /* (4, pieces rounded up to STEP) */
    uint8_t *digits; /* (ROWS, 2 * the larger of width and inner) */
} memory;

/* The sets of instructions, best first. */
enum { AMX, VNNI, AVX2, LEVELS };

/* Whether this processor, and the compiler, have a set of instructions. */
int can_compute_layer(int level);

/* Write what a layer gives for a window over `state` (pieces, width). */
void compute_layer(int level, const layer *with, float *state, size_t pieces, const memory *at);

#endif
