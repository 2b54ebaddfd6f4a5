//! steplatch: real terminals and procedures, for agents and people.
//!
//! Parses arguments and connects components; contains no logic of its own. Each command has a file in `commands`.

mod action;
mod attach;
mod calls_view;
mod child_runs;
mod clients;
mod commander;
mod commands;
mod completion;
mod daemon_client;
mod difference;
mod doctor;
mod failure;
mod gate_prompt;
mod http_listener;
mod keyboard;
mod outer_terminal;
mod page_server;
mod pager;
mod passphrase;
mod pick;
mod print;
mod question;
mod record;
mod run_changes;
mod run_steps;
mod run_view;
mod secret_arguments;
mod settings;
mod skill;
mod translation;
mod typed_inputs;
mod ui;
mod wait;

use std::process::ExitCode;

/// Allocator that measures the memory of executions in `steplatch worker`. Sets no limit in other processes.
#[global_allocator]
static ALLOCATOR: steplatch_python::worker::Allocator = steplatch_python::worker::Allocator;

fn main() -> ExitCode {
    completion::answer(commands::Arguments::grammar);
    if let Ok(ticket) = std::env::var(steplatch_daemon::QUESTION_VARIABLE) {
        return pass_on_question(ticket);
    }
    let (arguments, json) = match commands::Arguments::read() {
        Ok(parsed) => parsed,
        Err(error) => return failure::exit_with_usage(&error),
    };
    print::init_logging(arguments.verbose);
    let runtime = match arguments.runtime().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return failure::Failure::system("the program could not start", &error).report(json),
    };
    let code = match runtime.block_on(commands::run(arguments)) {
        Ok(code) => code,
        Err(failure) => failure.report(json),
    };
    // A thread that waits for a person's input must not delay the exit.
    runtime.shutdown_background();
    code
}

/// Runs as the askpass program of `ssh`, for `ssh`'s questions to the user.
fn pass_on_question(ticket: String) -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return failure::Failure::system("the program could not start", &error).report(false),
    };
    match runtime.block_on(commands::askpass::pass_on(ticket)) {
        Ok(code) => code,
        Err(failure) => failure.report(false),
    }
}
