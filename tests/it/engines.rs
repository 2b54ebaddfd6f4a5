//! Behaviour of every run engine, on the real binary: one suite for the daemon's own engine and for Temporal.
//!
//! A case gets a [`Rig`]: a home with a daemon and a run engine. The case crashes the parts that decide and perform,
//! and observes runs through the same commands and tools for every engine. Without an installed Temporal worker or
//! server, Temporal's cases are skipped.

mod cases;
mod functions;
mod remotes;
mod rig;
mod temporal;

/// Applies every case of the suite to one engine. `$rig` creates a rig, or returns `None` if the engine is not
/// available.
macro_rules! run_host_conformance {
    ($engine:ident, $rig:expr) => {
        run_host_conformance! { @cases $engine, $rig, cases,
            pending_effect_is_performed_once_after_a_crash,
            effect_in_progress_is_not_repeated_after_a_crash,
            gate_survives_a_crash_and_takes_an_answer,
            second_answer_is_refused_naming_the_first,
            nested_run_survives_a_crash_and_returns_its_result,
            returning_host_finds_output_printed_while_it_was_away,
            events_after_a_cancel_change_nothing,
            cancel_at_a_nested_gate_closes_the_terminals_of_the_run,
            run_ends_at_its_state_limit,
            run_ends_at_its_time_limit,
            state_ends_at_its_time_limit,
            paused_run_begins_nothing_and_continues_when_resumed,
            start_with_the_same_key_is_the_same_run,
            run_with_a_thousand_states_completes,
            unknown_outcome_stays_unknown,
            failed_run_shows_its_last_screen,
        }
    };
    (functions, $engine:ident, $rig:expr) => {
        run_host_conformance! { @cases $engine, $rig, functions,
            function_survives_crashes_at_its_gate_and_repeats_nothing,
            gathered_calls_of_a_function_run_in_parallel,
            function_waits_for_its_started_run,
            machine_and_function_wait_for_each_other,
            paused_function_begins_nothing_and_continues_when_resumed,
            cancelled_function_cleans_up_after_its_command_exits,
            cancelled_function_ends_its_started_run_before_cleaning_up,
            function_can_be_cancelled_at_once,
            function_ends_at_its_time_limit,
            interrupted_node_is_not_run_again,
            long_outputs_of_short_calls_are_complete,
            busy_function_is_paused_and_cancelled,
        }
    };
    (remotes, $engine:ident, $rig:expr) => {
        run_host_conformance! { @cases $engine, $rig, remotes,
            remote_workflow_survives_crashes_and_starts_once,
            cancelled_remote_workflow_is_cancelled_at_its_service,
            machine_waits_for_its_remote_workflow,
            function_waits_for_its_remote_workflow,
            secret_input_of_a_remote_workflow_returns_to_its_function,
            cancelled_machine_cancels_its_remote_workflow,
            machine_is_paused_with_its_remote_workflow,
        }
    };
    (@cases $engine:ident, $rig:expr, $cases:ident, $($case:ident,)+) => {
        mod $engine {
            $(
                #[test]
                fn $case() {
                    if let Some(rig) = $rig(stringify!($case)) {
                        super::$cases::$case(&rig);
                    }
                }
            )+
        }
    };
}

run_host_conformance!(on_sqlite, super::rig::Rig::on_sqlite);
run_host_conformance!(on_temporal, super::rig::Rig::on_temporal);
run_host_conformance!(functions, functions_on_sqlite, super::rig::Rig::on_sqlite);
run_host_conformance!(functions, functions_on_temporal, super::rig::Rig::on_temporal);
run_host_conformance!(remotes, remotes_on_sqlite, super::rig::Rig::on_sqlite);
run_host_conformance!(remotes, remotes_on_temporal, super::rig::Rig::on_temporal);
