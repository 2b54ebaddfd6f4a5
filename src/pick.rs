//! List for picking an id that is missing from the command line, for a person at a terminal.

use std::io::{self, BufRead as _};

use steplatch_protocol::{DaemonPaths, ListTerminalSessions};

use crate::commands::{runs, terminal};
use crate::daemon_client;
use crate::failure::Failure;
use crate::print;
use crate::question::Person;

/// Maximum number of runs in the list.
const MAX_RUNS: u32 = 20;

/// Returns the named terminal, the only open one, or the person's choice.
///
/// # Errors
/// If `id` is `None`, and there is no item or no person to ask.
pub(crate) async fn terminal(paths: &DaemonPaths, id: Option<String>) -> Result<String, Failure> {
    if let Some(id) = id {
        return Ok(id);
    }
    let missing_message = "no terminal was given; list terminals with: steplatch terminal list";
    if Person::at_terminal().is_none() {
        return Err(Failure::usage(missing_message));
    }
    let sessions = daemon_client::ask(paths, ListTerminalSessions {}).await?.sessions;
    let rows = sessions.iter().map(|session| (session.session_id.clone(), terminal::format_row(session)));
    pick("terminal", rows.collect(), "no terminals are open; open one with: steplatch terminal open").await
}

/// Returns the named run, the only run, or the person's choice.
///
/// # Errors
/// If `id` is `None`, and there is no item or no person to ask.
pub(crate) async fn run(paths: &DaemonPaths, id: Option<String>) -> Result<String, Failure> {
    if let Some(id) = id {
        return runs::find(paths, &id).await;
    }
    let missing_message = "no run was given; list runs with: steplatch runs list";
    if Person::at_terminal().is_none() {
        return Err(Failure::usage(missing_message));
    }
    let runs = runs::list_runs(paths, None, None, MAX_RUNS).await?;
    let rows = runs.iter().map(|run| (run.run_id.clone(), runs::format_row(run)));
    pick("run", rows.collect(), "there are no runs; start one with: steplatch run").await
}

/// Returns the only id, or the id that the person chooses by the number of its row.
async fn pick(kind: &str, rows: Vec<(String, Vec<String>)>, empty_message: &str) -> Result<String, Failure> {
    let (ids, cells): (Vec<String>, Vec<Vec<String>>) = rows.into_iter().unzip();
    match ids.as_slice() {
        [] => return Err(Failure::usage(empty_message)),
        [only] => return Ok(only.clone()),
        _ => {}
    }
    let numbered = cells.into_iter().enumerate().map(|(index, cells)| {
        let mut row = vec![format!("{:>3}", index + 1)];
        row.extend(cells);
        row
    });
    let table = print::table(&numbered.collect::<Vec<_>>());
    for line in table.lines() {
        print::line(print::width().map_or_else(|| line.to_owned(), |width| print::fitted(line, width)))?;
    }
    print::ask(&format!("{kind}, by number:"))?;
    // Do not use the reading thread of questions, because the command itself may read the keyboard next.
    let line = tokio::task::spawn_blocking(|| {
        let mut line = String::new();
        io::stdin().lock().read_line(&mut line).map(|_| line)
    });
    let line = line.await.map_err(io::Error::other)??;
    find_picked(&ids, &line).cloned().ok_or_else(|| Failure::usage(format!("no {kind} was selected")))
}

/// Returns the id that a line selects by its number or by the id itself.
fn find_picked<'i>(ids: &'i [String], line: &str) -> Option<&'i String> {
    let line = line.trim();
    let by_number = line.parse::<usize>().ok().and_then(|number| ids.get(number.checked_sub(1)?));
    by_number.or_else(|| ids.iter().find(|id| *id == line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_is_picked_by_its_number_or_its_id() {
        let ids = ["run_a", "run_b"].map(str::to_owned);
        for (line, id) in [(" 2\n", Some(1)), ("run_a\n", Some(0)), ("0", None), ("3", None), ("", None)] {
            assert_eq!(find_picked(&ids, line), id.map(|at: usize| &ids[at]), "{line:?}");
        }
    }
}
