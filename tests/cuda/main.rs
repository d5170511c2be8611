//! The CUDA backend on virtual GPUs (`ctests/doubles/fakecuda`), through the real nvml-wrapper: discovery, queues, failures.

mod callbacks;
mod captures;
mod discovery;
mod failures;
mod fixtures;
mod graphs;
mod scripts;
mod shots;
mod work;
mod wrong_results;

use std::process::ExitCode;

use testkit::case;
use testkit::virtual_gpus::{self, Case};

const ONE: &str = "dev=mem:1G";
const TWO: &str = "dev=name:GTX 1080 Ti,cc:6.1,mem:2G,speed:2.2;dev=name:Tesla K40,cc:3.5,mem:1G,speed:1";
/// NVML orders by place on the bus, the driver by speed: no number of the one is that of the other.
const MIXED: &str = "dev=name:A,speed:1,pci:0000:01:00.0,mem:1G,uuid:aa000000-0000-0000-0000-000000000001;\
                     dev=name:B,speed:3,pci:0000:03:00.0,mem:2G,uuid:aa100000-0000-0000-0000-000000000002;\
                     dev=name:C,speed:2,pci:0000:02:00.0,mem:3G,uuid:bb000000-0000-0000-0000-000000000003";

const MIG: &str = "dev=name:H100,cc:9.0,mem:80G,mig:2,uuid:cc000000-0000-0000-0000-000000000001";
const MIG_AND_ANOTHER: &str = "dev=name:H100,cc:9.0,mem:80G,mig:2,uuid:cc000000-0000-0000-0000-000000000001;\
                               dev=name:A100,cc:8.0,mem:40G,uuid:dd000000-0000-0000-0000-000000000002";
/// NVML reports the memory of the whole GPU to its administrator only.
const MIG_OF_AN_ADMINISTRATOR: &str =
    "root=0;dev=name:H100,cc:9.0,mem:80G,mig:2,uuid:cc000000-0000-0000-0000-000000000001";
/// A driver before CUDA 11.4 does not report the UUID of a part.
const OLD_MIG: &str =
    "driver=11030;dev=name:A100,cc:8.0,mem:80G,mig:2,uuid:cc000000-0000-0000-0000-000000000001";
const EMPTY_MIG: &str = "dev=name:H100,cc:9.0,mem:80G,mig:empty,uuid:ee000000-0000-0000-0000-000000000001";
const CLOSED: &str = "dev=name:A,speed:2,mode:prohibited,mem:1G;dev=name:B,mem:1G";
const THREE: &str = "dev=mem:1G;dev=mem:1G;dev=mem:1G";
const TAKEN: &str = "dev=mode:exclusive,other:1M,mem:1G,speed:2;dev=mode:exclusive,mem:1G";
/// A GPU for each code that poisons a context, reported at the first wait.
const EIGHTEEN: &str = "dev=mem:64M;dev=mem:64M;dev=mem:64M;dev=mem:64M;dev=mem:64M;dev=mem:64M;dev=mem:64M;\
                        dev=mem:64M;dev=mem:64M;dev=mem:64M;dev=mem:64M;dev=mem:64M;dev=mem:64M;dev=mem:64M;\
                        dev=mem:64M;dev=mem:64M;dev=mem:64M;dev=mem:64M";
const STICKY: &str = "0:sync:1:214;1:sync:1:220;2:sync:1:226;3:sync:1:700;4:sync:1:702;5:sync:1:709;6:sync:1:710;\
                      7:sync:1:714;8:sync:1:715;9:sync:1:716;10:sync:1:717;11:sync:1:718;12:sync:1:719;\
                      13:sync:1:721;14:sync:1:810;15:sync:1:911;16:sync:1:999;17:sync:1:201";

/// Faults that flip many bits of a GPU at each launch: few matter, so that a result is wrong at each attempt.
macro_rules! flips {
    ($gpu:literal) => { flips!($gpu, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12) };
    ($gpu:literal $(, $seed:literal)+) => { concat!($($gpu, ":launch:*:flip=", $seed, ";"),+) };
}

/// A case whose driver fails as the last argument says, in the form of `FAKECUDA_FAULTS`.
macro_rules! faulty {
    ($module:ident :: $f:ident, $machine:expr, $faults:expr) => {
        case!($module::$f, $machine, "FAKECUDA_FAULTS" = $faults)
    };
}

#[rustfmt::skip]
fn cases() -> Vec<Case> {
    vec![
        // These take up to 22 s, so they begin first.
        faulty!(failures::a_hang, TWO, "0:launch:1:hang"),
        faulty!(failures::a_hang_beside_an_idle_slot, TWO, "0:launch:3:hang"),
        case!(failures::a_gpu_that_another_process_has, TAKEN),
        case!(failures::a_gpu_that_another_process_has, "driver=11040;dev=mode:exclusive,other:1M,speed:2;dev=mem:1G"),
        faulty!(shots::a_gpu_that_gives_less_than_it_promised, "dev=mem:32M,ctx:2M", "0:alloc:3:take=8e6"),
        faulty!(shots::a_gpu_whose_memory_others_hold, "dev=mem:32M,ctx:2M", "0:alloc:1:take=312e5"),
        faulty!(failures::memory_that_others_took_beside_a_new_context_is_waited_for, "dev=mem:64M,ctx:4M", "0:ctx:1:take=6e6"),
        faulty!(failures::memory_that_others_took_beside_a_new_context_is_waited_for, "nvml=470;dev=mem:64M,ctx:4M", "0:ctx:1:take=6e6"),
        faulty!(failures::a_process_that_waits_for_memory_has_no_context, "dev=mem:64M,ctx:4M", "0:ctx:1:take=6e6"),
        faulty!(failures::a_process_whose_callback_waits_for_memory_has_no_context, "dev=mem:64M,ctx:4M", "0:ctx:1:take=6e6"),
        case!(failures::memory_for_a_context_is_waited_for, "dev=mem:64M,ctx:8M,other:58M"),
        case!(failures::memory_for_a_context_is_waited_for, "dev=mem:8G,ctx:8M,other:8190M", "CASE_NVML" = "none"),
        faulty!(failures::context_without_memory_on_an_empty_gpu_is_not_waited_for, "dev=mem:8G", "0:ctx:*:2"),
        faulty!(failures::gpu_that_is_lost_under_a_library_call_is_retired, THREE, "0:sync:1:lost;1:sync:1:lost"),
        faulty!(failures::a_process_with_an_idle_slot_that_waits_for_memory_has_no_context, "dev=mem:64M,ctx:4M", "0:ctx:1:take=6e6"),
        case!(shots::a_field_of_too_many_values_needs_the_cpu, "dev=mem:900G"),
        case!(discovery::orders_that_differ, MIXED),
        case!(discovery::pci_order, MIXED, "CUDA_DEVICE_ORDER" = "PCI_BUS_ID"),
        case!(discovery::visible_numbers, MIXED, "CUDA_VISIBLE_DEVICES" = "2,0"),
        case!(discovery::visible_names, MIXED, "CUDA_VISIBLE_DEVICES" = "GPU-bb,GPU-aa1"),
        case!(discovery::visible_until_the_mistake, MIXED, "CUDA_VISIBLE_DEVICES" = "1,9,0"),
        case!(discovery::visible_none, MIXED, "CUDA_VISIBLE_DEVICES" = ""),
        case!(discovery::mig, MIG),
        case!(discovery::mig_without_its_gpu, MIG, "CASE_NVML" = "none"),
        case!(discovery::mig_without_its_gpu, MIG_OF_AN_ADMINISTRATOR),
        faulty!(discovery::mig_without_its_gpu, MIG, "0:mig:*:4"),
        case!(discovery::mig_by_its_name, MIG_AND_ANOTHER, "CUDA_VISIBLE_DEVICES" = "MIG-69000000-0000-0000-0000-000000000001"),
        case!(discovery::closed_gpus, CLOSED),
        case!(discovery::closed_gpus, CLOSED, "CASE_NVML" = "none"),
        case!(discovery::nothing_but_closed_gpus, "dev=mode:prohibited,mem:1G"),
        case!(discovery::driver_alone, MIXED, "CASE_NVML" = "none"),
        case!(discovery::nvml_that_fails, "nvml=notloaded;dev=name:A,mem:1G"),
        case!(discovery::nvml_that_fails, "nvml=mismatch;dev=name:A,mem:1G"),
        case!(discovery::nvml_of_470, "driver=11040;nvml=470;dev=name:K40,cc:3.5,mem:3G,other:1G"),
        faulty!(discovery::gpu_that_nvml_cannot_query_is_used, TWO, "0:nvml:*:999"),
        case!(discovery::lost_gpu, "dev=name:A,speed:2,mem:1G,lost:1;dev=name:B,mem:1G"),
        case!(discovery::part_of_an_old_driver_is_the_one_that_the_variable_names, OLD_MIG, "CUDA_VISIBLE_DEVICES" = "MIG-GPU-cc000000-0000-0000-0000-000000000001/1/0"),
        case!(discovery::part_of_an_old_driver_is_the_one_that_the_variable_names, OLD_MIG, "CUDA_VISIBLE_DEVICES" = "MIG-GPU-cc000000-0000-0000-0000-000000000001/2/0"),
        case!(discovery::only_part_of_an_old_driver_needs_no_name, "driver=11030;dev=cc:8.0,mem:80G,mig:1,uuid:cc000000-0000-0000-0000-000000000001"),
        case!(discovery::unnamed_part_of_an_old_driver_is_barred, OLD_MIG),
        case!(discovery::divided_gpu_without_parts_is_named, EMPTY_MIG),
        case!(discovery::divided_gpu_without_parts_is_named, EMPTY_MIG, "CUDA_VISIBLE_DEVICES" = "MIG-69"),
        case!(discovery::divided_gpu_without_parts_is_named_beside_others, "dev=name:H100,cc:9.0,mem:80G,mig:empty,uuid:ee000000-0000-0000-0000-000000000001;dev=mem:1G"),
        case!(discovery::no_driver, "", "CASE_NVML" = "nothing"),
        case!(discovery::cpu_fallback_replaces_missing_gpus_unless_the_variable_is_0, ""),
        case!(discovery::cpu_fallback_replaces_missing_gpus_unless_the_variable_is_0, "", "GPUSCHED_CPU_FALLBACK" = "1"),
        case!(discovery::cpu_fallback_that_is_off_leaves_no_device_where_there_is_no_gpu, "", "GPUSCHED_CPU_FALLBACK" = "0"),
        case!(discovery::cpu_fallback_is_not_needed_where_there_are_gpus, TWO, "GPUSCHED_CPU_FALLBACK" = "0"),
        case!(discovery::slots_variable_counts_where_the_caller_names_no_number, TWO, "GPUSCHED_SLOTS" = "3"),
        case!(discovery::a_toolkits_stub, "init=34;dev=mem:1G"),
        case!(discovery::a_driver_that_does_not_begin, "init=803;dev=mem:1G"),
        case!(discovery::driver_that_is_not_ready_is_not_replaced_by_the_cpu, "init=802;dev=mem:1G"),
        case!(discovery::driver_is_initialised_again_until_it_is_ready, "init=807:3;dev=mem:1G"),
        case!(discovery::child_forked_during_the_wait_for_the_driver_finds_no_gpus, "init=805:1;dev=mem:1G"),
        case!(discovery::memory_of_the_host, "dev=name:GB10,cc:12.1,mem:64T,ctx:1M,integrated:1"),
        case!(discovery::driver_is_searched_again_after_a_lack_of_descriptors, ONE),
        case!(discovery::old_driver, "driver=9010;dev=mem:1G"),
        case!(discovery::old_gpu, "dev=name:K10,cc:3.0,mem:1G"),
        case!(discovery::selection_without_gpus_loads_no_driver, ONE),
        case!(work::the_used_gpu_alone_has_a_context, TWO),
        case!(work::flags_of_contexts_are_restored, ONE),
        faulty!(work::flags_of_contexts_are_restored, ONE, "0:ctx:1:46"),
        case!(work::memory_is_used_again, ONE),
        case!(work::kernels_are_loaded_once_a_gpu, TWO),
        case!(work::a_deadline_begins_when_the_kernels_are_compiled, "jitms=2000;dev=mem:1G"),
        case!(work::loading_a_module_keeps_no_other_waiting, ONE),
        case!(work::pinned_memory_does_not_grow_with_the_tasks, ONE),
        faulty!(work::memory_that_is_short_to_pin, ONE, "0:host:2:2"),
        faulty!(work::memory_that_cant_be_pinned, ONE, "0:host:*:304"),
        case!(work::shared_objects_are_made_once, ONE),
        case!(work::memory_stays_with_its_slot_until_the_work_is_done, ONE),
        case!(work::task_ends_after_its_work_on_the_gpu, ONE),
        case!(work::mistakes_are_reported, ONE),
        case!(work::a_child_finds_no_gpus, ONE),
        case!(work::a_child_gets_no_pinned_memory, ONE),
        case!(work::child_forked_during_discovery_finds_no_gpus, "nvmlms=1500;dev=mem:1G"),
        case!(callbacks::a_callback_has_context_stream_and_memory, ONE),
        faulty!(callbacks::gpu_that_is_lost_under_a_callback_is_retired, THREE, "0:sync:1:lost;1:sync:1:lost"),
        case!(callbacks::memory_of_a_callback_is_not_reserved_as_well, "dev=mem:64M,ctx:8M"),
        case!(callbacks::callback_gets_the_memory_that_the_library_caches, "dev=mem:64M,ctx:8M"),
        case!(callbacks::status_of_a_callback_ends_or_retries_its_task, ONE),
        case!(callbacks::stream_left_in_a_capture_is_replaced, ONE),
        case!(callbacks::device_info_describes_a_gpu, TWO),
        case!(callbacks::a_callback_captures_a_graph_of_its_own, ONE),
        case!(captures::a_capture_of_another_library_goes_on, ONE),
        case!(captures::a_capture_of_another_library_goes_on, ONE, "CASE_NVML" = "none"),
        case!(captures::a_call_in_the_wrong_mode_ends_the_capture, ONE),
        case!(failures::no_memory_has_numbers, "dev=mem:64M,ctx:8M"),
        case!(failures::a_task_that_fits_only_without_the_context_is_refused_at_once, "dev=mem:64M,ctx:8M"),
        case!(failures::a_task_that_fits_only_without_the_context_is_refused_at_once, "dev=cc:9.0,mem:128M,mig:2,ctx:8M"),
        case!(failures::a_task_that_fits_only_without_the_context_is_refused_at_once, "dev=mem:64M,ctx:8M;dev=mem:64M,lost:1"),
        case!(failures::half_a_gpu_is_its_context, "dev=mem:64M,ctx:32M"),
        case!(failures::a_task_that_does_not_fit_beside_a_context_goes_to_another_gpu, "dev=mem:64M,ctx:8M,speed:9;dev=mem:64M"),
        faulty!(failures::task_goes_on_where_nothing_is_short, TWO, "0:alloc:1:take=2100e6"),
        faulty!(failures::task_goes_on_where_nothing_is_short, TWO, "0:launch:1:701"),
        faulty!(failures::a_poisoned_context, TWO, "0:launch:1:700"),
        faulty!(failures::a_poisoned_context_under_a_range, TWO, "0:launch:1:700"),
        faulty!(failures::every_code_that_poisons, EIGHTEEN, STICKY),
        faulty!(failures::a_poisoned_context, TWO, "0:launch:1:1700"),
        case!(failures::a_task_that_poisons_two_gpus, THREE),
        case!(failures::task_that_reports_last_is_the_cause, THREE),
        faulty!(failures::tasks_beside_the_cause_end_well, ONE, "0:launch:1:201"),
        faulty!(failures::two_schedulers_on_a_gpu, ONE, "0:launch:3:201"),
        faulty!(failures::context_is_not_renewed_under_a_task_that_waits, ONE, "0:launch:1:201"),
        case!(failures::context_that_a_callback_reported_is_left_by_other_schedulers, ONE, "GPUSCHED_LEASE_DIR" = "none"),
        case!(failures::nothing_of_ours_stays_in_the_context_of_another_library, ONE),
        faulty!(failures::a_context_that_can_not_be_ended, TWO, "0:launch:1:700;0:release:*:700;0:reset:*:700"),
        faulty!(failures::gpu_that_is_lost_is_retired, TWO, "0:launch:1:lost"),
        faulty!(failures::gpu_that_is_lost_is_retired, TWO, "0:sync:1:lost"),
        faulty!(failures::gpu_that_is_lost_is_retired, "dev=speed:2,mem:1G,gone:999;dev=mem:1G", "0:launch:1:lost"),
        faulty!(failures::gpu_that_is_lost_is_retired, "dev=speed:2,mem:1G,gone:16;dev=mem:1G", "0:launch:1:lost"),
        faulty!(failures::gpu_that_a_new_driver_does_not_know_is_retired, TWO, "0:ctx:1:101"),
        faulty!(failures::gpu_whose_contexts_are_unusable_at_once_is_retired, TWO, "0:stream:*:201"),
        faulty!(failures::unusable_contexts_after_a_failed_kernel_require_a_restart, ONE, "0:launch:1:201;0:stream:2+:201"),
        faulty!(failures::context_that_mps_refuses_after_a_failed_kernel_requires_a_restart, ONE, "0:launch:1:719;0:ctx:2+:807"),
        faulty!(failures::context_that_mps_refuses_after_a_failed_kernel_requires_a_restart, ONE, "0:launch:1:806;0:ctx:2+:805"),
        faulty!(failures::context_that_mps_refuses_after_a_failed_kernel_requires_a_restart, TWO, "0:launch:1:719;0:ctx:2+:807;1:ctx:*:807"),
        faulty!(failures::mps_that_is_not_ready_is_waited_for, ONE, "0:ctx:1:807"),
        faulty!(failures::gpu_that_is_closed_after_the_search_is_waited_for, ONE, "0:ctx:*:closed"),
        faulty!(failures::a_first_context_that_is_refused, TWO, "0:ctx:1:214"),
        case!(failures::a_context_that_another_library_resets, ONE),
        faulty!(failures::gpu_that_is_lost_is_retired, TWO, "0:module:*:222"),
        faulty!(failures::gpu_that_is_lost_is_retired, TWO, "0:module:*:218"),
        faulty!(failures::failed_load_without_a_fault_of_the_kernels_keeps_the_gpu, ONE, "0:module:1:304;0:module:2:1;0:module:3:917"),
        faulty!(wrong_results::a_gpu_whose_results_go_wrong_is_retired, TWO, "0:launch:*:nan=1"),
        faulty!(wrong_results::error_says_where_a_result_went_wrong, ONE, "0:launch:*:nan=1"),
        faulty!(wrong_results::a_check_finds_a_wrong_gpu_first, THREE, concat!("0:launch:*:nan=1;", flips!(2))),
        faulty!(wrong_results::gpu_that_passes_its_second_check_is_used, ONE, "0:launch:9:nan=1;0:launch:10:nan=2;0:launch:11:nan=3"),
        faulty!(wrong_results::survey_leaves_out_a_wrong_gpu, TWO, flips!(0)),
        case!(wrong_results::busy_gpu_is_not_checked_and_stays_in_the_survey, TAKEN),
        case!(wrong_results::benchmark_fails_if_a_repetition_has_another_record, ONE),
        faulty!(wrong_results::no_gpu_is_left, TWO, concat!(flips!(0), "1:launch:*:nan=2")),
        faulty!(failures::unknown_codes_are_errors_with_their_number, ONE, "0:ctx:1:46;0:alloc:1:917;0:launch:1:1234"),
        case!(shots::a_shot_goes_on_after_a_pause, ONE),
        case!(shots::share_of_computed_cells_is_that_of_the_steps, ONE),
        case!(shots::idle_plan_caches_no_memory, ONE),
        case!(shots::context_is_current_after_a_shot, ONE),
        case!(shots::plans_make_room_for_others, "dev=mem:32M,ctx:2M", "GPUSCHED_LEASE_DIR" = "none"),
        case!(shots::shots_have_the_bits_of_the_cpu, ONE),
        case!(shots::a_shot_that_blows_up_is_found, ONE),
        case!(shots::shot_of_the_advised_size_fits, "dev=mem:32M,ctx:2M"),
        case!(shots::small_shots_share_a_large_gpu, "pace=10;dev=mem:80G,sms:132"),
        case!(shots::small_shots_overlap_and_share_their_plan, "pace=100;dev=mem:1G,ctx:8M"),
        case!(shots::a_record_that_the_host_has_no_memory_for, ONE),
        case!(graphs::repeated_launches_become_one_graph, ONE),
        case!(graphs::stale_lists_make_room, ONE),
        case!(graphs::a_graph_in_flight_is_waited_for, "pace=100;dev=mem:1G"),
        case!(graphs::a_shots_batches_are_graphs, ONE),
        faulty!(graphs::shot_runs_without_graphs, ONE, "0:graph:*:801"),
        faulty!(graphs::shot_runs_without_graphs, ONE, "0:graph:30:2;0:graphlaunch:1:701"),
        faulty!(graphs::a_graph_that_poisons, TWO, "0:graphlaunch:2:719"),
        faulty!(graphs::a_graph_that_poisons, TWO, "0:graph:20:700"),
        faulty!(graphs::a_gpu_falls_off_at_a_graph, TWO, "0:graphlaunch:2:lost"),
        case!(scripts::one_script, TWO),
        case!(scripts::no_task_is_lost_in_random_failures, ONE),
    ]
}

fn main() -> ExitCode {
    let status = virtual_gpus::main(&cases());
    if std::env::var_os("CASE").is_some() {
        fixtures::assert_nothing_is_left();
    }
    status
}
