//! The table of Commander's commands, for lookup, completion and help.

use strsim::jaro_winkler;

/// A command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    Help,
    Nodes,
    Graphs,
    Workflows,
    Runs,
    Gates,
    Answer,
    Show,
    Cancel,
    Foreground,
    Background,
    History,
    Target,
    FullScreen,
    Clear,
    Quit,
}

/// A row of the table.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) order: Order,
    /// Names of the command. The help shows the first one.
    pub(crate) names: &'static [&'static str],
    /// Arguments, as the help shows them.
    pub(crate) arguments: &'static str,
    pub(crate) summary: &'static str,
}

const fn row(order: Order, names: &'static [&'static str], arguments: &'static str, summary: &'static str) -> Row {
    Row { order, names, arguments, summary }
}

pub(crate) const ORDERS: [Row; 16] = [
    row(Order::Help, &["help", "h", "?"], "[TOPIC]", "explain Commander, or a topic of it"),
    row(Order::Nodes, &["nodes"], "[TEXT]", "list the nodes of this project"),
    row(Order::Graphs, &["graphs"], "[TEXT]", "list the graphs of this project"),
    row(Order::Workflows, &["workflows"], "[TEXT]", "list the saved workflows"),
    row(Order::Runs, &["runs"], "[STATE|WORKFLOW]", "list runs, the newest first"),
    row(Order::Gates, &["gates"], "", "list the questions that runs wait for, and ask them again"),
    row(Order::Answer, &["answer"], "[RUN] ANSWER", "answer the current question, or that of a run"),
    row(Order::Show, &["show"], "RUN|NUMBER", "show a run, or a result with all its parts"),
    row(Order::Cancel, &["cancel"], "RUN|NUMBER", "cancel a run, or end a call"),
    row(Order::Foreground, &["fg"], "[RUN|NUMBER]", "watch a run, or wait for a call, until it is over"),
    row(Order::Background, &["bg"], "[LINE]", "list running calls, or start LINE without watching it"),
    row(Order::History, &["history"], "", "list what was called, with the numbers of the results"),
    row(Order::Target, &["target"], "[@NODE|#GRAPH|%WORKFLOW|off]", "choose the target of plain text, or show it"),
    row(Order::FullScreen, &["ui"], "[RUN|NUMBER]", "show what waits, terminals and runs full screen, or one run"),
    row(Order::Clear, &["clear"], "", "clear the screen"),
    row(Order::Quit, &["quit", "exit", "q"], "", "leave; runs continue"),
];

/// Minimum Jaro-Winkler similarity of a suggested name.
const MIN_SIMILARITY: f64 = 0.8;

/// Returns the command with the name `word`.
///
/// # Errors
/// If there is no such command. The text suggests a similar name.
pub(crate) fn find(word: &str) -> Result<Order, String> {
    let names = || ORDERS.iter().flat_map(|row| row.names.iter().map(move |name| (row.order, *name)));
    if let Some((order, _)) = names().find(|(_, name)| *name == word) {
        return Ok(order);
    }
    let nearest =
        names().map(|(_, name)| (jaro_winkler(name, word), name)).max_by(|left, right| left.0.total_cmp(&right.0));
    let nearest = nearest.filter(|(likeness, _)| *likeness > MIN_SIMILARITY);
    let hint = nearest.map_or_else(String::new, |(_, name)| format!(", did you mean /{name}?"));
    let stop = if hint.is_empty() { ";" } else { "" };
    let word = crate::print::visible(word);
    Err(format!("there is no command '/{word}'{hint}{stop} /help lists them"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_found_by_any_of_their_names() {
        for row in &ORDERS {
            assert!(row.names.iter().all(|name| find(name) == Ok(row.order)), "{row:?}");
        }
        assert_eq!(find("hlep").unwrap_err(), "there is no command '/hlep', did you mean /help? /help lists them");
        assert_eq!(find("zzz").unwrap_err(), "there is no command '/zzz'; /help lists them");
    }
}
