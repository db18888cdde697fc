/* Activations that are no numbers: quantized to something that can be summed. */
#include "kernels/table.h"
#include "unit/unit.h"

#include <float.h>
#include <math.h>

enum { N = 512 };

static void whatever_is_quantized_fits_eight_bits_and_its_sums(void **state)
{
    (void)state;
    static const float odd[] = {NAN, INFINITY, -INFINITY, FLT_MAX, -FLT_MAX, 1e-45f, 0.0f, 1.0f};
    const struct kernel_table *tables[] = {kernel_table(), &kernels_generic};
    float x[N], scale[N / 32];
    int8_t q[N];
    int32_t sum16[N / 16];
    struct act_row row = {q, scale, sum16};
    for (int i = 0; i < N; i++)
        x[i] = i % 7 == 3 ? odd[i / 7 % 8] : (float)(i % 13) - 6.0f;
    for (int k = 0; k < 4; k++) {
        const struct kernel_table *t = tables[k % 2];
        (k < 2 ? t->quantize : t->quantize_wide)(x, N, &row);
        for (int i = 0; i < N / 16; i++) {
            int32_t sum = 0;
            for (int j = 0; j < 16; j++) {
                assert_true(q[16 * i + j] >= -127);
                sum += q[16 * i + j];
            }
            assert_int_equal(sum, sum16[i]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whatever_is_quantized_fits_eight_bits_and_its_sums),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
