/* The steps of a layer. encoder.c includes this once for each level of instructions, with NAME(x), TARGET, the number
   of ROWS_AT_ONCE and BLOCKS_AT_ONCE, ZERO (added to a rounded number, so that it is what NAME(products) takes), and

   NAME(products)(rows, packed, inputs, sums): the exact sums of products of ROWS_AT_ONCE rows with BLOCKS_AT_ONCE blocks. */

#define INLINE TARGET static inline __attribute__((always_inline))

INLINE floats NAME(load)(const float *from) { return *(const floats_anywhere *)from; }
INLINE void NAME(store)(float *to, floats value) { *(floats_anywhere *)to = value; }
INLINE floats NAME(all)(float value) { return (floats){0} + value; }
INLINE floats NAME(choose)(ints where, floats yes, floats no) { return (floats)(((ints)yes & where) | ((ints)no & ~where)); }
INLINE floats NAME(larger)(floats a, floats b) { return NAME(choose)(a > b, a, b); }
INLINE floats NAME(smaller)(floats a, floats b) { return NAME(choose)(a < b, a, b); }

INLINE float NAME(sum)(floats value)
{
    float total[LANES];
    __builtin_memcpy(total, &value, sizeof total);
    for (int half = LANES / 2; half; half /= 2)
        for (int k = 0; k < half; k++)
            total[k] += total[k + half];
    return total[0];
}

INLINE float NAME(largest)(floats value)
{
    float found[LANES];
    __builtin_memcpy(found, &value, sizeof found);
    for (int half = LANES / 2; half; half /= 2)
        for (int k = 0; k < half; k++)
            found[k] = found[k] > found[k + half] ? found[k] : found[k + half];
    return found[0];
}

/* exp, of numbers up to 0: 2^n * e^r, with e^r by its series. */
INLINE floats NAME(exp)(floats x)
{
    const float to_whole = 12582912.0f; /* 1.5 * 2^23: adding it rounds to a whole number */
    x = NAME(larger)(x, NAME(all)(-87.0f));
    floats shifted = x * 1.44269504f + to_whole;
    floats n = shifted - to_whole;
    floats r = x - n * 0.693359375f + n * 2.12194440e-4f;
    floats p = r * (1.0f / 720) + 1.0f / 120;
    p = p * r + 1.0f / 24;
    p = p * r + 1.0f / 6;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    ints power = ((ints)shifted - (ints)NAME(all)(to_whole) + 127) << 23;
    return p * (floats)power;
}

/* As `gelu` of taggers/layers.py. */
INLINE floats NAME(gelu)(floats given)
{
    floats x = NAME(smaller)(NAME(larger)(given * 0.70710678f, NAME(all)(-4.0f)), NAME(all)(4.0f));
    floats square = x * x;
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

/* As `round_rows` of taggers/transformer/quantisation.py. */
TARGET static void NAME(round_row)(const float *row, size_t n, int8_t *rounded, float *scale)
{
    const float to_whole = 12582912.0f;
    floats most = NAME(all)(0);
    for (size_t k = 0; k < n; k += LANES)
        most = NAME(larger)((floats)((ints)NAME(load)(row + k) & 0x7fffffff), most);
    float largest = NAME(largest)(most);
    if (!(largest > 1e-12f))
        largest = 1e-12f;
    *scale = largest / 127;
    float factor = 127 / largest;
    for (size_t k = 0; k < n; k += LANES) {
        ints whole = (ints)(NAME(load)(row + k) * factor + to_whole) - (ints)NAME(all)(to_whole) + ZERO;
        *(bytes_anywhere *)(rounded + k) = __builtin_convertvector(whole, bytes);
    }
}

/* As `LayerNorm` of taggers/layers.py, in place. */
TARGET static void NAME(normalise)(float *row, size_t n, const float *scale, const float *bias, float eps)
{
    floats total = NAME(all)(0), square = total;
    for (size_t k = 0; k < n; k += LANES)
        total += NAME(load)(row + k);
    float mean = NAME(sum)(total) / n;
    for (size_t k = 0; k < n; k += LANES) {
        floats moved = NAME(load)(row + k) - mean;
        square += moved * moved;
    }
    float factor = 1 / __builtin_sqrtf(NAME(sum)(square) / n + eps);
    for (size_t k = 0; k < n; k += LANES)
        NAME(store)(row + k, (NAME(load)(row + k) - mean) * factor * NAME(load)(scale + k) + NAME(load)(bias + k));
}

enum { NAME(NOTHING), NAME(GELU), NAME(ADD) };

/* As `RoundedLinear` of taggers/transformer/quantisation.py, for at most ROWS rows; then GELU, or what is to be added. */
INLINE void NAME(multiply)(const matrix *by, const float *given, size_t rows, const memory *at, int then,
                           const float *add, float *out)
{
    for (size_t r = 0; r < rows; r++)
        NAME(round_row)(given + r * by->inputs, by->inputs, at->rounded + r * by->inputs, at->scales + r);
    for (size_t begin = 0; begin < by->outputs; begin += BLOCKS_AT_ONCE * LANES)
        for (size_t low = 0; low < rows; low += ROWS_AT_ONCE) {
            size_t end = begin + BLOCKS_AT_ONCE * LANES < by->outputs ? begin + BLOCKS_AT_ONCE * LANES : by->outputs;
            const int8_t *rounded[ROWS_AT_ONCE];
            ints sums[ROWS_AT_ONCE][BLOCKS_AT_ONCE];
            for (size_t i = 0; i < ROWS_AT_ONCE; i++)
                rounded[i] = at->rounded + (low + i < rows ? low + i : rows - 1) * by->inputs;
            NAME(products)(rounded, by->packed + begin / LANES * BLOCK_BYTES(by->inputs), by->inputs, sums);
            for (size_t r = low; r < low + ROWS_AT_ONCE && r < rows; r++)
                for (size_t n = begin; n < end; n += LANES) {
                    floats found = __builtin_convertvector(sums[r - low][(n - begin) / LANES], floats) * at->scales[r];
                    found = found * NAME(load)(by->scale + n) + NAME(load)(by->bias + n);
                    if (then == NAME(GELU))
                        found = NAME(gelu)(found);
                    if (then == NAME(ADD))
                        found += NAME(load)(add + r * by->outputs + n);
                    NAME(store)(out + r * by->outputs + n, found);
                }
        }
}

/* The weights with which four rows read all, not yet divided by their sums, which are returned in `totals`. */
INLINE void NAME(look)(const float *const *query, const memory *at, size_t rows, size_t wide, size_t head, float *totals)
{
    const ints places = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    const floats never = NAME(all)(-1e30f);
    floats most[4] = {never, never, never, never};
    for (size_t low = 0; low < wide; low += LANES) {
        floats found[4] = {{0}};
        for (size_t d = 0; d < head; d++) {
            floats key = NAME(load)(at->keys + d * wide + low);
            UNROLL for (int i = 0; i < 4; i++)
                found[i] += key * query[i][d];
        }
        ints there = places < (int32_t)(rows - low); /* and no padding up to a multiple of 16 */
        UNROLL for (int i = 0; i < 4; i++) {
            found[i] = NAME(choose)(there, found[i], never);
            most[i] = NAME(larger)(found[i], most[i]);
            NAME(store)(at->weights + i * wide + low, found[i]);
        }
    }
    UNROLL for (int i = 0; i < 4; i++) {
        floats total = {0};
        float *weights = at->weights + i * wide, largest = NAME(largest)(most[i]);
        for (size_t low = 0; low < wide; low += LANES) {
            floats found = NAME(exp)(NAME(load)(weights + low) - largest);
            NAME(store)(weights + low, found);
            total += found;
        }
        totals[i] = NAME(sum)(total);
    }
}

/* As `attention` of taggers/layers.py, for one window. */
TARGET static void NAME(attend)(const layer *with, size_t rows, const memory *at)
{
    size_t width = with->width, head = width / with->heads, wide = (rows + LANES - 1) / LANES * LANES;
    float factor = 1 / __builtin_sqrtf(head);
    for (size_t h = 0; h < with->heads; h++) {
        const float *queries = at->joined + h * head, *values = queries + 2 * width;
        for (size_t d = 0; d < head; d++)
            for (size_t j = 0; j < wide; j++)
                at->keys[d * wide + j] = j < rows ? queries[j * 3 * width + width + d] * factor : 0;
        for (size_t low = 0; low < rows; low += 4) {
            const float *query[4];
            float totals[4];
            size_t n = rows - low < 4 ? rows - low : 4;
            for (size_t i = 0; i < 4; i++)
                query[i] = queries + (low + (i < n ? i : n - 1)) * 3 * width;
            NAME(look)(query, at, rows, wide, head, totals);
            for (size_t d = 0; d < head; d += LANES) {
                floats found[4] = {{0}};
                for (size_t j = 0; j < rows; j++) {
                    floats value = NAME(load)(values + j * 3 * width + d);
                    UNROLL for (int i = 0; i < 4; i++)
                        found[i] += value * at->weights[i * wide + j];
                }
                UNROLL for (size_t i = 0; i < 4; i++)
                    if (i < n)
                        NAME(store)(at->context + (low + i) * width + h * head + d, found[i] / totals[i]);
            }
        }
    }
}

TARGET static void NAME(run)(const layer *with, float *state, size_t rows, const memory *at)
{
    size_t width = with->width;
    for (size_t low = 0; low < rows; low += ROWS) {
        size_t n = rows - low < ROWS ? rows - low : ROWS;
        NAME(multiply)(&with->looks, state + low * width, n, at, NAME(NOTHING), NULL, at->joined + low * 3 * width);
    }
    NAME(attend)(with, rows, at);
    for (size_t low = 0; low < rows; low += ROWS) {
        size_t n = rows - low < ROWS ? rows - low : ROWS;
        float *here = state + low * width;
        NAME(multiply)(&with->seen, at->context + low * width, n, at, NAME(ADD), here, at->between);
        for (size_t r = 0; r < n; r++)
            NAME(normalise)(at->between + r * width, width, with->first_scale, with->first_bias, with->eps);
        NAME(multiply)(&with->within, at->between, n, at, NAME(GELU), NULL, at->spread);
        NAME(multiply)(&with->outer, at->spread, n, at, NAME(ADD), at->between, here);
        for (size_t r = 0; r < n; r++)
            NAME(normalise)(here + r * width, width, with->second_scale, with->second_bias, with->eps);
    }
}

#undef INLINE
#undef NAME
#undef TARGET
#undef ZERO
#undef ROWS_AT_ONCE
#undef BLOCKS_AT_ONCE
