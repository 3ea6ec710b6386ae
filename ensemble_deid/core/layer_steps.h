/* The steps of a layer, for one set of instructions. layer.c defines NAME(x), TARGET, LANES (numbers in a register),
   ROWS_AT_ONCE, OUTPUTS_AT_ONCE and

   NAME(store_rounded)(row, n, k, numbers): put LANES whole numbers at place k of a row of n, of 2 * n bytes;
   NAME(products)(rows, packed, inputs, sums): multiply ROWS_AT_ONCE such rows by OUTPUTS_AT_ONCE outputs;
   BEFORE_PRODUCTS(inputs) and AFTER_PRODUCTS(), where the processor must be told. */

#ifndef BEFORE_PRODUCTS
#define BEFORE_PRODUCTS(inputs)
#define AFTER_PRODUCTS()
#endif

#define INLINE TARGET static inline __attribute__((always_inline))
#define floats NAME(floats_type)
#define ints NAME(ints_type)
#define VECTORS (STEP / LANES) /* registers for STEP numbers */

INLINE floats NAME(load)(const float *from) { return *(const NAME(floats_anywhere) *)from; }
INLINE void NAME(store)(float *to, floats value) { *(NAME(floats_anywhere) *)to = value; }
INLINE floats NAME(all)(float value) { return (floats){0} + value; }
INLINE floats NAME(choose)(ints where, floats yes, floats no) { return (floats)(((ints)yes & where) | ((ints)no & ~where)); }
INLINE floats NAME(larger)(floats a, floats b) { return NAME(choose)(a > b, a, b); }
INLINE floats NAME(smaller)(floats a, floats b) { return NAME(choose)(a < b, a, b); }

/* Sums are of STEP lanes whatever the registers hold, so that all sets of instructions round alike. */
INLINE float NAME(sum_of)(const floats *values)
{
    float total[STEP];
    __builtin_memcpy(total, values, sizeof total);
    for (int half = STEP / 2; half; half /= 2)
        for (int k = 0; k < half; k++)
            total[k] += total[k + half];
    return total[0];
}

INLINE float NAME(largest_of)(floats value)
{
    float found[LANES];
    __builtin_memcpy(found, &value, sizeof found);
    for (int k = 1; k < LANES; k++)
        found[0] = found[k] > found[0] ? found[k] : found[0];
    return found[0];
}

/* e^x, of numbers up to 0: 2^n * e^r, with e^r by its series. */
INLINE floats NAME(exponential)(floats x)
{
    x = NAME(larger)(x, NAME(all)(-87.0f));
    floats shifted = x * 1.44269504f + TO_WHOLE, n = shifted - TO_WHOLE;
    floats r = x - n * 0.693359375f + n * 2.12194440e-4f;
    floats p = r * (1.0f / 720) + 1.0f / 120;
    p = p * r + 1.0f / 24;
    p = p * r + 1.0f / 6;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    ints power = ((ints)shifted - (ints)NAME(all)(TO_WHOLE) + 127) << 23;
    return p * (floats)power;
}

/* As `gelu` of taggers/layers.py. */
INLINE floats NAME(gelu)(floats given)
{
    floats x = NAME(smaller)(NAME(larger)(given * 0.70710678f, NAME(all)(-4.0f)), NAME(all)(4.0f)), square = x * x;
    floats above = square * -2.72614225801306e-10f + 2.77068142495902e-08f;
    above = above * square + -2.10102402082508e-06f;
    above = above * square + -5.69250639462346e-05f;
    above = above * square + -7.34990630326855e-04f;
    above = above * square + -2.95459980854025e-03f;
    above = above * square + -1.60960333262415e-02f;
    floats below = square * -1.45660718464996e-05f + -2.13374055278905e-04f;
    below = below * square + -1.68282697438203e-03f;
    below = below * square + -7.37332916720468e-03f;
    below = below * square + -1.42647390514189e-02f;
    return given * (above * x / below + 1.0f) * 0.5f;
}

/* Round n numbers to whole ones of at most 127 * 128 times the scale. */
TARGET static void NAME(round_row)(const float *row, size_t n, uint8_t *digits, float *scale)
{
    const float most = 127 * 128;
    floats found = NAME(all)(1e-12f);
    for (size_t k = 0; k < n; k += LANES)
        found = NAME(larger)((floats)((ints)NAME(load)(row + k) & 0x7fffffff), found);
    float largest = NAME(largest_of)(found), factor = most / largest;
    *scale = largest / most;
    for (size_t k = 0; k < n; k += LANES) {
        ints whole = (ints)(NAME(load)(row + k) * factor + TO_WHOLE) - (ints)NAME(all)(TO_WHOLE);
        NAME(store_rounded)(digits, n, k, whole);
    }
}

/* As `LayerNorm` of taggers/layers.py. */
TARGET static void NAME(normalise)(float *row, size_t n, const float *scale, const float *bias, float eps)
{
    floats total[VECTORS] = {{0}}, square[VECTORS] = {{0}};
    for (size_t k = 0; k < n; k += STEP)
        UNROLL for (int v = 0; v < VECTORS; v++)
            total[v] += NAME(load)(row + k + v * LANES);
    float mean = NAME(sum_of)(total) / n;
    for (size_t k = 0; k < n; k += STEP)
        UNROLL for (int v = 0; v < VECTORS; v++) {
            floats moved = NAME(load)(row + k + v * LANES) - mean;
            square[v] += moved * moved;
        }
    float factor = 1 / __builtin_sqrtf(NAME(sum_of)(square) / n + eps);
    for (size_t k = 0; k < n; k += LANES)
        NAME(store)(row + k, (NAME(load)(row + k) - mean) * factor * NAME(load)(scale + k) + NAME(load)(bias + k));
}

/* Multiply at most ROWS rows by a matrix, and add its bias; then apply GELU, or add another array. */
INLINE void NAME(multiply)(const matrix *by, const float *given, size_t rows, const memory *at, int then, const float *add,
                     float *out)
{
    size_t n = by->inputs, width = by->outputs;
    for (size_t r = 0; r < rows; r++)
        NAME(round_row)(given + r * n, n, at->digits + 2 * r * n, at->scales + r);
    BEFORE_PRODUCTS(n);
    for (size_t begin = 0; begin < width; begin += OUTPUTS_AT_ONCE)
        for (size_t low = 0; low < rows; low += ROWS_AT_ONCE) {
            const uint8_t *digits[ROWS_AT_ONCE];
            float sums[ROWS_AT_ONCE][OUTPUTS_AT_ONCE];
            for (size_t i = 0; i < ROWS_AT_ONCE; i++)
                digits[i] = at->digits + 2 * (low + i < rows ? low + i : rows - 1) * n;
            NAME(products)(digits, by->packed + begin / GROUP * GROUP_BYTES(n) + begin % GROUP * 4, n, sums);
            for (size_t r = low; r < low + ROWS_AT_ONCE && r < rows; r++)
                for (size_t k = begin; k < begin + OUTPUTS_AT_ONCE && k < width; k += LANES) {
                    floats found = NAME(load)(sums[r - low] + k - begin) * at->scales[r];
                    found = found * NAME(load)(by->scale + k) + NAME(load)(by->bias + k);
                    if (then == GELU)
                        found = NAME(gelu)(found);
                    if (then == ADD)
                        found += NAME(load)(add + r * width + k);
                    NAME(store)(out + r * width + k, found);
                }
        }
    AFTER_PRODUCTS();
}

/* The weights with which four pieces read all, not yet divided by their sums, which are returned in `totals`. */
INLINE void NAME(look)(const float *const *query, const memory *at, size_t pieces, size_t wide, size_t head, float *totals)
{
    static const int32_t numbers[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    ints places[VECTORS];
    __builtin_memcpy(places, numbers, sizeof places);
    const floats never = NAME(all)(-1e30f);
    floats most[4] = {never, never, never, never};
    for (size_t low = 0; low < wide; low += STEP) {
        floats found[4][VECTORS] = {{{0}}};
        for (size_t d = 0; d < head; d++)
            UNROLL for (int v = 0; v < VECTORS; v++) {
                floats key = NAME(load)(at->keys + d * wide + low + v * LANES);
                UNROLL for (int i = 0; i < 4; i++)
                    found[i][v] += key * query[i][d];
            }
        UNROLL for (int v = 0; v < VECTORS; v++) {
            ints there = places[v] < (int32_t)pieces - (int32_t)low;
            UNROLL for (int i = 0; i < 4; i++) {
                floats value = NAME(choose)(there, found[i][v], never);
                most[i] = NAME(larger)(value, most[i]);
                NAME(store)(at->weights + i * wide + low + v * LANES, value);
            }
        }
    }
    UNROLL for (int i = 0; i < 4; i++) {
        floats total[VECTORS] = {{0}};
        float *weights = at->weights + i * wide, largest = NAME(largest_of)(most[i]);
        for (size_t low = 0; low < wide; low += STEP)
            UNROLL for (int v = 0; v < VECTORS; v++) {
                floats found = NAME(exponential)(NAME(load)(weights + low + v * LANES) - largest);
                NAME(store)(weights + low + v * LANES, found);
                total[v] += found;
            }
        totals[i] = NAME(sum_of)(total);
    }
}

/* As `attention` of taggers/layers.py, for one window. */
TARGET static void NAME(attend)(const layer *with, size_t pieces, const memory *at)
{
    size_t width = with->width, head = width / with->heads, wide = (pieces + STEP - 1) / STEP * STEP;
    float factor = 1 / __builtin_sqrtf(head);
    for (size_t h = 0; h < with->heads; h++) {
        const float *queries = at->joined + h * head, *values = queries + 2 * width;
        for (size_t d = 0; d < head; d++)
            for (size_t j = 0; j < wide; j++)
                at->keys[d * wide + j] = j < pieces ? queries[j * 3 * width + width + d] * factor : 0;
        for (size_t low = 0; low < pieces; low += 4) {
            const float *query[4];
            float totals[4];
            for (size_t i = 0; i < 4; i++)
                query[i] = queries + (low + i < pieces ? low + i : pieces - 1) * 3 * width;
            NAME(look)(query, at, pieces, wide, head, totals);
            for (size_t d = 0; d < head; d += STEP) {
                floats found[4][VECTORS] = {{{0}}};
                for (size_t j = 0; j < pieces; j++)
                    UNROLL for (int v = 0; v < VECTORS; v++) {
                        floats value = NAME(load)(values + j * 3 * width + d + v * LANES);
                        UNROLL for (int i = 0; i < 4; i++)
                            found[i][v] += value * at->weights[i * wide + j];
                    }
                UNROLL for (size_t i = 0; i < 4; i++) {
                    float *to = at->context + (low + i) * width + h * head + d;
                    UNROLL for (int v = 0; v < VECTORS; v++)
                        if (low + i < pieces)
                            NAME(store)(to + v * LANES, found[i][v] / totals[i]);
                }
            }
        }
    }
}

TARGET static void NAME(compute_layer)(const layer *with, float *state, size_t pieces, const memory *at)
{
    size_t width = with->width;
    for (size_t low = 0; low < pieces; low += ROWS) {
        size_t n = pieces - low < ROWS ? pieces - low : ROWS;
        NAME(multiply)(&with->looks, state + low * width, n, at, NOTHING, NULL, at->joined + low * 3 * width);
    }
    NAME(attend)(with, pieces, at);
    for (size_t low = 0; low < pieces; low += ROWS) {
        size_t n = pieces - low < ROWS ? pieces - low : ROWS;
        float *here = state + low * width;
        NAME(multiply)(&with->seen, at->context + low * width, n, at, ADD, here, at->between);
        for (size_t r = 0; r < n; r++)
            NAME(normalise)(at->between + r * width, width, with->first_scale, with->first_bias, with->eps);
        NAME(multiply)(&with->within, at->between, n, at, GELU, NULL, at->spread);
        NAME(multiply)(&with->outer, at->spread, n, at, ADD, at->between, here);
        for (size_t r = 0; r < n; r++)
            NAME(normalise)(here + r * width, width, with->second_scale, with->second_bias, with->eps);
    }
}

#undef INLINE
#undef floats
#undef ints
#undef VECTORS
#undef LANES
#undef NAME
#undef TARGET
#undef ROWS_AT_ONCE
#undef OUTPUTS_AT_ONCE
#undef BEFORE_PRODUCTS
#undef AFTER_PRODUCTS
