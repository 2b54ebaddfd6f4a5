//! The texts of `/help`, by topic.

use super::order::ORDERS;
use crate::print::{QUIET, STRONG, padded};

/// A topic of the help.
#[derive(Debug)]
pub(crate) struct Topic {
    pub(crate) name: &'static str,
    summary: &'static str,
    text: &'static str,
}

pub(crate) const TOPICS: [Topic; 7] = [
    Topic {
        name: "nodes",
        summary: "what @ calls",
        text: "\
A node takes an input and returns a result: a command, an HTTP request,
a tool of another server, a model. The project declares it in steplatch.toml:

    [nodes.greet]
    type = \"bash\"
    command = \"echo hello {input|sh}\"

    @greet world          calls it; all that follows the name is its input
    @identity hello       is always there and returns its input
    /nodes                lists what this project has
    /target @greet        sends it all plain text; /target off stops that

Each result has a number. ::0 is the output of the first one: see /help references.",
    },
    Topic {
        name: "graphs",
        summary: "what # runs",
        text: "\
A graph is nodes in the order of their dependencies; those that need nothing of each other run at once.

    #build main           runs the graph, with main as its input
    @build main           does the same: a graph can be called as a node is
    /graphs               lists what this project has

The output is followed by the outcome of each step.",
    },
    Topic {
        name: "workflows",
        summary: "what % runs, and what runs are",
        text: "\
A workflow is a procedure: a state machine in JSON or a function in Python syntax.

    %release 1.2          runs the saved workflow release; its variable input is 1.2
    %./story.py           runs a workflow from a file, and %./many.py:one that of several
    /workflows            lists what is saved
    /runs  /show RUN      list runs, and show one; a beginning of its id is enough
    /cancel RUN           cancels it

The steps of a run are shown live. A run belongs to no terminal: it continues when you leave.",
    },
    Topic {
        name: "references",
        summary: "what :: puts into a line",
        text: "\
Earlier results stand in for text, anywhere in a line:

    @greet ::0            the output of the first result
    @greet ::-1           of the last one, which is also ::last
    @greet ::build        of the last one that was called build
    @greet ::2['attributes']['exit_code']
                          a part of it; input, error and others: see /show 2
    ::0                   alone shows it

A reference to a result that is still coming waits for it. One that means nothing runs nothing.
As plain text it is written \\::0; inside words, as in std::fmt, it is plain text anyhow.",
    },
    Topic {
        name: "gates",
        summary: "questions that runs wait for",
        text: "\
A run may ask a person before it continues. Its question comes first:

    1                     picks the first choice; its words do the same
    any text              answers where there are no choices
    /answer RUN TEXT      answers the question of another run, or with text that begins with a sign
    Ctrl-C                leaves the questions open
    /gates                lists what is open, and asks again

Meanwhile anything else can be called.",
    },
    Topic {
        name: "background",
        summary: "work that takes longer",
        text: "\
What takes longer than two seconds goes to the background by itself and reports above the line that you type.

    /bg                   lists running calls
    /bg %release 1.2      starts it there, and shows only its questions and its end
    /fg 3                 waits for the third call; Ctrl-C interrupts it
    /fg RUN               watches a run, also one that was started elsewhere; Ctrl-C stops watching
    /ui RUN               shows it full screen, with input and output of its steps; /ui shows everything",
    },
    Topic {
        name: "keys",
        summary: "editing, completion, history",
        text: "\
    Tab                   completes names, commands, references and runs
    Up, Ctrl-R            earlier lines; a line that begins with a space is not stored
    Ctrl-C                clears the line, leaves a question, interrupts what is waited for
    Ctrl-D                leaves; calls end, runs continue

Other keys are those of Emacs and of your shell.",
    },
];

/// Returns the help on a topic, or the overview.
///
/// # Errors
/// If there is no such topic. The text lists the topics.
pub(crate) fn topic_text(topic: &str) -> Result<Vec<String>, String> {
    let topic = topic.trim().trim_start_matches(['/', ':']).to_lowercase();
    if topic.is_empty() || topic == "help" {
        return Ok(overview());
    }
    if let Some(found) = TOPICS.iter().find(|known| known.name == topic || known.name.strip_suffix('s') == Some(&topic))
    {
        let mut lines = vec![format!("{STRONG}{}{STRONG:#}: {}", found.name, found.summary), String::new()];
        lines.extend(found.text.lines().map(str::to_owned));
        return Ok(lines);
    }
    if let Some(row) = ORDERS.iter().find(|row| row.names.contains(&topic.as_str())) {
        return Ok(vec![format!("{STRONG}/{}{STRONG:#} {}: {}", row.names[0], row.arguments, row.summary)]);
    }
    let names: Vec<&str> = TOPICS.iter().map(|topic| topic.name).collect();
    Err(format!("there is no help about '{}'; the topics are {}", crate::print::visible(&topic), names.join(", ")))
}

fn overview() -> Vec<String> {
    let mut lines: Vec<String> = [
        ("@node text", "call a node"),
        ("#graph text", "run a graph"),
        ("%workflow text", "run a workflow, by name or file"),
        ("::0  ::last  ::node", "an earlier result, anywhere in a line"),
        ("1, or any text", "answer the current question"),
    ]
    .map(|(what, about)| format!("  {STRONG}{}{STRONG:#}  {about}", padded(what, 22)))
    .into();
    lines.push(String::new());
    for row in &ORDERS {
        let usage = padded(&format!("/{} {}", row.names[0], row.arguments), 22);
        lines.push(format!("  {usage}  {QUIET}{}{QUIET:#}", row.summary));
    }
    lines.push(String::new());
    let names: Vec<&str> = TOPICS.iter().map(|topic| topic.name).collect();
    lines.push(format!("  {QUIET}/help TOPIC teaches more: {}{QUIET:#}", names.join(", ")));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_topic_and_command_has_help() {
        for topic in &TOPICS {
            assert!(topic_text(topic.name).unwrap()[0].contains(topic.summary), "{}", topic.name);
            assert!(topic.text.lines().all(|line| line.chars().count() <= 110), "{} is wide", topic.name);
        }
        for row in &ORDERS {
            assert!(topic_text(row.names[0]).is_ok(), "{row:?}");
        }
        assert!(
            topic_text("/gate").unwrap()[0].contains("questions that runs wait for"),
            "a topic may be named with its slash"
        );
        assert!(topic_text("").unwrap().iter().any(|line| line.contains("/fg [RUN|NUMBER]")));
        assert!(
            topic_text("cooking")
                .unwrap_err()
                .ends_with("nodes, graphs, workflows, references, gates, background, keys")
        );
    }
}
