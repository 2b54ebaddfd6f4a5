//! `steplatch workflow export`: a saved workflow as a skill of agents.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};
use steplatch_capture::Golden;
use steplatch_daemon::TerminalTools;
use steplatch_protocol::{DaemonPaths, DescribeWorkflow, DescribeWorkflowReply, FunctionSource, SkillName};
use steplatch_workflow::Definition;

use super::golden;
use crate::failure::Failure;
use crate::print::{self, GOOD, STRONG, visible};
use crate::skill::{NotStandalone, STEPS_FILE, Skill, called_workflows, include_called};
use crate::{completion, daemon_client};

/// Write a saved workflow as a skill: a directory that agents find, read and run
///
/// The directory follows the Agent Skills format (agentskills.io): SKILL.md describes the workflow and its use, with
/// arguments, questions and requirements; scripts/ has the workflow, with the machines that it calls, and its
/// recording; references/ has the typed input. `steplatch run` runs it without the library. The name of the directory is
/// the name of the skill.
#[derive(Debug, Args)]
pub(crate) struct Export {
    /// Name of the workflow
    #[arg(value_name = "NAME", add = completion::workflows())]
    workflow: String,
    /// Directory of the skill, such as .claude/skills/release-app
    #[arg(long, value_name = "DIR", required = true)]
    skill: PathBuf,
    /// Purpose and use of the skill, by which agents select it [default: the description of the workflow]
    #[arg(long, short, value_name = "TEXT")]
    description: Option<String>,
    /// Omit the recording, which contains output of programs
    #[arg(long)]
    no_recording: bool,
    /// Replace files that exist
    #[arg(long)]
    force: bool,
    /// Print the files as JSON
    #[arg(long)]
    json: bool,
}

/// A file of the skill: the path in the directory, and the text.
type SkillFile = (String, String);

impl Export {
    pub(super) async fn run(self, paths: &DaemonPaths) -> Result<ExitCode, Failure> {
        let directory = std::path::absolute(&self.skill)
            .map_err(|error| Failure::usage(format!("'{}' is not a path: {error}", self.skill.display())))?;
        let name = SkillName::from_directory(&directory).map_err(|error| Failure::usage(error.to_string()))?;
        let described = describe_workflow(&self.workflow, paths).await?;
        let recording = if self.no_recording { None } else { golden::read(&self.workflow, paths).await? };
        let files = match (&described.definition, &described.source) {
            (Some(definition), _) => {
                self.machine_files(&name, &described, definition, recording.as_ref(), paths).await?
            }
            (None, Some(source)) => self.function_files(&name, &described, source)?,
            (None, None) => {
                let error =
                    format!("'{}' is not a saved machine or function; only these can be exported", self.workflow);
                return Err(Failure::usage(error));
            }
        };
        write_files(&directory, &files, self.force)?;
        if let Some(home) = recording.as_ref().and(std::env::var("HOME").ok()).filter(|home| home.len() > 1)
            && files.iter().any(|(_, text)| text.contains(&home))
        {
            print::remark(&format!(
                "the skill contains the path of your home directory ({home}); --no-recording omits the recording"
            ));
        }
        if self.json {
            let files: Vec<&str> = files.iter().map(|(path, _)| path.as_str()).collect();
            print::json(&json!({"success": true, "skill": name.to_string(), "directory": directory, "files": files}))?;
        } else {
            print::line(format!(
                "{GOOD}✓{GOOD:#} skill {STRONG}{name}{STRONG:#} in {}: {}",
                directory.display(),
                files.iter().map(|(path, _)| visible(path)).collect::<Vec<_>>().join(", ")
            ))?;
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Returns the files of a machine's skill.
    async fn machine_files(
        &self,
        name: &SkillName,
        described: &DescribeWorkflowReply,
        document: &Value,
        recording: Option<&Golden>,
        paths: &DaemonPaths,
    ) -> Result<Vec<SkillFile>, Failure> {
        let document = embed_called(document, paths).await?;
        let machine = Definition::parse(&document, &TerminalTools).map_err(|problems| {
            Failure::usage(format!(
                "'{}' is not valid as one file, with the machines that it calls:\n{problems}",
                self.workflow
            ))
        })?;
        let header = recording.map(|recording| &recording.header);
        // A proof is valid only for the proved version of the workflow.
        let hash = described.metadata.as_ref().map(|metadata| metadata.hash.as_str());
        let proof = header.and_then(|header| header.proof.as_ref());
        let valid_proof = proof.filter(|proof| hash == Some(proof.hash.as_str()));
        if proof.is_some() && valid_proof.is_none() {
            print::remark(&format!(
                "'{0}' was changed after its proof, so the skill does not mention the proof; prove it with: steplatch workflow prove {0}",
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
            proved: valid_proof.map(|proof| proof.at.as_str()),
        };
        let mut files = vec![("SKILL.md".to_owned(), skill.text())];
        files.extend(skill.steps().map(|steps| (STEPS_FILE.to_owned(), steps)));
        files.push((target.clone(), format!("{document:#}\n")));
        if let Some(recording) = recording {
            let path = golden::path(Path::new(&target)).display().to_string();
            files.push((path, recording.text()));
        }
        Ok(files)
    }

    /// Returns the files of a function's skill.
    fn function_files(
        &self,
        name: &SkillName,
        described: &DescribeWorkflowReply,
        source: &FunctionSource,
    ) -> Result<Vec<SkillFile>, Failure> {
        // A function may compute the names of workflows, so they cannot be included.
        if source.text.contains("run_workflow") {
            let error = format!("'{}' starts other workflows by name; they cannot be exported with it", self.workflow);
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
            "the skill has only the nodes of the function's file, not those that the project declares in steplatch.toml",
        );
        Ok(vec![("SKILL.md".to_owned(), skill.text()), (format!("scripts/{file}"), source.text.clone())])
    }
}

/// Reads a saved workflow.
///
/// # Errors
/// If there is no such workflow, or the daemon is unreachable.
async fn describe_workflow(name: &str, paths: &DaemonPaths) -> Result<DescribeWorkflowReply, Failure> {
    let reply = daemon_client::ask(paths, DescribeWorkflow { name: name.to_owned() }).await?;
    if !reply.success {
        let error = reply.error.clone().unwrap_or_else(|| format!("there is no workflow '{name}'"));
        return Err(Failure::usage(error).with(&reply));
    }
    Ok(reply)
}

/// Embeds the machines that a machine calls, directly or indirectly.
///
/// # Errors
/// If a called workflow cannot be embedded. The text names the workflow.
async fn embed_called(document: &Value, paths: &DaemonPaths) -> Result<Value, Failure> {
    let to_failure = |error: NotStandalone| Failure::usage(error.to_string());
    let mut machines: BTreeMap<String, Value> = BTreeMap::new();
    let mut names = called_workflows(document).map_err(to_failure)?;
    while let Some(name) = names.pop_first() {
        let described =
            describe_workflow(&name, paths).await.map_err(|_| to_failure(NotStandalone::Unknown(name.clone())))?;
        let definition = described.definition.ok_or_else(|| to_failure(NotStandalone::Unknown(name.clone())))?;
        let further_names = called_workflows(&definition).map_err(to_failure)?;
        machines.insert(name, definition);
        names.extend(further_names.into_iter().filter(|name| !machines.contains_key(name)));
    }
    include_called(document, &machines).map_err(to_failure)
}

/// Writes each file atomically. Writes none if a file exists and `overwrite` is false.
fn write_files(directory: &Path, files: &[SkillFile], overwrite: bool) -> Result<(), Failure> {
    if !overwrite
        && let Some((path, _)) = files.iter().find(|(path, _)| directory.join(path).symlink_metadata().is_ok())
    {
        let path = directory.join(path);
        return Err(Failure::usage(format!("'{}' exists; --force replaces it", path.display())));
    }
    for (path, text) in files {
        let path = directory.join(path);
        write_file(&path, text)
            .map_err(|error| Failure::work(format!("'{}' cannot be written: {error}", path.display())))?;
    }
    Ok(())
}

fn write_file(path: &Path, text: &str) -> std::io::Result<()> {
    let directory = path.parent().unwrap_or_else(|| Path::new("."));
    std::fs::create_dir_all(directory)?;
    let mut file = tempfile::Builder::new().permissions(shared_permissions()).tempfile_in(directory)?;
    file.write_all(text.as_bytes())?;
    file.persist(path)?;
    Ok(())
}

/// Returns the permissions of the files. All users may read them, because people share skills.
fn shared_permissions() -> std::fs::Permissions {
    std::os::unix::fs::PermissionsExt::from_mode(0o644)
}
