//! Skills: directories of instructions for agents, served as resources (the Skills extension, SEP-2640,
//! <https://modelcontextprotocol.io/extensions/skills/overview>; the format of <https://agentskills.io/specification>).
//!
//! Pure: the module owns the shape of a skill, its entry with digests, and the addresses of its files.

use rmcp::model::{
    DIRECTORY_MIME_TYPE, Resource, ResourceContents, SKILL_MD, Skill, SkillFrontmatter, SkillResource, SkillResources,
};
use serde_json::Value;
use steplatch_protocol::SkillName;

/// Beginning of the address of a skill's file.
const SCHEME: &str = "skill://";

const MARKDOWN: &str = "text/markdown";

/// A skill with the content of its files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkillPackage {
    name: SkillName,
    description: String,
    files: Vec<SkillFile>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct SkillFile {
    /// Path in the directory of the skill, with `/` between its parts.
    path: String,
    mime_type: &'static str,
    text: String,
}

impl SkillPackage {
    /// Creates a skill whose `SKILL.md` has a name, a description and a `body` in Markdown.
    #[must_use]
    pub fn new(name: SkillName, description: &str, body: &str) -> Self {
        // A JSON string is a double-quoted scalar of YAML.
        let quoted = |text: &str| Value::from(text).to_string();
        let text = format!("---\nname: {}\ndescription: {}\n---\n\n{body}", quoted(name.as_str()), quoted(description));
        let file = SkillFile { path: SKILL_MD.to_owned(), mime_type: MARKDOWN, text };
        Self { name, description: description.to_owned(), files: vec![file] }
    }

    /// Adds a file. Its path consists of ASCII letters, digits, `-`, `_`, `.` and `/`.
    #[must_use]
    pub fn with_file(mut self, path: &str, mime_type: &'static str, text: String) -> Self {
        self.files.push(SkillFile { path: path.to_owned(), mime_type, text });
        self
    }

    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &SkillName {
        &self.name
    }

    fn uri(&self, path: &str) -> String {
        format!("{SCHEME}{}/{path}", self.name)
    }

    /// Returns the entry of the skill: its description, and all files with their digests.
    pub(crate) fn entry(&self) -> Skill {
        let files = self.files.iter().map(|file| SkillResource::from_bytes(self.uri(&file.path), file.text.as_bytes()));
        let frontmatter = SkillFrontmatter::new(self.name.as_str(), &self.description);
        Skill::new(self.uri(SKILL_MD), frontmatter, SkillResources::Files(files.collect()))
    }

    /// Returns `SKILL.md` as a resource.
    pub(crate) fn resource(&self) -> Resource {
        Resource::new(self.uri(SKILL_MD), self.name.as_str())
            .with_description(&self.description)
            .with_mime_type(MARKDOWN)
    }

    /// Returns the content of a file.
    pub(crate) fn read(&self, path: &str) -> Option<ResourceContents> {
        let file = self.files.iter().find(|file| file.path == path)?;
        Some(ResourceContents::text(&file.text, self.uri(path)).with_mime_type(file.mime_type))
    }

    /// Returns the direct children of a directory, of the skill itself with an empty path. `None` if there is no such
    /// directory.
    pub(crate) fn children(&self, directory: &str) -> Option<Vec<Resource>> {
        let prefix = if directory.is_empty() { String::new() } else { format!("{directory}/") };
        let mut children: Vec<Resource> = Vec::new();
        for file in &self.files {
            let Some(rest) = file.path.strip_prefix(&prefix) else { continue };
            let child = match rest.split_once('/') {
                Some((name, _)) => {
                    Resource::new(self.uri(&format!("{prefix}{name}")), name).with_mime_type(DIRECTORY_MIME_TYPE)
                }
                None if file.path == SKILL_MD => self.resource(),
                None => Resource::new(self.uri(&file.path), rest).with_mime_type(file.mime_type),
            };
            if !children.iter().any(|known| known.uri == child.uri) {
                children.push(child);
            }
        }
        (!children.is_empty()).then_some(children)
    }
}

/// Parses the address of a file or directory of a skill: the name of the skill, and the path. `None` for other addresses.
pub(crate) fn parse_uri(uri: &str) -> Option<(SkillName, &str)> {
    let (name, path) = uri.strip_prefix(SCHEME)?.split_once('/').unwrap_or((uri.strip_prefix(SCHEME)?, ""));
    Some((name.parse().ok()?, path))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package() -> SkillPackage {
        SkillPackage::new("release-app".parse().unwrap(), "Builds \"it\": all", "# Release\n")
            .with_file("references/machine.json", "application/json", "{}\n".to_owned())
            .with_file("references/steps.md", MARKDOWN, "steps\n".to_owned())
    }

    fn uris(children: &[Resource]) -> Vec<&str> {
        children.iter().map(|child| child.uri.as_str()).collect()
    }

    #[test]
    fn entry_lists_every_file_with_the_digest_of_what_is_read() {
        let package = package();
        let entry = package.entry();
        entry.validate().unwrap();
        let SkillResources::Files(files) = entry.resources else { panic!("the files are listed") };
        assert_eq!(files.len(), 3);
        for file in files {
            let (name, path) = parse_uri(&file.uri).unwrap();
            assert_eq!(name.as_str(), "release-app");
            let ResourceContents::TextResourceContents { text, .. } = package.read(path).unwrap() else {
                panic!("the file is text")
            };
            file.verify(text.as_bytes()).unwrap();
        }
    }

    #[test]
    fn frontmatter_is_that_of_the_entry() {
        let ResourceContents::TextResourceContents { text, .. } = package().read(SKILL_MD).unwrap() else {
            panic!("the file is text")
        };
        assert_eq!(text, "---\nname: \"release-app\"\ndescription: \"Builds \\\"it\\\": all\"\n---\n\n# Release\n");
    }

    #[test]
    fn directories_have_their_direct_children() {
        let package = package();
        let root = package.children("").unwrap();
        assert_eq!(uris(&root), ["skill://release-app/SKILL.md", "skill://release-app/references"]);
        assert!(root[1].is_directory());
        let references = package.children("references").unwrap();
        assert_eq!(
            uris(&references),
            ["skill://release-app/references/machine.json", "skill://release-app/references/steps.md"]
        );
        for path in ["SKILL.md", "reference", "references/steps.md", "references/"] {
            assert_eq!(package.children(path), None, "{path}");
        }
    }

    #[test]
    fn addresses_are_those_of_skills_only() {
        assert_eq!(parse_uri("skill://a"), Some(("a".parse().unwrap(), "")));
        assert_eq!(parse_uri("skill://a/b/c"), Some(("a".parse().unwrap(), "b/c")));
        for uri in ["skill://", "skill:///a", "skill://A/b", "run://a", "skill://../x"] {
            assert_eq!(parse_uri(uri), None, "{uri}");
        }
    }
}
