//! `steplatch examples`: the workflows that come with this program, to run and to change.

use std::process::ExitCode;

use clap::Args;

use super::bundle::Bundle;
use crate::failure::Failure;
use crate::print;

/// List the workflows that come with this program, or print one
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct Examples {
    /// Name of an example whose text is printed
    #[arg(value_name = "NAME", value_parser = WORKFLOWS.names())]
    name: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

const HELP: &str = "\
Example:
  steplatch examples hello.json > hello.json && steplatch run hello.json";

/// The files of the examples, from the simplest on.
const WORKFLOWS: Bundle = Bundle {
    list_key: "examples",
    summary_key: "description",
    summarize: description,
    remark: "print one with: steplatch examples NAME > NAME; run it with: steplatch run NAME",
    texts: &[
        ("hello.json", include_str!("../../examples/hello.json")),
        ("retry.json", include_str!("../../examples/retry.json")),
        ("count.json", include_str!("../../examples/count.json")),
        ("pdb.json", include_str!("../../examples/pdb.json")),
        ("probe.json", include_str!("../../examples/probe.json")),
        ("review.py", include_str!("../../examples/review.py")),
        ("fan_out.py", include_str!("../../examples/fan_out.py")),
        ("release.py", include_str!("../../examples/release.py")),
        ("careful.py", include_str!("../../examples/careful.py")),
    ],
};

/// Returns the description of a machine, or the docstring of a function.
fn description(text: &str) -> String {
    let of_machine = || Some(serde_json::from_str::<serde_json::Value>(text).ok()?["description"].as_str()?.to_owned());
    of_machine().unwrap_or_else(|| text.split("\"\"\"").nth(1).unwrap_or_default().trim_end_matches('.').to_owned())
}

impl Examples {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        WORKFLOWS.print(self.name.as_deref(), self.json, |text| print::line(text.trim_end()))?;
        Ok(ExitCode::SUCCESS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_example_file_is_listed_with_a_description() {
        let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
        let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap());
        let files = entries.filter(|entry| entry.file_type().unwrap().is_file());
        let mut files: Vec<String> = files.map(|entry| entry.file_name().into_string().unwrap()).collect();
        let mut workflow_names: Vec<String> = WORKFLOWS.texts.iter().map(|(name, _)| (*name).to_owned()).collect();
        files.sort();
        workflow_names.sort();
        assert_eq!(files, workflow_names);
        for (name, text) in WORKFLOWS.texts {
            assert!((20..110).contains(&description(text).len()), "{name}: {}", description(text));
        }
    }
}
