//! The pages about workflows that agents read, by topic.
//!
//! A model pays for every page that it reads, so each page is short and complete, with links only to pages that an
//! agent can read. The long form for people is in `docs/`.

use steplatch_protocol::WorkflowTopic;
use steplatch_sessions::TerminalTools;
use steplatch_workflow::action_reference;

/// Common properties of all actions, shown before their list.
const ACTIONS_INTRODUCTION: &str = "\
# Actions

`{\"tool\": …, \"params\": {…}}`. `session_id` is filled in: the run's terminal. Numbers and booleans may also be a `{variable}`.
";

/// Returns the page about a topic, in Markdown.
pub(crate) fn page(topic: WorkflowTopic) -> String {
    match topic {
        WorkflowTopic::Overview => include_str!("../guide/overview.md").to_owned(),
        WorkflowTopic::Machines => include_str!("../guide/machines.md").to_owned(),
        WorkflowTopic::Conditions => include_str!("../guide/conditions.md").to_owned(),
        WorkflowTopic::Actions => format!("{ACTIONS_INTRODUCTION}{}", action_reference(&TerminalTools)),
        WorkflowTopic::Functions => include_str!("../guide/functions.md").to_owned(),
        WorkflowTopic::Gates => include_str!("../guide/gates.md").to_owned(),
        WorkflowTopic::Errors => include_str!("../guide/errors.md").to_owned(),
        WorkflowTopic::Examples => include_str!("../guide/examples.md").to_owned(),
        WorkflowTopic::JsonSchema => "The schema is in json_schema.".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use steplatch_workflow::Definition;

    use super::*;

    const ALL: &[WorkflowTopic] = &[
        WorkflowTopic::Overview,
        WorkflowTopic::Machines,
        WorkflowTopic::Conditions,
        WorkflowTopic::Actions,
        WorkflowTopic::Functions,
        WorkflowTopic::Gates,
        WorkflowTopic::Errors,
        WorkflowTopic::Examples,
    ];

    #[test]
    fn every_page_is_short_and_has_no_links() {
        for topic in ALL {
            let page = page(*topic);
            let max_bytes = if *topic == WorkflowTopic::Overview { 6 << 10 } else { 8 << 10 };
            assert!(page.len() <= max_bytes, "{topic:?}: {} bytes", page.len());
            assert!(!page.contains("]("), "{topic:?}");
        }
    }

    #[test]
    fn every_complete_machine_on_a_page_is_valid() {
        let mut machines = 0;
        for topic in ALL {
            let page = page(*topic);
            let blocks = page.split("```json\n").skip(1).filter_map(|block| block.split("```").next());
            for block in blocks {
                let document: serde_json::Value =
                    serde_json::from_str(block).unwrap_or_else(|error| panic!("{topic:?}: {error}\n{block}"));
                if document.get("states").is_none() {
                    continue;
                }
                machines += 1;
                match Definition::parse(&document, &TerminalTools) {
                    Ok(definition) => assert!(definition.warnings().is_empty(), "{:?}\n{block}", definition.warnings()),
                    Err(problems) => panic!("{problems}\n{block}"),
                }
            }
        }
        assert!(machines >= 5, "{machines}");
    }
}
