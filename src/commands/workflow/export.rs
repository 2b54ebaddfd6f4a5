//! `steplatch workflow export`: a saved workflow as a skill of agents.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};
use steplatch_capture::Golden;
use steplatch_daemon::TerminalTools;
use steplatch_protocol::{DaemonPaths, DescribeWorkflow, DescribeWorkflowReply, FunctionSource};
use steplatch_workflow::Definition;

use super::golden;
use crate::failure::Failure;
use crate::print::{self, GOOD, STRONG, visible};
use crate::skill::{NotStandalone, STEPS, Skill, SkillName, called, standalone};
use crate::{completion, front};

/// Write a saved workflow as a skill: a folder that agents find, read and run
///
/// The folder follows the Agent Skills format (agentskills.io): SKILL.md says what the workflow does and how it is run, with
/// arguments, questions and needs; scripts/ has the workflow, with the machines that it calls inside, and its recording;
/// references/ what it types. `steplatch run` alone runs it; the library need not have it. The name of the folder is the
/// name of the skill.
#[derive(Debug, Args)]
pub(crate) struct Export {
    /// Name of the workflow
    #[arg(value_name = "NAME", add = completion::workflows())]
    workflow: String,
    /// Folder of the skill, such as .claude/skills/release-app
    #[arg(long, value_name = "DIR", required = true)]
    skill: PathBuf,
    /// What it does and when it is to be used, from which agents choose; without it the description of the workflow
    #[arg(long, short, value_name = "TEXT")]
    description: Option<String>,
    /// Leave the recording out, which has what programs printed
    #[arg(long)]
    no_recording: bool,
    /// Replace files that exist
    #[arg(long)]
    force: bool,
    /// Print the files as JSON
    #[arg(long)]
    json: bool,
}

/// A file of the skill: its path in the folder, and its text.
type SkillFile = (String, String);

impl Export {
    pub(super) async fn run(self, paths: &DaemonPaths) -> Result<ExitCode, Failure> {
        let folder = std::path::absolute(&self.skill)
            .map_err(|error| Failure::usage(format!("'{}' is no path: {error}", self.skill.display())))?;
        let name = SkillName::of_folder(&folder).map_err(|error| Failure::usage(error.to_string()))?;
        let described = described(&self.workflow, paths).await?;
        let recording = if self.no_recording { None } else { golden::read(&self.workflow, paths).await? };
        let files = match (&described.definition, &described.source) {
            (Some(definition), _) => self.machine(&name, &described, definition, recording.as_ref(), paths).await?,
            (None, Some(source)) => self.function(&name, &described, source)?,
            (None, None) => {
                let error = format!("'{}' is no saved machine or function: only these are exported", self.workflow);
                return Err(Failure::usage(error));
            }
        };
        write(&folder, &files, self.force)?;
        if let Some(home) = recording.as_ref().and(std::env::var("HOME").ok()).filter(|home| home.len() > 1)
            && files.iter().any(|(_, text)| text.contains(&home))
        {
            print::remark(&format!(
                "your home directory ({home}) stands in it; --no-recording leaves the recording out"
            ));
        }
        if self.json {
            let files: Vec<&str> = files.iter().map(|(path, _)| path.as_str()).collect();
            print::json(&json!({"success": true, "skill": name.to_string(), "directory": folder, "files": files}))?;
        } else {
            print::line(format!(
                "{GOOD}✓{GOOD:#} skill {STRONG}{name}{STRONG:#} in {}: {}",
                folder.display(),
                files.iter().map(|(path, _)| visible(path)).collect::<Vec<_>>().join(", ")
            ))?;
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Returns the files of a machine's skill.
    async fn machine(
        &self,
        name: &SkillName,
        described: &DescribeWorkflowReply,
        document: &Value,
        recording: Option<&Golden>,
        paths: &DaemonPaths,
    ) -> Result<Vec<SkillFile>, Failure> {
        let document = with_called(document, paths).await?;
        let machine = Definition::parse(&document, &TerminalTools).map_err(|problems| {
            Failure::usage(format!(
                "'{}' is not valid as one file, with the machines that it calls:\n{problems}",
                self.workflow
            ))
        })?;
        let header = recording.map(|recording| &recording.header);
        // A proof is of what the workflow did then.
        let hash = described.metadata.as_ref().map(|metadata| metadata.hash.as_str());
        let proof = header.and_then(|header| header.proof.as_ref());
        let proved = proof.filter(|proof| hash == Some(proof.hash.as_str()));
        if proof.is_some() && proved.is_none() {
            print::remark(&format!(
                "'{0}' was changed since it was proved, so the skill does not say that it is: steplatch workflow prove {0}",
                self.workflow
            ));
        }
        let target = format!("scripts/{}.json", self.workflow);
        let skill = Skill {
            name,
            workflow: &self.workflow,
            target: &target,
            description: self.description.as_deref().or(described.description.as_deref()),
            arguments: &described.arguments,
            machine: Some(&machine),
            captured: header.map(|header| header.captured.as_str()),
            proved: proved.map(|proof| proof.at.as_str()),
        };
        let mut files = vec![("SKILL.md".to_owned(), skill.text())];
        files.extend(skill.steps().map(|steps| (STEPS.to_owned(), steps)));
        files.push((target.clone(), format!("{document:#}\n")));
        if let Some(recording) = recording {
            let path = golden::path(Path::new(&target)).display().to_string();
            files.push((path, recording.text()));
        }
        Ok(files)
    }

    /// Returns the files of a function's skill.
    fn function(
        &self,
        name: &SkillName,
        described: &DescribeWorkflowReply,
        source: &FunctionSource,
    ) -> Result<Vec<SkillFile>, Failure> {
        // A function may compute a name in its code in any way.
        if source.text.contains("run_workflow") {
            let error = format!("'{}' starts other workflows by name: they cannot be taken along", self.workflow);
            return Err(Failure::usage(error));
        }
        let file = described.file.as_deref().map(Path::new).and_then(Path::file_name);
        let file = file.map_or_else(|| format!("{}.py", self.workflow), |file| file.to_string_lossy().into_owned());
        let target = format!("scripts/{file}:{}", self.workflow);
        let skill = Skill {
            name,
            workflow: &self.workflow,
            target: &target,
            description: self.description.as_deref().or(described.description.as_deref()),
            arguments: &described.arguments,
            machine: None,
            captured: None,
            proved: None,
        };
        print::remark(
            "nodes that the project declares in steplatch.toml are not taken along, only those of the function's file",
        );
        Ok(vec![("SKILL.md".to_owned(), skill.text()), (format!("scripts/{file}"), source.text.clone())])
    }
}

/// Reads a saved workflow.
///
/// # Errors
/// If there is none, or no daemon answers.
async fn described(name: &str, paths: &DaemonPaths) -> Result<DescribeWorkflowReply, Failure> {
    let reply = front::ask(paths, DescribeWorkflow { name: name.to_owned() }).await?;
    if !reply.success {
        let error = reply.error.clone().unwrap_or_else(|| format!("there is no workflow '{name}'"));
        return Err(Failure::usage(error).with(&reply));
    }
    Ok(reply)
}

/// Returns a machine with the machines that it calls inside.
///
/// # Errors
/// If a called workflow cannot come along, by its name.
async fn with_called(document: &Value, paths: &DaemonPaths) -> Result<Value, Failure> {
    let refused = |error: NotStandalone| Failure::usage(error.to_string());
    let mut known: BTreeMap<String, Value> = BTreeMap::new();
    let mut names = called(document).map_err(refused)?;
    while let Some(name) = names.pop_first() {
        let described = described(&name, paths).await.map_err(|_| refused(NotStandalone::Unknown(name.clone())))?;
        let definition = described.definition.ok_or_else(|| refused(NotStandalone::Unknown(name.clone())))?;
        let more = called(&definition).map_err(refused)?;
        known.insert(name, definition);
        names.extend(more.into_iter().filter(|name| !known.contains_key(name)));
    }
    standalone(document, &known).map_err(refused)
}

/// Writes the files, each completely. Writes nothing if one exists and `replaces` is false.
fn write(folder: &Path, files: &[SkillFile], replaces: bool) -> Result<(), Failure> {
    if !replaces && let Some((path, _)) = files.iter().find(|(path, _)| folder.join(path).symlink_metadata().is_ok()) {
        let path = folder.join(path);
        return Err(Failure::usage(format!("'{}' exists; --force replaces it", path.display())));
    }
    for (path, text) in files {
        let path = folder.join(path);
        put(&path, text).map_err(|error| Failure::work(format!("'{}' cannot be written: {error}", path.display())))?;
    }
    Ok(())
}

fn put(path: &Path, text: &str) -> std::io::Result<()> {
    let folder = path.parent().unwrap_or_else(|| Path::new("."));
    std::fs::create_dir_all(folder)?;
    let mut file = tempfile::Builder::new().permissions(readable()).tempfile_in(folder)?;
    file.write_all(text.as_bytes())?;
    file.persist(path)?;
    Ok(())
}

/// People share skills: all readers of their folder may read their files.
fn readable() -> std::fs::Permissions {
    std::os::unix::fs::PermissionsExt::from_mode(0o644)
}
