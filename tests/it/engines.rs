//! What every engine of runs does, on the real binary: one suite, applied to the daemon's own engine and to Temporal.
//!
//! A case gets a [`Rig`]: a home with a daemon whose runs one engine decides. The case crashes what decides, and what performs,
//! and looks at runs through the same commands and tools for every engine. Where the worker or the server of Temporal is not
//! installed, its cases are left out.

mod cases;
mod functions;
mod remotes;
mod rig;
mod temporal;

/// Applies every case of the suite to one engine. `$rig` makes a rig, or returns `None` where the engine cannot be had.
macro_rules! run_host_conformance {
    ($engine:ident, $rig:expr) => {
        run_host_conformance! { @cases $engine, $rig, cases,
            an_effect_that_was_decided_and_not_performed_is_performed_once_after_a_crash,
            an_effect_in_progress_is_not_repeated_after_a_crash,
            a_gate_survives_a_crash_and_its_answer_decides,
            a_second_answer_is_refused_and_says_what_the_first_one_was,
            a_nested_run_survives_a_crash_and_returns_its_result,
            a_host_that_was_away_finds_what_was_printed_meanwhile,
            what_happens_after_a_cancel_changes_nothing,
            the_terminals_of_a_run_that_is_cancelled_at_the_gate_of_a_nested_one_are_closed,
            a_run_ends_at_its_limit_of_states,
            a_run_ends_at_its_time_limit,
            a_state_ends_at_its_time_limit,
            a_paused_run_begins_nothing_and_goes_on_when_it_is_resumed,
            a_start_with_the_same_key_is_the_same_run,
            a_run_of_a_thousand_states_ends,
            an_unknown_outcome_stays_unknown,
            a_failed_run_shows_its_last_screen,
        }
    };
    (functions, $engine:ident, $rig:expr) => {
        run_host_conformance! { @cases $engine, $rig, functions,
            a_function_survives_crashes_at_its_gate_and_runs_no_command_twice,
            what_a_function_gathers_happens_at_once,
            a_function_waits_for_the_run_that_it_starts,
            a_machine_waits_for_the_function_that_it_starts_and_a_function_for_a_machine,
            a_paused_function_begins_nothing_and_goes_on_when_it_is_resumed,
            a_cancelled_function_cleans_up_after_its_command_has_ended,
            a_cancelled_function_ends_the_run_that_it_started_before_it_cleans_up,
            a_function_that_is_cancelled_at_once_ends,
            a_function_ends_at_its_time_limit,
            a_node_that_ran_when_its_daemon_was_killed_is_not_run_again,
            long_outputs_of_calls_that_end_at_once_come_whole,
            a_function_that_never_waits_is_paused_and_cancelled,
        }
    };
    (remotes, $engine:ident, $rig:expr) => {
        run_host_conformance! { @cases $engine, $rig, remotes,
            a_remote_workflow_survives_crashes_and_is_started_once,
            a_remote_workflow_that_is_cancelled_is_cancelled_at_its_service,
            a_machine_waits_for_the_remote_workflow_that_it_starts,
            a_function_waits_for_the_remote_workflow_that_it_starts,
            a_secret_in_the_input_of_a_remote_workflow_comes_back_to_the_function_that_starts_it,
            the_remote_workflow_of_a_cancelled_machine_is_cancelled_at_its_service,
            a_machine_is_paused_with_the_remote_workflow_that_it_waits_for,
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

run_host_conformance!(on_sqlite, super::rig::Rig::of_sqlite);
run_host_conformance!(on_temporal, super::rig::Rig::of_temporal);
run_host_conformance!(functions, functions_on_sqlite, super::rig::Rig::of_sqlite);
run_host_conformance!(functions, functions_on_temporal, super::rig::Rig::of_temporal);
run_host_conformance!(remotes, remotes_on_sqlite, super::rig::Rig::of_sqlite);
run_host_conformance!(remotes, remotes_on_temporal, super::rig::Rig::of_temporal);
