/* A layer of BERT and its working memory, as `layer_steps.h` computes it. */
#ifndef ENSEMBLE_DEID_LAYER_H
#define ENSEMBLE_DEID_LAYER_H

#include <stddef.h>
#include <stdint.h>

/* Sixteen numbers at once, in as many registers as they need. */
typedef float floats __attribute__((vector_size(64)));
typedef int32_t ints __attribute__((vector_size(64)));
typedef int8_t bytes __attribute__((vector_size(16)));
typedef float floats_anywhere __attribute__((vector_size(64), aligned(4), may_alias));
typedef bytes bytes_anywhere __attribute__((aligned(1), may_alias));
#define LANES 16
#define UNROLL _Pragma("GCC unroll 8")
#define ROWS 48 /* that go through a matrix together: their rounded values stay in the cache */

/* A matrix in blocks of 16 outputs: for each four inputs the 64 weights, output by output, then the outputs' sums.
   Blocks of zeros fill up a multiple of four blocks. */
typedef struct {
    size_t outputs, inputs;
    const int8_t *packed;
    const float *scale, *bias;
} matrix;

#define BLOCKS(outputs) (((outputs) + 63) / 64 * 4)
#define BLOCK_BYTES(inputs) ((inputs) * 16 + 64)

typedef struct {
    size_t width, inner, heads;
    float eps;
    matrix looks, seen, within, outer;
    const float *first_scale, *first_bias, *second_scale, *second_bias;
} layer;

typedef struct {
    float *joined;   /* (rows, 3 * width) */
    float *context;  /* (rows, width) */
    float *between;  /* (ROWS, width) */
    float *spread;   /* (ROWS, inner) */
    float *scales;   /* (ROWS,) */
    float *keys;     /* (width of a head, rows rounded up to 16) */
    float *weights;  /* (4, rows rounded up to 16) */
    int8_t *rounded; /* (ROWS, the larger of width and inner) */
} memory;

typedef void run_function(const layer *, float *state, size_t rows, const memory *);

#endif
