/* Threads go to the memory nodes that --numa names. */
#include "unit/unit.h"

#include "cmd/numa.h"

#include <string.h>

/* Two nodes of four CPUs, interleaved; the process runs on the second. */
static struct numa_machine two_nodes(void)
{
    struct numa_machine m = {.n_nodes = 2, .own_node = 1, .allowed = {0xFF}};
    m.node_cpus[0][0] = 0x55;
    m.node_cpus[1][0] = 0xAA;
    return m;
}

static void lists_of_cpus_are_read(void **state)
{
    (void)state;
    uint64_t cpus[NUMA_WORDS];
    assert_true(numa_parse_list("0-3,8,64-65\n", cpus));
    assert_int_equal(cpus[0], 0x10F);
    assert_int_equal(cpus[1], 3);
    assert_true(numa_parse_list("\n", cpus));
    assert_int_equal(cpus[0], 0);
    assert_false(numa_parse_list("a", cpus));
    assert_false(numa_parse_list("3-1", cpus));
    assert_false(numa_parse_list("0-99999", cpus));
    assert_false(numa_parse_list("1;2", cpus));
}

static void isolate_stays_on_the_node_of_the_process(void **state)
{
    (void)state;
    struct numa_machine m = two_nodes();
    struct worker_settings w = {.n_threads = 4};
    numa_apply(&m, OPTION_NUMA_ISOLATE, &w);
    assert_int_equal(w.cpu_mask[0], 0xAA);
    w.cpu_mask[0] = 0x0F;
    numa_apply(&m, OPTION_NUMA_ISOLATE, &w);
    assert_int_equal(w.cpu_mask[0], 0x0A);
}

static void distribute_takes_from_the_nodes_in_turn(void **state)
{
    (void)state;
    struct numa_machine m = two_nodes();
    m.node_cpus[0][0] = 0x0F;
    m.node_cpus[1][0] = 0xF0;
    struct worker_settings w = {.n_threads = 4};
    numa_apply(&m, OPTION_NUMA_DISTRIBUTE, &w);
    assert_int_equal(w.cpu_mask[0], 0x33);
    assert_true(w.strict);
    w = (struct worker_settings){.n_threads = 9};
    numa_apply(&m, OPTION_NUMA_DISTRIBUTE, &w);
    assert_int_equal(w.cpu_mask[0], 0xFF);
    assert_false(w.strict);
}

static void numactl_takes_what_the_process_was_given(void **state)
{
    (void)state;
    struct numa_machine m = two_nodes();
    m.allowed[0] = 0x3C;
    struct worker_settings w = {.n_threads = 2};
    numa_apply(&m, OPTION_NUMA_NUMACTL, &w);
    assert_int_equal(w.cpu_mask[0], 0x3C);
}

static void one_node_changes_nothing(void **state)
{
    (void)state;
    struct numa_machine m = {.n_nodes = 1, .allowed = {0xFF}};
    m.node_cpus[0][0] = 0xFF;
    struct worker_settings w = {.n_threads = 2};
    numa_apply(&m, OPTION_NUMA_DISTRIBUTE, &w);
    numa_apply(&m, OPTION_NUMA_ISOLATE, &w);
    assert_int_equal(w.cpu_mask[0], 0);
    assert_false(w.strict);
}

static void this_machine_has_a_node_with_a_cpu(void **state)
{
    (void)state;
    struct numa_machine m;
    numa_read_machine(&m);
    assert_true(m.n_nodes >= 1);
    bool any = false;
    for (size_t i = 0; i < NUMA_WORDS; i++)
        any = any || m.allowed[i];
    assert_true(any);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_of_cpus_are_read),
        cmocka_unit_test(isolate_stays_on_the_node_of_the_process),
        cmocka_unit_test(distribute_takes_from_the_nodes_in_turn),
        cmocka_unit_test(numactl_takes_what_the_process_was_given),
        cmocka_unit_test(one_node_changes_nothing),
        cmocka_unit_test(this_machine_has_a_node_with_a_cpu),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
